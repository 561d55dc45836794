package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
)

// failure is the step's error of a metrics API. A metric's own error takes precedence
// over the API's.
func (c *Cluster) failure(keys ...string) error {
	for _, key := range keys {
		if message, fails := c.state.Errors[key]; fails {
			return errors.New(message)
		}
	}
	return nil
}

// PodMetrics returns the data of the API metrics.k8s.io.
func (c *Cluster) PodMetrics(namespace string, options metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	if err := c.failure("resource"); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	list := &metricsv1beta1.PodMetricsList{}
	for _, item := range c.state.PodMetrics {
		if item.Namespace == namespace && selector.Matches(labels.Set(item.Labels)) {
			list.Items = append(list.Items, *item.DeepCopy())
		}
	}
	return list, nil
}

// CustomMetrics is the API custom.metrics.k8s.io. Clients request a namespace without a
// namespace, everything else in the HPA's namespace, which all the scenario's values
// belong to.
type CustomMetrics struct{ *Cluster }

// RootScopedMetrics returns the API itself.
func (m CustomMetrics) RootScopedMetrics() customclient.MetricsInterface { return m }

// NamespacedMetrics returns the API itself.
func (m CustomMetrics) NamespacedMetrics(string) customclient.MetricsInterface { return m }

// GetForObject returns the real client's error unless there is exactly one value.
func (m CustomMetrics) GetForObject(kind schema.GroupKind, name, metric string, selector labels.Selector) (*customv1beta2.MetricValue, error) {
	if err := m.failure("custom:"+metric, "custom"); err != nil {
		return nil, err
	}
	values := m.values(kind, metric, selector, func(described string) bool { return described == name })
	switch len(values) {
	case 0:
		return nil, fmt.Errorf("the server could not find the metric %s for %s %s", metric, kind.Kind, name)
	case 1:
		return &values[0], nil
	default:
		return nil, fmt.Errorf("the custom metrics API server returned %d results when we asked for exactly one", len(values))
	}
}

// GetForObjects returns the values of all pods: it does not check whether there is such
// a pod, and whether the scale's selector matches it.
func (m CustomMetrics) GetForObjects(kind schema.GroupKind, _ labels.Selector, metric string, selector labels.Selector) (*customv1beta2.MetricValueList, error) {
	if err := m.failure("custom:"+metric, "custom"); err != nil {
		return nil, err
	}
	all := func(string) bool { return true }
	return &customv1beta2.MetricValueList{Items: m.values(kind, metric, selector, all)}, nil
}

// values returns those of a metric, with a selector of the same meaning.
func (m CustomMetrics) values(kind schema.GroupKind, metric string, selector labels.Selector, named func(string) bool) []customv1beta2.MetricValue {
	var values []customv1beta2.MetricValue
	for _, value := range m.state.CustomMetrics {
		object := value.DescribedObject
		if value.Metric.Name != metric || !named(object.Name) ||
			schema.FromAPIVersionAndKind(object.APIVersion, object.Kind).GroupKind() != kind {
			continue
		}
		own, err := metav1.LabelSelectorAsSelector(value.Metric.Selector)
		if err == nil && slices.Equal(meaning(own), meaning(selector)) {
			values = append(values, *value.DeepCopy())
		}
	}
	return values
}

// meaning lists what a selector requires, so that selectors with the same meaning have
// the same list. None and an empty one require nothing.
func meaning(selector labels.Selector) []string {
	requirements, _ := selector.Requirements()
	all := make([]string, 0, len(requirements))
	for i := range requirements {
		r := &requirements[i]
		operator, values := r.Operator(), r.Values().List()
		switch {
		case len(values) == 1 && operator == selection.In:
			operator = selection.Equals
		case len(values) == 1 && operator == selection.NotIn:
			operator = selection.NotEquals
		}
		all = append(all, r.Key()+" "+string(operator)+" "+strings.Join(values, ","))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ExternalMetrics is the API external.metrics.k8s.io.
type ExternalMetrics struct{ *Cluster }

// NamespacedMetrics returns the API itself.
func (m ExternalMetrics) NamespacedMetrics(string) externalclient.MetricsInterface { return m }

// List returns the series that a selector selects.
func (m ExternalMetrics) List(metric string, selector labels.Selector) (*externalv1beta1.ExternalMetricValueList, error) {
	if err := m.failure("external:"+metric, "external"); err != nil {
		return nil, err
	}
	// The API gets the selector as text, which is empty both for the one that selects
	// nothing and for the one that selects everything. So the former selects
	// everything.
	selector, err := labels.Parse(selector.String())
	if err != nil {
		return nil, err
	}
	list := &externalv1beta1.ExternalMetricValueList{}
	for _, value := range m.state.ExternalMetrics {
		if value.MetricName == metric && selector.Matches(labels.Set(value.MetricLabels)) {
			list.Items = append(list.Items, *value.DeepCopy())
		}
	}
	return list, nil
}
