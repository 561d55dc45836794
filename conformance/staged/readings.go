package staged

import (
	"fmt"
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
)

// sample is a value that the metrics APIs have for a metric.
type sample struct {
	milli int64
	taken time.Time
}

// isTotal reports whether a metric has one value, and not one of each pod.
func isTotal(m *autoscalingv2.MetricSpec) bool { return m.Object != nil || m.External != nil }

// total returns the samples of an Object or External metric, as its client gets them; ok is false if the
// client gets an error or nothing.
func (s *step) total(m *autoscalingv2.MetricSpec) (samples []sample, ok bool) {
	shown := &cluster.Cluster{}
	shown.Begin(&cluster.State{CustomMetrics: s.CustomMetrics, ExternalMetrics: s.ExternalMetrics, Errors: s.Errors})
	if m.External != nil {
		selector, err := metav1.LabelSelectorAsSelector(m.External.Metric.Selector)
		if err != nil {
			return nil, false
		}
		list, err := cluster.ExternalMetrics{Cluster: shown}.List(m.External.Metric.Name, selector)
		if err != nil || len(list.Items) == 0 {
			return nil, false
		}
		for i := range list.Items {
			samples = append(samples, sample{milli: list.Items[i].Value.MilliValue(), taken: list.Items[i].Timestamp.Time})
		}
		return samples, true
	}
	selector, err := metav1.LabelSelectorAsSelector(m.Object.Metric.Selector)
	if err != nil {
		return nil, false
	}
	kind, name := s.described(m.Object)
	value, err := cluster.CustomMetrics{Cluster: shown}.GetForObject(kind, name, m.Object.Metric.Name, selector)
	if err != nil {
		return nil, false
	}
	return []sample{{milli: value.Value.MilliValue(), taken: value.Timestamp.Time}}, true
}

// described returns the object whose metric is read: a Namespace is the autoscaler's.
func (s *step) described(m *autoscalingv2.ObjectMetricSource) (schema.GroupKind, string) {
	of := m.DescribedObject
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
	if kind.Kind == "Namespace" && kind.Group == "" {
		return kind, s.namespace
	}
	return kind, of.Name
}

// inexpressible is an edit that the metrics APIs have no words for, such as an error of one of two metrics
// with the same name. The scenario ends before that step.
type inexpressible struct{ why string }

func (e inexpressible) Error() string { return e.why }

// fails makes the client of a metric fail.
func (s *step) fails(m *autoscalingv2.MetricSpec, text string) error {
	if err := s.alone(m); err != nil {
		return err
	}
	if m.External != nil {
		s.setError("external:"+m.External.Metric.Name, text)
	} else {
		s.setError("custom:"+m.Object.Metric.Name, text)
	}
	return nil
}

func (s *step) setError(key, text string) {
	errors := map[string]string{key: text}
	for k, v := range s.Errors {
		if k != key {
			errors[k] = v
		}
	}
	s.Errors = errors
}

// alone is an error if another metric of the spec is read under the same name of the same API.
func (s *step) alone(m *autoscalingv2.MetricSpec) error {
	n := 0
	for i := range s.HPA.Spec.Metrics {
		if api, name := source(&s.HPA.Spec.Metrics[i]); api != "" {
			if mine, own := source(m); mine == api && own == name {
				n++
			}
		}
	}
	if n > 1 {
		_, name := source(m)
		return inexpressible{"several metrics are read under one name: " + name}
	}
	return nil
}

// source is the API of a metric, and its name there.
func source(m *autoscalingv2.MetricSpec) (api, name string) {
	switch {
	case m.External != nil:
		return "external", m.External.Metric.Name
	case m.Object != nil:
		return "custom", m.Object.Metric.Name
	case m.Pods != nil:
		return "custom", m.Pods.Metric.Name
	}
	return "", ""
}

// becomesZero has a metric's value be 0.
func (s *step) becomesZero(m *autoscalingv2.MetricSpec) error {
	if err := s.alone(m); err != nil {
		return err
	}
	if m.External != nil {
		selector, err := metav1.LabelSelectorAsSelector(m.External.Metric.Selector)
		if err != nil {
			return err
		}
		if selector, err = labels.Parse(selector.String()); err != nil {
			return err
		}
		s.ExternalMetrics = slices.Clone(s.ExternalMetrics)
		first := true
		for i := 0; i < len(s.ExternalMetrics); i++ {
			series := &s.ExternalMetrics[i]
			if series.MetricName != m.External.Metric.Name || !selector.Matches(labels.Set(series.MetricLabels)) {
				continue
			}
			if !first {
				s.ExternalMetrics = slices.Delete(s.ExternalMetrics, i, i+1)
				i--
				continue
			}
			series.Value, first = zeroQuantity, false
		}
		return nil
	}
	kind, name := s.described(m.Object)
	s.CustomMetrics = slices.Clone(s.CustomMetrics)
	for i := range s.CustomMetrics {
		v := &s.CustomMetrics[i]
		of := v.DescribedObject
		if v.Metric.Name == m.Object.Metric.Name && of.Name == name && schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind() == kind {
			v.Value = zeroQuantity
		}
	}
	return nil
}

// sum is the sum of samples as the controller computes it for a target: above the range it is the
// greatest number, and below 0, for an average, too.
func sum(m *autoscalingv2.MetricSpec, samples []sample) int64 {
	var sum int64
	for _, v := range samples {
		if m.External != nil && m.External.Target.AverageValue != nil {
			if sum += v.milli; sum < 0 {
				return math.MaxInt64
			}
			continue
		}
		if v.milli > 0 && sum > math.MaxInt64-v.milli {
			return math.MaxInt64
		}
		sum += v.milli
	}
	return sum
}

// hasTarget reports whether the controller takes a target of an Object or External metric.
func hasTarget(m *autoscalingv2.MetricSpec) bool {
	if m.External != nil {
		return m.External.Target.AverageValue != nil || m.External.Target.Value != nil
	}
	t := &m.Object.Target
	return t.Type == autoscalingv2.ValueMetricType && t.Value != nil || t.Type == autoscalingv2.AverageValueMetricType && t.AverageValue != nil
}

// milliText prints milli-units exactly.
func milliText(v int64) string {
	text := fmt.Sprintf("%d.%03d", abs(v)/1000, abs(v)%1000)
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	if v < 0 {
		text = "-" + text
	}
	return text
}

func abs(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}
