package apiserver

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	customv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metricsclient "k8s.io/metrics/pkg/client/custom_metrics"
	customscheme "k8s.io/metrics/pkg/client/custom_metrics/scheme"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// metricVersions converts between the versions of the custom metrics API. The client of
// k8s.io/metrics is not used because it takes no context, and would wait forever for an adapter
// that hangs.
var metricVersions = metricsclient.NewMetricConverter()

// PodsMetric lists values of pods.
func (c *Client) PodsMetric(ctx context.Context, namespace string, selector labels.Selector, metric cluster.Metric) ([]customv1beta2.MetricValue, error) {
	pods := cluster.Object{Kind: schema.GroupKind{Kind: "Pod"}, Name: customv1beta1.AllObjects}
	return asServed(c.discovered, func() ([]customv1beta2.MetricValue, error) {
		return c.objectMetric(ctx, namespace, pods, metric, selector)
	})
}

// ObjectMetric lists values of an object.
func (c *Client) ObjectMetric(ctx context.Context, namespace string, object cluster.Object, metric cluster.Metric) ([]customv1beta2.MetricValue, error) {
	return asServed(c.discovered, func() ([]customv1beta2.MetricValue, error) {
		if object.IsNamespace() {
			return c.namespaceMetric(ctx, namespace, metric)
		}
		return c.objectMetric(ctx, namespace, object, metric, nil)
	})
}

func (c *Client) namespaceMetric(ctx context.Context, namespace string, metric cluster.Metric) ([]customv1beta2.MetricValue, error) {
	version, err := c.discovered.customMetricsVersion()
	if err != nil {
		return nil, err
	}
	get := c.customGet(version).Resource("metrics").Namespace(namespace).Name(metric.Name)
	return customMetrics(ctx, get, version, &custom_metrics.MetricListOptions{MetricLabelSelector: metric.Selector.String()})
}

func (c *Client) objectMetric(ctx context.Context, namespace string, object cluster.Object, metric cluster.Metric, pods labels.Selector) ([]customv1beta2.MetricValue, error) {
	version, err := c.discovered.customMetricsVersion()
	if err != nil {
		return nil, err
	}
	mapping, err := c.discovered.RESTMapping(object.Kind)
	if err != nil {
		return nil, fmt.Errorf("unable to map kind %s to resource: %w", object.Kind.String(), err)
	}
	options := &custom_metrics.MetricListOptions{MetricLabelSelector: metric.Selector.String()}
	if pods != nil {
		options.LabelSelector = pods.String()
	}
	get := c.customGet(version).
		Resource(mapping.Resource.GroupResource().String()).
		Namespace(namespace).
		Name(object.Name).
		SubResource(metric.Name)
	return customMetrics(ctx, get, version, options)
}

func (c *Client) customGet(version schema.GroupVersion) *rest.Request {
	return c.custom.Get().AbsPath("/apis", version.Group, version.Version)
}

// customMetrics completes a request and returns its values, of whatever version, in the newest
// one.
func customMetrics(ctx context.Context, get *rest.Request, version schema.GroupVersion, options *custom_metrics.MetricListOptions) ([]customv1beta2.MetricValue, error) {
	params, err := metricVersions.ConvertListOptionsToVersion(options, version)
	if err != nil {
		return nil, err
	}
	result := get.SpecificallyVersionedParams(params, customscheme.ParameterCodec, version).Do(ctx)
	answer, err := metricVersions.ConvertResultToVersion(result, customv1beta2.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	list, ok := answer.(*customv1beta2.MetricValueList)
	if !ok {
		return nil, fmt.Errorf("the custom metrics API server didn't return MetricValueList, the type is %v", reflect.TypeOf(answer))
	}
	return list.Items, nil
}
