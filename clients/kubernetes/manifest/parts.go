package manifest

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// Part is a part of a dump: one kind of input of a snapshot. Its text names the expected
// content of a file.
type Part string

// The parts.
const (
	// Autoscalers are HorizontalPodAutoscalers of any version.
	Autoscalers Part = "HorizontalPodAutoscaler (autoscaling/v2)"
	// Scales are Scales, or workloads instead.
	Scales Part = "Scale (autoscaling/v1)"
	// Pods are Pods.
	Pods Part = "Pod (v1)"
	// PodMetrics are PodMetrics of metrics.k8s.io.
	PodMetrics Part = "PodMetrics (metrics.k8s.io/v1beta1)"
	// CustomMetrics are MetricValues of custom.metrics.k8s.io.
	CustomMetrics Part = "MetricValue (custom.metrics.k8s.io/v1beta2)"
	// ExternalMetrics are ExternalMetricValues of external.metrics.k8s.io.
	ExternalMetrics Part = "ExternalMetricValue (external.metrics.k8s.io/v1beta1)"
)

// route assigns a kind to its part and reads it into a dump.
type route struct {
	part Part
	read func(*Dump, object) error
}

// routes are the kinds that a dump uses.
var routes = newRoutes()

func newRoutes() map[schema.GroupVersionKind]route {
	table := map[schema.GroupVersionKind]route{
		autoscalingv1.SchemeGroupVersion.WithKind("Scale"):                                              {Scales, readScale},
		corev1.SchemeGroupVersion.WithKind("Pod"):                                                       {Pods, readPod},
		metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"):                                        {PodMetrics, appended(func(d *Dump) *[]metricsv1beta1.PodMetrics { return &d.PodMetrics })},
		customv1beta2.SchemeGroupVersion.WithKind("MetricValue"):                                        {CustomMetrics, appended(func(d *Dump) *[]customv1beta2.MetricValue { return &d.CustomMetrics })},
		schema.GroupVersion{Group: customv1beta2.GroupName, Version: "v1beta1"}.WithKind("MetricValue"): {CustomMetrics, readCustomMetricV1beta1},
		externalv1beta1.SchemeGroupVersion.WithKind("ExternalMetricValue"):                              {ExternalMetrics, appended(func(d *Dump) *[]externalv1beta1.ExternalMetricValue { return &d.ExternalMetrics })},
	}
	for version, decode := range oldDecoders {
		table[version.WithKind(autoscalerKind)] = route{Autoscalers, readAutoscaler(func(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, detail, error) {
			autoscaler, err := decode(data)
			return autoscaler, detail{version: version.String()}, err
		})}
	}
	table[autoscalingv2.SchemeGroupVersion.WithKind(autoscalerKind)] = route{Autoscalers, readAutoscaler(decodeV2)}
	for _, version := range oldScales {
		table[version.WithKind("Scale")] = route{Scales, readOldScale}
	}
	for kind, decode := range workloadDecoders {
		table[kind] = route{Scales, readWorkload(decode)}
	}
	return table
}

// expected lists parts for messages.
func expected(parts []Part) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = string(part)
	}
	return strings.Join(texts, " or ")
}

func readAutoscaler(decode decodeAutoscaler) func(*Dump, object) error {
	return func(d *Dump, o object) error {
		autoscaler, more, err := decode(o.data)
		if err != nil {
			return err
		}
		autoscaler.Namespace = d.namespace(autoscaler.Namespace)
		if autoscaler.Name == "" { // the API server adds a few letters
			autoscaler.Name = strings.TrimRight(autoscaler.GenerateName, "-.")
		}
		var found problems
		for _, violation := range kubernetes.Validate(autoscaler) {
			found.add(fmt.Sprintf("%s %q", autoscalerKind, autoscaler.Name), violation)
		}
		if err := found.err(); err != nil {
			return err
		}
		d.addAutoscaler(autoscaler, o, more)
		return nil
	}
}

func readScale(d *Dump, o object) error {
	scale := &autoscalingv1.Scale{}
	if err := objectjson.Unmarshal(o.data, scale); err != nil {
		return err
	}
	d.Scales = append(d.Scales, scale)
	return nil
}

// readPod refuses a pod that is listed twice: one of the two is out of date, but which one is
// unknown.
func readPod(d *Dump, o object) error {
	pod := &corev1.Pod{}
	if err := objectjson.Unmarshal(o.data, pod); err != nil {
		return err
	}
	key := pod.Namespace + "/" + pod.Name
	if first, ok := d.seenPods[key]; ok {
		return fmt.Errorf("the pod %q is listed before, at %s", key, first)
	}
	if d.seenPods == nil {
		d.seenPods = map[string]string{}
	}
	d.seenPods[key] = o.where
	d.Pods = append(d.Pods, pod)
	return nil
}

// appended reads a kind whose objects a dump takes as they are.
func appended[T any](to func(*Dump) *[]T) func(*Dump, object) error {
	return func(d *Dump, o object) error {
		var value T
		if err := objectjson.Unmarshal(o.data, &value); err != nil {
			return err
		}
		*to(d) = append(*to(d), value)
		return nil
	}
}

// readCustomMetricV1beta1 reads the older version, which some adapters still serve: there the
// metric is not a message of its own, and the window has another name.
func readCustomMetricV1beta1(d *Dump, o object) error {
	var value struct {
		customv1beta2.MetricValue `json:",inline"`
		MetricName                string                `json:"metricName"`
		Selector                  *metav1.LabelSelector `json:"selector"`
		Window                    *int64                `json:"window"`
	}
	if err := objectjson.Unmarshal(o.data, &value); err != nil {
		return err
	}
	value.Metric = customv1beta2.MetricIdentifier{Name: value.MetricName, Selector: value.Selector}
	value.WindowSeconds = value.Window
	d.CustomMetrics = append(d.CustomMetrics, value.MetricValue)
	return nil
}
