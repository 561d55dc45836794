package apiserver

import (
	"context"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// podsPage is the number of pods per page of a list.
const podsPage = 500

// Get returns the scale of an object.
func (c *Client) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (*autoscalingv1.Scale, error) {
	return asServed(c.discovered, func() (*autoscalingv1.Scale, error) {
		return c.scales.Scales(namespace).Get(ctx, resource, name, metav1.GetOptions{})
	})
}

// Update writes a scale.
func (c *Client) Update(ctx context.Context, resource schema.GroupResource, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	return asServed(c.discovered, func() (*autoscalingv1.Scale, error) {
		return c.scales.Scales(scale.Namespace).Update(ctx, resource, scale, metav1.UpdateOptions{})
	})
}

// Pods lists the pods that the API server has now.
func (c *Client) Pods(ctx context.Context, namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: podsPage}
	for {
		page, err := c.core.Pods(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			out = append(out, &page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// PodMetrics lists resource usage.
func (c *Client) PodMetrics(ctx context.Context, namespace string, selector labels.Selector) ([]metricsv1beta1.PodMetrics, error) {
	list, err := c.resource.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ExternalMetric lists series.
func (c *Client) ExternalMetric(ctx context.Context, namespace string, metric cluster.Metric) ([]externalv1beta1.ExternalMetricValue, error) {
	list := &externalv1beta1.ExternalMetricValueList{}
	err := c.external.Get().
		Namespace(namespace).
		Resource(metric.Name).
		VersionedParams(&metav1.ListOptions{LabelSelector: metric.Selector.String()}, metav1.ParameterCodec).
		Do(ctx).
		Into(list)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
