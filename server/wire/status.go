package wire

import (
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// status appends the fields of a HorizontalPodAutoscalerStatus.
func (w *writer) status(s *recommender.Status) {
	if s.ObservedGeneration != nil {
		w.number(1, *s.ObservedGeneration)
	}
	w.timeUnlessZero(2, s.LastScaleTime)
	w.int32(3, s.CurrentReplicas)
	w.int32(4, s.DesiredReplicas)
	w.metrics(5, s.CurrentMetrics)
	w.conditions(6, s.Conditions)
}

func (w *writer) conditions(field int, conditions []recommender.Condition) {
	for i := range conditions {
		c := &conditions[i]
		at := w.open(field)
		w.string(1, c.Type)
		w.string(2, c.Status)
		w.timeUnlessZero(3, c.LastTransitionTime)
		w.string(4, c.Reason)
		w.string(5, c.Message)
		w.close(at)
	}
}

func (w *writer) metrics(field int, metrics []recommender.MetricStatus) {
	for i := range metrics {
		at := w.open(field)
		w.metric(&metrics[i])
		w.close(at)
	}
}

// metric appends a reading to the source of its type.
func (w *writer) metric(m *recommender.MetricStatus) {
	w.string(1, string(m.Type))
	switch m.Type {
	case recommender.ObjectMetric:
		at := w.open(2)
		w.identifier(1, &m.Metric)
		w.current(&m.Current)
		w.reference(3, &m.DescribedObject)
		w.close(at)
	case recommender.PodsMetric:
		at := w.open(3)
		w.identifier(1, &m.Metric)
		w.current(&m.Current)
		w.close(at)
	case recommender.ResourceMetric:
		at := w.open(4)
		w.string(1, m.Resource)
		w.current(&m.Current)
		w.close(at)
	case recommender.ContainerResourceMetric:
		at := w.open(5)
		w.string(1, m.Resource)
		w.current(&m.Current)
		w.string(3, m.Container)
		w.close(at)
	case recommender.ExternalMetric:
		at := w.open(6)
		w.identifier(1, &m.Metric)
		w.current(&m.Current)
		w.close(at)
	}
}

// current appends the value of a reading, which is the same field in every source.
func (w *writer) current(v *recommender.MetricValue) {
	at := w.open(2)
	if v.HasValue {
		w.text(1, formatMilli(v.Value, v.Binary))
	}
	if v.HasAverageValue {
		w.text(2, formatMilli(v.AverageValue, v.Binary))
	}
	if v.HasAverageUtilization {
		w.number(3, int64(v.AverageUtilization))
	}
	w.close(at)
}

func formatMilli(milli int64, binary bool) string {
	if binary {
		return quantity.FormatBinary(milli)
	}
	return quantity.FormatDecimal(milli)
}

func (w *writer) identifier(field int, m *recommender.MetricIdentifier) {
	at := w.open(field)
	w.string(1, m.Name)
	if m.Selector != nil {
		selector := w.open(2)
		w.selector(m.Selector)
		w.close(selector)
	}
	w.close(at)
}

func (w *writer) selector(s *recommender.LabelSelector) {
	for i := range s.MatchLabels {
		l := &s.MatchLabels[i]
		if i > 0 && l.Key <= s.MatchLabels[i-1].Key {
			w.unfit = true // a map would order them differently
		}
		at := w.open(1)
		w.text(1, l.Key)
		w.text(2, l.Value)
		w.close(at)
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		at := w.open(2)
		w.string(1, e.Key)
		w.string(2, e.Operator)
		for _, v := range e.Values {
			w.text(3, v)
		}
		w.close(at)
	}
}

// unnamedKind is conversion's placeholder for the kind of a workload without a name. It
// is shown nowhere.
const unnamedKind = "Target"

func (w *writer) reference(field int, o *recommender.ObjectReference) {
	if *o == (recommender.ObjectReference{}) || o.Kind == unnamedKind && o.APIVersion == "" {
		return
	}
	at := w.open(field)
	w.string(1, o.Kind)
	w.string(2, o.Name)
	w.string(3, o.APIVersion)
	w.close(at)
}
