package agent

import (
	"context"
	"errors"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/samples"
)

// reader reads the input of decisions and writes the count. See cluster.Reader.
type reader interface {
	Snapshot(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler, own cluster.Own) (*kubernetes.Snapshot, error)
	Apply(ctx context.Context, snapshot *kubernetes.Snapshot, replicas int32) (*autoscalingv1.Scale, error)
	Replicas(ctx context.Context, snapshot *kubernetes.Snapshot) (int32, error)
	Forget(namespace, name string, uid types.UID)
}

var _ reader = (*cluster.Reader)(nil)

// NamedMetrics are External, Pods and Object metrics that the operator names, read from the
// operator's own sources, as by a samples.Set.
type NamedMetrics interface {
	// Named returns how to read a metric of a spec in a namespace; false if the operator does
	// not name it. The error says that the namespace may not use it.
	Named(namespace string, spec *setpointv1.MetricSpec) (samples.Metric, bool, error)
	// Read reads metrics.
	Read(ctx context.Context, metrics []samples.Metric, pods []string) samples.Readings
}

// snapshotFor reads the input of an object's evaluation. Only Autoscalers have named metrics:
// HorizontalPodAutoscalers see only the metrics APIs, as with the built-in controller.
func snapshotFor(ctx context.Context, from reader, o *object, metrics NamedMetrics, timeout time.Duration) (*kubernetes.Snapshot, error) {
	if sourceOf(o.key) != Autoscaler || metrics == nil {
		return from.Snapshot(ctx, o.autoscaler, nil)
	}
	return from.Snapshot(ctx, o.autoscaler, func(m *autoscalingv2.MetricSpec) cluster.OwnRead {
		metric, ok, refused := namedOf(metrics, o.autoscaler.Namespace, m)
		if !ok {
			return nil
		}
		return func(ctx context.Context, pods []*corev1.Pod) ([]customv1beta2.MetricValue, []externalv1beta1.ExternalMetricValue, error) {
			if refused != nil {
				return nil, nil, refused
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			names := make([]string, len(pods))
			for i, pod := range pods {
				names[i] = pod.Name
			}
			// Each metric by itself, so that each answer belongs to one: a spec may use one name with
			// several selectors. The sources answer equal queries once.
			return valuesOf(metrics.Read(ctx, []samples.Metric{metric}, names))
		}
	})
}

// namedOf returns how the operator's sources answer a metric of an Autoscaler; false if they don't.
func namedOf(metrics NamedMetrics, namespace string, m *autoscalingv2.MetricSpec) (metric samples.Metric, ok bool, refused error) {
	if m.External == nil && m.Pods == nil && m.Object == nil {
		return samples.Metric{}, false, nil
	}
	spec := kubernetes.SpecToProto(&autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{*m}}).GetMetrics()[0]
	return metrics.Named(namespace, spec)
}

// IsNamed reports whether the operator's sources answer a metric of an Autoscaler, so that no metrics API is asked.
func IsNamed(metrics NamedMetrics, namespace string, m *autoscalingv2.MetricSpec) bool {
	_, ok, _ := namedOf(metrics, namespace, m)
	return ok
}

var errNoQuantity = errors.New("the source's value is not a quantity")

// valuesOf returns readings in the form of the metrics APIs.
func valuesOf(read samples.Readings) (values []customv1beta2.MetricValue, series []externalv1beta1.ExternalMetricValue, err error) {
	if failed := read.MetricErrors; len(failed) > 0 {
		return nil, nil, errors.New(failed[0].GetMessage())
	}
	for _, v := range read.ExternalMetrics {
		quantity, err := resource.ParseQuantity(v.GetValue())
		if err != nil {
			return nil, nil, errNoQuantity
		}
		series = append(series, externalv1beta1.ExternalMetricValue{MetricLabels: v.GetLabels(), Timestamp: metav1.NewTime(v.GetTimestamp().AsTime()), Value: quantity})
	}
	for _, v := range read.CustomMetrics {
		quantity, err := resource.ParseQuantity(v.GetValue())
		if err != nil {
			return nil, nil, errNoQuantity
		}
		value := customv1beta2.MetricValue{
			DescribedObject: corev1.ObjectReference{Name: v.GetDescribedObject().GetName()}, Timestamp: metav1.NewTime(v.GetTimestamp().AsTime()), Value: quantity,
		}
		if v.WindowSeconds != nil {
			value.WindowSeconds = new(int64(v.GetWindowSeconds()))
		}
		values = append(values, value)
	}
	return values, series, nil
}

// SnapshotOf reads the input of an agent's evaluation of a stored Autoscaler or
// HorizontalPodAutoscaler. metrics may be nil; the timeout bounds the reading of each.
func SnapshotOf(ctx context.Context, from *cluster.Reader, stored client.Object, metrics NamedMetrics, timeout time.Duration) (*kubernetes.Snapshot, error) {
	o := objectOf(stored)
	if o == nil {
		return nil, kubernetes.ErrNoAutoscaler
	}
	return snapshotFor(ctx, from, o, metrics, timeout)
}
