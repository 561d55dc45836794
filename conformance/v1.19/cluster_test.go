package v119

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2beta2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // the conversions
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// cluster is what the controller talks to. It answers from the step at hand and
// keeps what the controller writes.
//
// The clients below stand in for the fake clientsets: these record every call, and
// that of custom metrics forgets the selector of the metric.
type cluster struct {
	step *step
	// backwards lists the pods from the last to the first.
	backwards bool

	// hpa as a user of the API sees it, nil while it is deleted. The controller of
	// this version reads and writes autoscaling/v1, which has as annotations what
	// it has no fields for, and converts that.
	hpa *autoscalingv2.HorizontalPodAutoscaler
	// scaledTo is the count written in the step, nil for none.
	scaledTo *int32
	events   []oracle.Event
}

// restMapper knows the kinds that scenarios scale.
func restMapper() meta.RESTMapper {
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	core := schema.GroupVersion{Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{apps, core})
	mapper.Add(apps.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(apps.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	mapper.Add(apps.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	mapper.Add(core.WithKind("ReplicationController"), meta.RESTScopeNamespace)
	return mapper
}

// scales is the client of the scale subresource.
type scales struct {
	scaleclient.ScaleInterface
	*cluster
}

func (c scales) Scales(string) scaleclient.ScaleInterface { return c }

func (c scales) Get(_ context.Context, resource schema.GroupResource, name string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	switch {
	case c.step.ScaleGetError != "":
		return nil, errors.New(c.step.ScaleGetError)
	case c.step.Scale == nil:
		return nil, apierrors.NewNotFound(resource, name)
	}
	return c.step.Scale.DeepCopy(), nil
}

func (c scales) Update(_ context.Context, _ schema.GroupResource, scale *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	if c.step.ScaleUpdateError != "" {
		return nil, errors.New(c.step.ScaleUpdateError)
	}
	c.scaledTo = &scale.Spec.Replicas
	return scale, nil
}

// hpas is the client of autoscalers.
type hpas struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	*cluster
}

func (c hpas) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return c
}

// UpdateStatus keeps the status that the API server reads from what is written.
func (c hpas) UpdateStatus(_ context.Context, hpa *autoscalingv1.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	stored, err := convert(hpa.DeepCopy(), autoscalingv2.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	c.hpa.Status = stored.(*autoscalingv2.HorizontalPodAutoscaler).Status
	return hpa, nil
}

// convert makes an autoscaler one of another version by way of the internal one, as
// the API server does. It takes the object apart.
func convert(object runtime.Object, version schema.GroupVersion) (runtime.Object, error) {
	internal := schema.GroupVersion{Group: version.Group, Version: runtime.APIVersionInternal}
	object, err := legacyscheme.Scheme.UnsafeConvertToVersion(object, internal)
	if err != nil {
		return nil, err
	}
	return legacyscheme.Scheme.UnsafeConvertToVersion(object, version)
}

// pods is the lister of pods. Unlike that of an informer it has an order, so that
// two runs in opposite orders show which texts depend on it.
type pods struct{ *cluster }

func (c pods) Pods(namespace string) corelisters.PodNamespaceLister {
	return namespacePods{cluster: c.cluster, namespace: namespace}
}

func (c pods) List(selector labels.Selector) ([]*corev1.Pod, error) {
	var found []*corev1.Pod
	for _, pod := range c.step.Pods {
		if selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, pod)
		}
	}
	if c.backwards {
		slices.Reverse(found)
	}
	return found, nil
}

type namespacePods struct {
	corelisters.PodNamespaceLister
	*cluster
	namespace string
}

func (c namespacePods) List(selector labels.Selector) ([]*corev1.Pod, error) {
	found, err := pods{c.cluster}.List(selector)
	return slices.DeleteFunc(found, func(pod *corev1.Pod) bool { return pod.Namespace != c.namespace }), err
}

// failure is the error of a metrics API for a metric, nil if it works. That of the
// metric itself comes first.
func (c *cluster) failure(api, metric string) error {
	for _, key := range []string{api + ":" + metric, api} {
		if message, ok := c.step.Errors[key]; ok {
			return errors.New(message)
		}
	}
	return nil
}

// resourceMetrics is the client of the resource metrics API.
type resourceMetrics struct {
	metricsclient.PodMetricsInterface
	*cluster
	namespace string
}

func (c resourceMetrics) PodMetricses(namespace string) metricsclient.PodMetricsInterface {
	c.namespace = namespace
	return c
}

