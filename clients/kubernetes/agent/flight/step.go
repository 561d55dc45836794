package flight

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// errUnlike means that a step would not replay as the same request.
var errUnlike = errors.New("the step would not replay as the same request")

// apiNames are the metrics APIs as recordings name them.
var apiNames = map[kubernetes.MetricsAPI]string{
	kubernetes.ResourceMetricsAPI: "resource",
	kubernetes.CustomMetricsAPI:   "custom",
	kubernetes.ExternalMetricsAPI: "external",
}

// snapshotOf is what the Kubernetes agent observed.
func snapshotOf(d *agent.Decision) *kubernetes.Snapshot {
	snapshot, _ := d.Observation.Native.(*kubernetes.Snapshot)
	return snapshot
}

// stepOf turns a decision into a step.
func stepOf(d *agent.Decision) (*recording.Step, error) {
	s := snapshotOf(d)
	step := &recording.Step{
		Time: d.At, Scale: s.Scale, Pods: s.Pods, PodMetrics: labelled(s),
		CustomMetrics: s.CustomMetrics, Expect: recording.ExpectOf(recording.OutcomeOf(d.Answer, d.Report, d.Applied)),
	}
	if s.ScaleError != nil {
		step.ScaleGetError, step.Scale = s.ScaleError.Message, nil
	}
	if d.ApplyError != nil {
		step.ScaleUpdateError = d.ApplyError.Error()
	}
	for _, series := range s.ExternalMetrics {
		step.ExternalMetrics = append(step.ExternalMetrics, series.ExternalMetricValue)
	}
	for _, failure := range s.MetricErrors {
		key, err := errorKey(&failure, s.Autoscaler.Spec.Metrics)
		if err != nil {
			return nil, err
		}
		if step.Errors == nil {
			step.Errors = map[string]string{}
		}
		step.Errors[key] = failure.Message
	}
	return step, nil
}

// errorKey is a failure's name in recordings, which only have names of metrics.
func errorKey(failure *kubernetes.MetricError, metrics []autoscalingv2.MetricSpec) (string, error) {
	key := apiNames[failure.API]
	if failure.Metric == "" || failure.API == kubernetes.ResourceMetricsAPI {
		return key, nil
	}
	namesakes := 0
	for i := range metrics {
		if metricName(&metrics[i]) == failure.Metric {
			namesakes++
		}
	}
	if namesakes > 1 {
		return "", fmt.Errorf("%w: one of several metrics %s failed", errUnlike, failure.Metric)
	}
	return key + ":" + failure.Metric, nil
}

func metricName(m *autoscalingv2.MetricSpec) string {
	switch {
	case m.Pods != nil:
		return m.Pods.Metric.Name
	case m.Object != nil:
		return m.Object.Metric.Name
	case m.External != nil:
		return m.External.Metric.Name
	}
	return ""
}

// labelled returns the usage with labels that match the selector: a recording is queried like
// the API, but a real answer for a selector may come without labels.
func labelled(s *kubernetes.Snapshot) []metricsv1beta1.PodMetrics {
	if !s.PodMetricsSelected || s.Scale == nil || len(s.PodMetrics) == 0 {
		return s.PodMetrics
	}
	selector, err := labels.Parse(s.Scale.Status.Selector)
	if err != nil {
		return s.PodMetrics
	}
	out := slices.Clone(s.PodMetrics)
	for i := range out {
		if out[i].Namespace == "" {
			out[i].Namespace = s.Autoscaler.Namespace
		}
		if !selector.Matches(labels.Set(out[i].Labels)) {
			out[i].Labels = matching(selector, out[i].Name, s.Pods)
		}
	}
	return out
}

// matching returns labels for a pod that match the selector: its own, or made-up ones.
func matching(selector labels.Selector, name string, pods []*corev1.Pod) map[string]string {
	for _, pod := range pods {
		if pod.Name == name {
			return pod.Labels
		}
	}
	made := map[string]string{}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			made[r.Key()] = slices.Sorted(maps.Keys(r.Values()))[0]
		case selection.Exists:
			made[r.Key()] = ""
		}
	}
	return made
}

// verify plays a step as a replay does, and compares the request with the real one.
func verify(scenario *recording.Scenario, step *recording.Step, d *agent.Decision) error {
	alone := *scenario
	alone.HPA = snapshotOf(d).Autoscaler.DeepCopy()
	var err error
	if alone.HPA.Annotations, err = annotationsOf(d.Request.GetStages()); err != nil {
		return err
	}
	request, err := recording.NewPlayer(&alone).Request(step, "c")
	if err != nil {
		return err
	}
	if !toldApart(snapshotOf(d)) || !proto.Equal(relevant(request), relevant(d.Request)) {
		return errUnlike
	}
	return nil
}

// relevant is the part of a request that describes the cluster. It leaves out errors of
// metrics, which recordings name differently but mean the same, and the selectors of external
// series, see toldApart.
func relevant(r *setpointv1.RecommendRequest) *setpointv1.RecommendRequest {
	series := make([]*setpointv1.ExternalMetric, len(r.GetExternalMetrics()))
	for i, one := range r.GetExternalMetrics() {
		series[i] = &setpointv1.ExternalMetric{
			Metric: &setpointv1.MetricIdentifier{Name: one.GetMetric().GetName()},
			Labels: one.GetLabels(), Timestamp: one.GetTimestamp(), Value: one.GetValue(),
		}
	}
	return &setpointv1.RecommendRequest{
		Spec: r.GetSpec(), Stages: r.GetStages(), Scale: r.GetScale(), ScaleError: r.GetScaleError(), SelectorProblem: r.GetSelectorProblem(),
		Pods: r.GetPods(), PodMetrics: r.GetPodMetrics(), CustomMetrics: r.GetCustomMetrics(), ExternalMetrics: series,
	}
}

// kindOf is the kind of a scale target as Scenario.Kinds has it.
func kindOf(a *autoscalingv2.HorizontalPodAutoscaler) string {
	version, err := schema.ParseGroupVersion(a.Spec.ScaleTargetRef.APIVersion)
	if err != nil {
		return ""
	}
	return schema.GroupKind{Group: version.Group, Kind: a.Spec.ScaleTargetRef.Kind}.String()
}

// rivals are the other autoscalers that select pods of the snapshot, for the check that no pod
// belongs to two.
func rivals(s *kubernetes.Snapshot) []recording.OtherHPA {
	var found []recording.OtherHPA
	for _, other := range s.Others {
		if other.Namespace != "" && other.Namespace != s.Autoscaler.Namespace || other.Name == s.Autoscaler.Name {
			continue
		}
		selector, err := labels.Parse(other.Selector)
		if err != nil || other.Selector == "" {
			continue
		}
		if slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) }) {
			found = append(found, recording.OtherHPA{Name: other.Name, Namespace: other.Namespace, Selector: other.Selector})
		}
	}
	return found
}
