// Package named reads metrics that the operator named, from the operator's own sources, in
// addition to the cluster's metrics APIs.
package named

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
)

// Metrics are External, Pods and Object metrics read from the operator's sources, as by a
// samples.Set.
type Metrics interface {
	// Named returns how to read a metric of a spec in a namespace; false if the operator does
	// not name it. The error says that the namespace may not use it.
	Named(namespace string, spec *setpointv1.MetricSpec) (samples.Metric, bool, error)
	// Read reads metrics.
	Read(ctx context.Context, metrics []samples.Metric, pods []string) samples.Readings
}

// MaxReads bounds the concurrent reads of one Autoscaler's named metrics. Each source bounds
// its own concurrency.
const MaxReads = 8

// Reader reads named metrics beside those of a cluster.
type Reader struct {
	// Metrics are the operator's metrics. Nil disables them.
	Metrics Metrics
	// Timeout bounds the reads of one evaluation.
	Timeout time.Duration
}

// Snapshots reads the input of an evaluation. Package cluster's Reader implements it.
type Snapshots interface {
	Snapshot(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler) (*kubernetes.Snapshot, error)
}

// metric is a metric of a spec that the operator names.
type metric struct {
	samples.Metric
	// refused is why the namespace may not use it; nil: it may.
	refused error
	kind    autoscalingv2.MetricSourceType
	// identifier is the metric's, with the selector as spelled in the spec, empty for none.
	identifier autoscalingv2.MetricIdentifier
	selector   labels.Selector
	// object is the described object; nil: it is no Object metric.
	object *autoscalingv2.CrossVersionObjectReference
}

// identity is equal for metrics with equal values.
func (m *metric) identity() string {
	parts := []string{string(m.kind), m.identifier.Name, labelselector.Identity(m.selector)}
	if m.object != nil {
		parts = append(parts, m.object.APIVersion, m.object.Kind)
		if !isNamespace(m.object) {
			parts = append(parts, m.object.Name)
		}
	}
	return strings.Join(parts, "\n")
}

// isNamespace reports whether an object is the Namespace, whatever a spec calls it.
func isNamespace(o *autoscalingv2.CrossVersionObjectReference) bool {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// find returns a metric as a named one; nil if the operator does not name it.
func (n Reader) find(namespace string, m autoscalingv2.MetricSpec) *metric {
	found := &metric{kind: m.Type}
	switch {
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		found.identifier = m.External.Metric
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		found.identifier = m.Pods.Metric
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		found.identifier, found.object = m.Object.Metric, &m.Object.DescribedObject
	default:
		return nil
	}
	spec := kubernetes.SpecToProto(&autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{m}}).GetMetrics()[0]
	metric, ok, err := n.Metrics.Named(namespace, spec)
	if !ok {
		return nil
	}
	if found.identifier.Selector == nil {
		found.identifier.Selector = &metav1.LabelSelector{}
	}
	found.Metric, found.refused = metric, err
	return found
}

// split returns the autoscaler without its named metrics, for reading the others from the
// cluster, and the named ones.
func (n Reader) split(autoscaler *autoscalingv2.HorizontalPodAutoscaler) (rest *autoscalingv2.HorizontalPodAutoscaler, ours []*metric) {
	if n.Metrics == nil {
		return autoscaler, nil
	}
	var others []autoscalingv2.MetricSpec
	known := map[string]bool{}
	for _, m := range autoscaler.Spec.Metrics {
		found := n.find(autoscaler.Namespace, m)
		if found == nil {
			others = append(others, m)
			continue
		}
		// A metric may occur twice, with two targets: values sent twice would count twice. A
		// metric with an invalid selector is not read.
		var err error
		if found.selector, err = metav1.LabelSelectorAsSelector(found.identifier.Selector); err != nil {
			continue
		}
		if identity := found.identity(); !known[identity] {
			known[identity] = true
			ours = append(ours, found)
		}
	}
	if len(others) == len(autoscaler.Spec.Metrics) {
		return autoscaler, nil
	}
	without := *autoscaler
	if without.Spec.Metrics = others; len(others) == 0 {
		// No metrics at all would mean the default one, cpu. Metrics of this type are not read.
		without.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: "Named"}}
	}
	return &without, ours
}

// Snapshot reads the input of an evaluation. It reads named metrics concurrently with the
// others, except those of pods, for which it needs the pods first.
func (n Reader) Snapshot(ctx context.Context, from Snapshots, autoscaler *autoscalingv2.HorizontalPodAutoscaler) (*kubernetes.Snapshot, error) {
	rest, ours := n.split(autoscaler)
	if rest == autoscaler {
		return from.Snapshot(ctx, autoscaler)
	}
	var ofPods, others []*metric
	for _, m := range ours {
		if m.kind == autoscalingv2.PodsMetricSourceType {
			ofPods = append(ofPods, m)
		} else {
			others = append(others, m)
		}
	}
	var (
		read    readings
		reading sync.WaitGroup
	)
	reading.Go(func() { read = n.read(ctx, autoscaler.Namespace, others, nil) })
	snapshot, err := from.Snapshot(ctx, rest)
	reading.Wait()
	if err != nil {
		return nil, err
	}
	snapshot.Autoscaler = autoscaler
	if snapshot.ScaleError != nil || len(snapshot.Others) > 0 {
		return snapshot, nil
	}
	read.into(snapshot)
	if len(ofPods) > 0 {
		names := make([]string, len(snapshot.Pods))
		for i, pod := range snapshot.Pods {
			names[i] = pod.Name
		}
		n.read(ctx, autoscaler.Namespace, ofPods, names).into(snapshot)
	}
	return snapshot, nil
}

