package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/metrics/pkg/apis/external_metrics"
	metrics "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/target"
)

const (
	// metricName is the only metric: the count itself, so that a HorizontalPodAutoscaler with
	// an AverageValue of 1 scales to it.
	metricName = "recommended-replicas"
	// targetLabel selects the target by its name in the requested namespace.
	targetLabel = "target"
)

var resources = schema.GroupResource{Group: "external.metrics.k8s.io", Resource: metricName}

// provider answers a HorizontalPodAutoscaler with recommendations for targets of its own
// namespace only: the path of its request has the namespace, and the API server has authorized
// it.
type provider struct {
	cluster   string
	timeout   time.Duration
	now       func() time.Time
	recommend func(ctx context.Context, target string) (*setpointv1.Recommendation, error)
}

// ListAllExternalMetrics names the metric.
func (p *provider) ListAllExternalMetrics() []metrics.ExternalMetricInfo {
	return []metrics.ExternalMetricInfo{{Metric: metricName}}
}

// GetExternalMetric returns the recommended count, or an error of the API: the
// HorizontalPodAutoscaler keeps its count then.
func (p *provider) GetExternalMetric(ctx context.Context, namespace string, selector labels.Selector, info metrics.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	if info.Metric != metricName {
		return nil, notFound("there is no metric %.64q, only %q", info.Metric, metricName)
	}
	name, err := targetOf(selector)
	if err != nil {
		return nil, err
	}
	target := "clusters/" + p.cluster + "/namespaces/" + namespace + "/targets/" + name
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	r, err := p.recommend(ctx, target)
	if err != nil {
		return nil, ofService(target, err)
	}
	if err := p.check(r); err != nil {
		return nil, unavailable("the service's recommendation for %s can't be one: %v", target, err)
	}
	return &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{{
		MetricName:   metricName,
		MetricLabels: map[string]string{targetLabel: name},
		Timestamp:    metav1.NewTime(r.GetEvaluationTime().AsTime()),
		Value:        *resource.NewQuantity(int64(r.GetDesiredReplicas()), resource.DecimalSI),
	}}}, nil
}

// check validates a recommendation: a field that is lost in transit reads as zero.
func (p *provider) check(r *setpointv1.Recommendation) error {
	desired, current := r.GetDesiredReplicas(), r.GetCurrentReplicas()
	want := "NONE"
	switch {
	case desired > current:
		want = "SCALE_UP"
	case desired < current:
		want = "SCALE_DOWN"
	}
	at := r.GetEvaluationTime()
	switch {
	case desired < 0 || current < 0:
		return fmt.Errorf("%d replicas of %d", desired, current)
	case r.GetAction() != want:
		return fmt.Errorf("action %.32q from %d to %d", r.GetAction(), current, desired)
	case desired != current && (desired < r.GetMinReplicas() || desired > r.GetMaxReplicas()):
		return fmt.Errorf("%d, neither from %d to %d nor the current %d", desired, r.GetMinReplicas(), r.GetMaxReplicas(), current)
	case at == nil || !at.IsValid():
		return fmt.Errorf("it has no instant")
	}
	// Within the period of its spec a target has one recommendation.
	switch age := p.now().Sub(at.AsTime()); {
	case age > pace.MaxPeriod+setpoint.MaxClockSkew, age < -setpoint.MaxClockSkew:
		return fmt.Errorf("it is of %s", at.AsTime().Format(time.RFC3339))
	}
	return nil
}

// targetOf returns the target's name from a selector: exactly target=NAME.
func targetOf(selector labels.Selector) (string, error) {
	requirements, selectable := selector.Requirements()
	if selectable && len(requirements) == 1 {
		one := requirements[0]
		values := one.Values().UnsortedList()
		switch one.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if one.Key() == targetLabel && len(values) == 1 && target.IsSegment(values[0]) {
				return values[0], nil
			}
		}
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("select one target: metric.selector.matchLabels must be {%s: NAME} and nothing else, not %.200q", targetLabel, selector))
}

// ofService converts an error of the service to one of the API. Its text goes to the
// HorizontalPodAutoscaler's condition, which users of the target may read.
func ofService(target string, err error) error {
	s := status.Convert(err)
	reason := setpoint.Reason(err)
	if reason == "" {
		reason = s.Code().String()
	}
	switch s.Code() {
	case codes.NotFound:
		return notFound("%s: %s: %.500s", target, reason, s.Message())
	case codes.PermissionDenied, codes.Unauthenticated:
		// Refused credentials are the operator's problem.
		return unavailable("%s: the service refuses this program: %s", target, reason)
	case codes.DeadlineExceeded:
		return apierrors.NewTimeoutError(fmt.Sprintf("%s: the service did not answer in time", target), 0)
	}
	return unavailable("%s: %s: %.500s", target, reason, s.Message())
}

func notFound(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: fmt.Sprintf(format, args...),
		Details: &metav1.StatusDetails{Group: resources.Group, Kind: resources.Resource},
	}}
}

func unavailable(format string, args ...any) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf(format, args...))
}
