package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
)

// NamedMetrics are External metrics that are read from sources of the operator's, as a
// samples.Set has them.
type NamedMetrics interface {
	// Named returns the query of a metric in a namespace; false: there is none of that name.
	// The error says that the namespace may not use it.
	Named(namespace, name string) (samples.Query, bool, error)
	// Read asks for metrics.
	Read(ctx context.Context, metrics []samples.Metric, pods []string) samples.Readings
}

// named reads named metrics for Autoscalers. HorizontalPodAutoscalers get what the metrics
// APIs say, as from the built-in controller.
type named struct {
	metrics NamedMetrics
	timeout time.Duration
}

// split returns the autoscaler without the External metrics that have names, for the cluster
// to be asked for the others, and those.
func (n named) split(key Key, autoscaler *autoscalingv2.HorizontalPodAutoscaler) (rest *autoscalingv2.HorizontalPodAutoscaler, ours []autoscalingv2.MetricIdentifier) {
	if n.metrics == nil || sourceOf(key) != Autoscaler {
		return autoscaler, nil
	}
	isNamed := func(m autoscalingv2.MetricSpec) bool {
		if m.Type != autoscalingv2.ExternalMetricSourceType || m.External == nil {
			return false
		}
		_, ok, _ := n.metrics.Named(autoscaler.Namespace, m.External.Metric.Name)
		return ok
	}
	if !slices.ContainsFunc(autoscaler.Spec.Metrics, isNamed) {
		return autoscaler, nil
	}
	known := map[string]bool{}
	for _, m := range autoscaler.Spec.Metrics {
		if !isNamed(m) {
			continue
		}
		// A metric may be there twice, with two targets: values that are sent twice would
		// count twice. Of a selector that is not valid nothing is asked.
		selector, err := metav1.LabelSelectorAsSelector(spelled(m.External.Metric.Selector))
		if err != nil {
			continue
		}
		if identity := m.External.Metric.Name + "\n" + labelselector.Identity(selector); !known[identity] {
			known[identity] = true
			ours = append(ours, m.External.Metric)
		}
	}
	without := *autoscaler
	without.Spec.Metrics = slices.DeleteFunc(slices.Clone(autoscaler.Spec.Metrics), isNamed)
	if len(without.Spec.Metrics) == 0 {
		// None at all would stand for the default one, cpu. Of this type nothing is asked.
		without.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: "Named"}}
	}
	return &without, ours
}

// snapshot reads what an evaluation goes by, named metrics at the same time as the others.
func (n named) snapshot(ctx context.Context, from reader, key Key, autoscaler *autoscalingv2.HorizontalPodAutoscaler) (*kubernetes.Snapshot, error) {
	rest, ours := n.split(key, autoscaler)
	if rest == autoscaler {
		return from.Snapshot(ctx, autoscaler)
	}
	var (
		external []kubernetes.ExternalMetric
		failed   []kubernetes.MetricError
		reading  sync.WaitGroup
	)
	reading.Go(func() { external, failed = n.read(ctx, autoscaler.Namespace, ours) })
	snapshot, err := from.Snapshot(ctx, rest)
	reading.Wait()
	if err != nil {
		return nil, err
	}
	snapshot.Autoscaler = autoscaler
	if snapshot.ScaleError == nil && len(snapshot.Others) == 0 {
		snapshot.ExternalMetrics = append(snapshot.ExternalMetrics, external...)
		snapshot.MetricErrors = append(snapshot.MetricErrors, failed...)
	}
	return snapshot, nil
}

// read asks for named metrics, each once.
func (n named) read(ctx context.Context, namespace string, metrics []autoscalingv2.MetricIdentifier) (out []kubernetes.ExternalMetric, failed []kubernetes.MetricError) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	fail := func(m autoscalingv2.MetricIdentifier, message string) {
		failed = append(failed, kubernetes.MetricError{
			API: kubernetes.ExternalMetricsAPI, Metric: m.Name, Source: autoscalingv2.ExternalMetricSourceType,
			Selector: spelled(m.Selector), Message: message,
		})
	}
	for _, m := range metrics {
		query, _, err := n.metrics.Named(namespace, m.Name)
		if err != nil {
			fail(m, err.Error())
			continue
		}
		// One at a time, so that what is answered is of this metric: a spec may have one name
		// with several selectors. The sources answer equal queries once.
		read := n.metrics.Read(ctx, []samples.Metric{{Query: query, Spec: externalOf(m)}}, nil)
		for _, e := range read.MetricErrors {
			fail(m, e.GetMessage())
		}
		for _, v := range read.ExternalMetrics {
			value, err := valueOf(v)
			if err != nil {
				fail(m, err.Error())
				continue
			}
			out = append(out, kubernetes.ExternalMetric{ExternalMetricValue: value, Selector: spelled(m.Selector)})
		}
	}
	return out, failed
}

// spelled is a selector, empty for none.
func spelled(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s
}

func externalOf(m autoscalingv2.MetricIdentifier) *setpointv1.MetricSpec {
	spec := kubernetes.SpecToProto(&autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{
		Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: m},
	}}})
	return spec.GetMetrics()[0]
}

func valueOf(v *setpointv1.ExternalMetric) (externalv1beta1.ExternalMetricValue, error) {
	quantity, err := resource.ParseQuantity(v.GetValue())
	if err != nil {
		return externalv1beta1.ExternalMetricValue{}, errors.New("the source's value is no quantity")
	}
	return externalv1beta1.ExternalMetricValue{
		MetricName: v.GetMetric().GetName(), MetricLabels: v.GetLabels(),
		Timestamp: metav1.NewTime(v.GetTimestamp().AsTime()), Value: quantity,
	}, nil
}