// readings are the results of named metrics.
type readings struct {
	external []kubernetes.ExternalMetric
	custom   []customv1beta2.MetricValue
	failed   []kubernetes.MetricError
}

func (r readings) into(s *kubernetes.Snapshot) {
	s.ExternalMetrics = append(s.ExternalMetrics, r.external...)
	s.CustomMetrics = append(s.CustomMetrics, r.custom...)
	s.MetricErrors = append(s.MetricErrors, r.failed...)
}

// read reads named metrics concurrently, each once and by itself, so that each answer belongs
// to one metric: a spec may use one name with several selectors. The sources answer equal
// queries once.
func (n Reader) read(ctx context.Context, namespace string, metrics []*metric, pods []string) readings {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	results := make([]readings, len(metrics))
	turns := make(chan struct{}, MaxReads)
	var reading sync.WaitGroup
	for i, m := range metrics {
		turns <- struct{}{}
		reading.Go(func() {
			defer func() { <-turns }()
			results[i] = n.readOne(ctx, namespace, m, pods)
		})
	}
	reading.Wait()
	var all readings
	for _, r := range results {
		all.external, all.custom, all.failed = append(all.external, r.external...), append(all.custom, r.custom...), append(all.failed, r.failed...)
	}
	return all
}

func (n Reader) readOne(ctx context.Context, namespace string, m *metric, pods []string) (out readings) {
	fail := func(message string) {
		e := kubernetes.MetricError{
			API: kubernetes.CustomMetricsAPI, Metric: m.identifier.Name, Source: m.kind,
			Selector: m.identifier.Selector, Object: m.object, Message: message,
		}
		if m.kind == autoscalingv2.ExternalMetricSourceType {
			e.API = kubernetes.ExternalMetricsAPI
		}
		out.failed = append(out.failed, e)
	}
	if m.refused != nil {
		fail(m.refused.Error())
		return out
	}
	read := n.Metrics.Read(ctx, []samples.Metric{m.Metric}, pods)
	for _, e := range read.MetricErrors {
		fail(e.GetMessage())
	}
	for _, v := range read.ExternalMetrics {
		value, err := valueOf(v)
		if err != nil {
			fail(err.Error())
			continue
		}
		out.external = append(out.external, kubernetes.ExternalMetric{ExternalMetricValue: value, Selector: m.identifier.Selector})
	}
	for _, v := range read.CustomMetrics {
		value, err := m.customOf(v, namespace)
		if err != nil {
			fail(err.Error())
			continue
		}
		out.custom = append(out.custom, value)
	}
	return out
}

var errNoQuantity = errors.New("the source's value is not a quantity")

func valueOf(v *setpointv1.ExternalMetric) (externalv1beta1.ExternalMetricValue, error) {
	quantity, err := resource.ParseQuantity(v.GetValue())
	if err != nil {
		return externalv1beta1.ExternalMetricValue{}, errNoQuantity
	}
	return externalv1beta1.ExternalMetricValue{
		MetricName: v.GetMetric().GetName(), MetricLabels: v.GetLabels(),
		Timestamp: metav1.NewTime(v.GetTimestamp().AsTime()), Value: quantity,
	}, nil
}

// customOf returns a value of a pod, or of the described object, in the form of
// custom.metrics.k8s.io.
func (m *metric) customOf(v *setpointv1.CustomMetric, namespace string) (customv1beta2.MetricValue, error) {
	quantity, err := resource.ParseQuantity(v.GetValue())
	if err != nil {
		return customv1beta2.MetricValue{}, errNoQuantity
	}
	of := v.GetDescribedObject()
	out := customv1beta2.MetricValue{
		DescribedObject: corev1.ObjectReference{APIVersion: of.GetApiVersion(), Kind: of.GetKind(), Namespace: namespace, Name: of.GetName()},
		Metric:          customv1beta2.MetricIdentifier{Name: m.identifier.Name},
		Timestamp:       metav1.NewTime(v.GetTimestamp().AsTime()), Value: quantity,
	}
	if m.object != nil && isNamespace(m.object) {
		out.DescribedObject.Name = namespace
	}
	if labelselector.Identity(m.selector) != "" {
		out.Metric.Selector = m.identifier.Selector
	}
	if v.WindowSeconds != nil {
		seconds := int64(v.GetWindowSeconds())
		out.WindowSeconds = &seconds
	}
	return out, nil
}