func (c resourceMetrics) List(_ context.Context, options metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	if message, ok := c.step.Errors["resource"]; ok {
		return nil, errors.New(message)
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	var list metricsv1beta1.PodMetricsList
	for _, item := range c.step.PodMetrics {
		if item.Namespace == c.namespace && selector.Matches(labels.Set(item.Labels)) {
			list.Items = append(list.Items, *item.DeepCopy())
		}
	}
	return &list, nil
}

// customMetrics is the client of the custom metrics API.
type customMetrics struct{ *cluster }

func (c customMetrics) RootScopedMetrics() customclient.MetricsInterface { return c }

func (c customMetrics) NamespacedMetrics(string) customclient.MetricsInterface { return c }

// GetForObject counts the answers as the client of the API does.
func (c customMetrics) GetForObject(kind schema.GroupKind, name, metric string, selector labels.Selector) (*customv1beta2.MetricValue, error) {
	if err := c.failure("custom", metric); err != nil {
		return nil, err
	}
	values := c.values(kind, &name, metric, selector)
	switch len(values) {
	case 0:
		return nil, fmt.Errorf("the server could not find the metric %s for %s %s", metric, kind.Kind, name)
	case 1:
		return &values[0], nil
	}
	return nil, fmt.Errorf("the custom metrics API server returned %v results when we asked for exactly one", len(values))
}

func (c customMetrics) GetForObjects(kind schema.GroupKind, _ labels.Selector, metric string, selector labels.Selector) (*customv1beta2.MetricValueList, error) {
	if err := c.failure("custom", metric); err != nil {
		return nil, err
	}
	return &customv1beta2.MetricValueList{Items: c.values(kind, nil, metric, selector)}, nil
}

// values of a metric for the objects of a kind, or only for that of the name.
func (c customMetrics) values(kind schema.GroupKind, name *string, metric string, selector labels.Selector) []customv1beta2.MetricValue {
	var found []customv1beta2.MetricValue
	for _, value := range c.step.CustomMetrics {
		object := &value.DescribedObject
		if value.Metric.Name != metric ||
			schema.FromAPIVersionAndKind(object.APIVersion, object.Kind).GroupKind() != kind ||
			name != nil && object.Name != *name {
			continue
		}
		own, err := metav1.LabelSelectorAsSelector(value.Metric.Selector)
		if err == nil && slices.Equal(meaning(own), meaning(selector)) {
			found = append(found, *value.DeepCopy())
		}
	}
	return found
}

// meaning lists what a selector requires, so that selectors which require the same
// have the same list. None and an empty one require nothing.
func meaning(selector labels.Selector) []string {
	requirements, _ := selector.Requirements()
	all := make([]string, 0, len(requirements))
	for i := range requirements {
		operator, values := requirements[i].Operator(), requirements[i].Values().List()
		switch {
		case len(values) == 1 && operator == selection.In:
			operator = selection.Equals
		case len(values) == 1 && operator == selection.NotIn:
			operator = selection.NotEquals
		}
		all = append(all, requirements[i].Key()+" "+string(operator)+" "+strings.Join(values, ","))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// externalMetrics is the client of the external metrics API.
type externalMetrics struct{ *cluster }

func (c externalMetrics) NamespacedMetrics(string) externalclient.MetricsInterface { return c }

func (c externalMetrics) List(metric string, selector labels.Selector) (*externalv1beta1.ExternalMetricValueList, error) {
	if err := c.failure("external", metric); err != nil {
		return nil, err
	}
	// A selector reaches the API as a text: none at all matches everything there.
	selector, err := labels.Parse(selector.String())
	if err != nil {
		return nil, err
	}
	var list externalv1beta1.ExternalMetricValueList
	for _, value := range c.step.ExternalMetrics {
		if value.MetricName == metric && selector.Matches(labels.Set(value.MetricLabels)) {
			list.Items = append(list.Items, *value.DeepCopy())
		}
	}
	return &list, nil
}

// noEvents is the client that the controller's own recorder would send events to.
type noEvents struct{}

func (noEvents) Events(string) coreclient.EventInterface { return nil }

// recorder keeps events at once and one by one, where the controller's own sends
// them later and puts equal ones together.
type recorder struct{ *cluster }

func (r recorder) Event(_ runtime.Object, kind, reason, message string) {
	r.events = append(r.events, oracle.Event{Type: kind, Reason: reason, Message: oracle.Text{Value: message}})
}

func (r recorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(object, kind, reason, format, args...)
}
