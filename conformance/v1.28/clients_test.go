package v128

import (
	"context"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/scale"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
)

// scales reads and writes the scale of the target.
type scales struct {
	scale.ScaleInterface
	*cluster.Cluster
}

func (c scales) Scales(string) scale.ScaleInterface { return c }

func (c scales) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	return c.ReadScale()
}

func (c scales) Update(_ context.Context, _ schema.GroupResource, updated *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	return c.WriteScale(updated)
}

// podMetrics is the API metrics.k8s.io.
type podMetrics struct {
	resourceclient.PodMetricsInterface
	*cluster.Cluster
	namespace string
}

func (m podMetrics) PodMetricses(namespace string) resourceclient.PodMetricsInterface {
	m.namespace = namespace
	return m
}

func (m podMetrics) List(_ context.Context, options metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	return m.PodMetrics(m.namespace, options)
}
