package cluster

import (
	"context"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
)

// question is a query of a metrics API for one or more metrics of a spec.
type question struct {
	// identity is equal for queries with the same answer.
	identity string
	ask      func(context.Context, *asker) answer
}

// answer is the outcome of a request: readings, or an error.
type answer struct {
	podMetrics []metricsv1beta1.PodMetrics
	custom     []customv1beta2.MetricValue
	external   []kubernetes.ExternalMetric
	failure    *kubernetes.MetricError
}

// maxAtOnce bounds the concurrent queries of one evaluation.
const maxAtOnce = 8

// read queries the spec's metrics and adds the answers, in their order, to the snapshot.
func (r *Reader) read(ctx context.Context, snapshot *kubernetes.Snapshot, selector labels.Selector, own Own) {
	autoscaler := snapshot.Autoscaler
	by := &asker{autoscalerKey{autoscaler.Namespace, autoscaler.Name}, selector, snapshot.Pods}
	snapshot.PodMetricsSelected = true
	for _, answer := range askAll(ctx, r.questions(autoscaler.Spec.Metrics, own), by) {
		snapshot.PodMetrics = append(snapshot.PodMetrics, answer.podMetrics...)
		snapshot.CustomMetrics = appendNew(snapshot.CustomMetrics, answer.custom)
		snapshot.ExternalMetrics = append(snapshot.ExternalMetrics, answer.external...)
		if answer.failure != nil {
			snapshot.MetricErrors = append(snapshot.MetricErrors, *answer.failure)
		}
	}
}

// askAll runs several queries concurrently and returns the answers in order.
func askAll(ctx context.Context, questions []question, by *asker) []answer {
	answers := make([]answer, len(questions))
	if len(questions) == 1 {
		answers[0] = questions[0].ask(ctx, by)
		return answers
	}
	slots := make(chan struct{}, maxAtOnce)
	var all sync.WaitGroup
	for i := range questions {
		slots <- struct{}{}
		all.Go(func() {
			answers[i] = questions[i].ask(ctx, by)
			<-slots
		})
	}
	all.Wait()
	return answers
}

// questions returns the queries for metrics, each once. Without metrics it is the query for the
// API server's default metric. A metric with an invalid selector has no query, as upstream.
func (r *Reader) questions(metrics []autoscalingv2.MetricSpec, own Own) []question {
	if len(metrics) == 0 {
		return []question{r.usageQuestion()}
	}
	var out []question
	asked := map[string]bool{}
	for i := range metrics {
		var read OwnRead
		if own != nil {
			read = own(&metrics[i])
		}
		question, ok := r.questionOf(&metrics[i], read)
		if ok && !asked[question.identity] {
			asked[question.identity] = true
			out = append(out, question)
		}
	}
	return out
}

// questionOf returns the query for one metric, of its own read unless that is nil; not ok: none.
func (r *Reader) questionOf(metric *autoscalingv2.MetricSpec, own OwnRead) (q question, ok bool) {
	switch {
	case metric.Type == autoscalingv2.ResourceMetricSourceType && metric.Resource != nil,
		metric.Type == autoscalingv2.ContainerResourceMetricSourceType && metric.ContainerResource != nil:
		return r.usageQuestion(), true
	case metric.Type == autoscalingv2.PodsMetricSourceType && metric.Pods != nil:
		metric, ok := identified(&metric.Pods.Metric)
		return r.podsQuestion(metric, own), ok
	case metric.Type == autoscalingv2.ObjectMetricSourceType && metric.Object != nil:
		described := metric.Object.DescribedObject
		metric, ok := identified(&metric.Object.Metric)
		return r.objectQuestion(metric, described, own), ok
	case metric.Type == autoscalingv2.ExternalMetricSourceType && metric.External != nil:
		metric, ok := identified(&metric.External.Metric)
		return r.externalQuestion(metric, own), ok
	default:
		return question{}, false
	}
}

// identifiedMetric is a metric of the custom or external metrics API, as in a spec.
type identifiedMetric struct {
	Metric
	// spelled is the spec's own selector; never nil, empty for none.
	spelled *metav1.LabelSelector
	// meaning is equal for equivalent selectors.
	meaning string
}

// identified reads a spec's metric; not ok: its selector is invalid.
func identified(metric *autoscalingv2.MetricIdentifier) (m identifiedMetric, ok bool) {
	m = identifiedMetric{Metric{metric.Name, labels.Everything()}, &metav1.LabelSelector{}, ""}
	if metric.Selector == nil {
		return m, true
	}
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return m, false
	}
	m.Selector, m.spelled, m.meaning = selector, metric.Selector, labelselector.Identity(selector)
	return m, true
}

// objectOf reads a spec's described object. For a Namespace upstream uses the autoscaler's own,
// whatever name the spec gives.
func objectOf(described autoscalingv2.CrossVersionObjectReference, namespace string) Object {
	object := Object{
		Kind: schema.FromAPIVersionAndKind(described.APIVersion, described.Kind).GroupKind(),
		Name: described.Name,
	}
	if object.IsNamespace() {
		object.Name = namespace
	}
	return object
}
