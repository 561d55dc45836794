package codec

import (
	"strings"

	"github.com/setpoint-dev/setpoint/recommender"
)

// The vocabularies of the encoding. An index must keep its meaning for ever: append,
// never insert. Index 0 means that the word is spelled out.
var (
	conditionTypes    = []string{"", recommender.AbleToScale, recommender.ScalingActive, recommender.ScalingLimited, recommender.ScaledToZero}
	conditionStatuses = []string{"", recommender.ConditionTrue, recommender.ConditionFalse, recommender.ConditionUnknown}
	eventTypes        = []string{"", recommender.EventNormal, recommender.EventWarning}
	metricTypes       = []string{"", string(recommender.ResourceMetric), string(recommender.ContainerResourceMetric), string(recommender.PodsMetric), string(recommender.ObjectMetric), string(recommender.ExternalMetric)}
	// conditionTexts are reasons with the beginning and end of their messages; only the
	// rest of a message is stored. If several match, the last one counts.
	conditionTexts = []conditionText{
		{},
		{recommender.SucceededGetScale, "the HPA controller was able to get the target's current scale", ""},
		{recommender.FailedGetScale, "the HPA controller was unable to get the target's current scale: ", ""},
		{recommender.ReadyForNewScale, "recommended size matches current size", ""},
		{recommender.ScaleUpStabilized, "recent recommendations were lower than current one, applying the lowest recent recommendation", ""},
		{recommender.ScaleDownStabilized, "recent recommendations were higher than current one, applying the highest recent recommendation", ""},
		{recommender.SucceededRescale, "the HPA controller was able to update the target scale to ", ""},
		{recommender.FailedUpdateScale, "the HPA controller was unable to update the target scale: ", ""},
		{recommender.ValidMetricFound, "the HPA was able to successfully calculate a replica count from ", ""},
		{recommender.ScalingDisabled, "scaling is disabled since the replica count of the target is zero", ""},
		{recommender.FailedGetResourceMetric, "the HPA was unable to compute the replica count: ", ""},
		{recommender.FailedGetContainerResourceMetric, "the HPA was unable to compute the replica count: ", ""},
		{recommender.FailedGetPodsMetric, "the HPA was unable to compute the replica count: ", ""},
		{recommender.FailedGetObjectMetric, "the HPA was unable to compute the replica count: ", ""},
		{recommender.FailedGetExternalMetric, "the HPA was unable to compute the replica count: ", ""},
		{string(recommender.DesiredWithinRange), "the desired count is within the acceptable range", ""},
		{string(recommender.ScaleUpLimit), "the desired replica count is increasing faster than the maximum scale rate", ""},
		{string(recommender.ScaleDownLimit), "the desired replica count is decreasing faster than the maximum scale rate", ""},
		{string(recommender.TooManyReplicas), "the desired replica count is more than the maximum replica count", ""},
		{string(recommender.TooFewReplicas), "the desired replica count is less than the minimum replica count", ""},
		{recommender.ScaledToZero, "the HPA controller scaled the workload to zero", ""},
		{recommender.NotScaledToZero, "the HPA controller did not scale the workload to zero", ""},
		{recommender.ValidMetricFound, "the HPA was able to successfully calculate a replica count from ", " resource utilization (percentage of request)"},
		{recommender.ValidMetricFound, "the HPA was able to successfully calculate a replica count from ", " container resource utilization (percentage of request)"},
		{recommender.HistoryUnavailable, "the history store can't be reached; a scale-down from ", " is withheld until it answers"},
	}
)

type conditionText struct{ reason, begin, end string }

// rest returns the part of a message that is not in the text; false if the text does
// not match.
func (t *conditionText) rest(message string) (string, bool) {
	rest, fits := strings.CutPrefix(message, t.begin)
	if !fits {
		return "", false
	}
	return strings.CutSuffix(rest, t.end)
}

// Bits of a metric's value.
const (
	valueBit = 1 << iota
	averageValueBit
	averageUtilizationBit
	binaryBit
)

func (e *encoder) status(s *recommender.Status) {
	if s.ObservedGeneration == nil {
		e.b = append(e.b, 0)
	} else {
		e.b = append(e.b, 1)
		e.int(*s.ObservedGeneration)
	}
	e.time(s.LastScaleTime)
	e.int(int64(s.CurrentReplicas))
	e.int(int64(s.DesiredReplicas))
	e.metricStatuses(s.CurrentMetrics)
	e.uint(uint64(len(s.Conditions)))
	for i := range s.Conditions {
		e.condition(&s.Conditions[i])
	}
}

func (d *decoder) status(s *recommender.Status) {
	if d.index(2) == 1 {
		generation := d.int()
		s.ObservedGeneration = &generation
	}
	s.LastScaleTime = d.time()
	s.CurrentReplicas, s.DesiredReplicas = int32(d.int()), int32(d.int())
	s.CurrentMetrics = d.metricStatuses()
	s.Conditions = listIn(d, 5, &d.freeConditions, d.condition)
}

func (e *encoder) condition(c *recommender.Condition) {
	e.word(conditionTypes, c.Type)
	e.word(conditionStatuses, c.Status)
	e.time(c.LastTransitionTime)
	for i := len(conditionTexts) - 1; i > 0; i-- {
		text := &conditionTexts[i]
		if text.reason != c.Reason {
			continue
		}
		if rest, fits := text.rest(c.Message); fits {
			e.uint(uint64(i))
			e.string(rest)
			return
		}
	}
	e.uint(0)
	e.string(c.Reason)
	e.string(c.Message)
}

func (d *decoder) condition(c *recommender.Condition) {
	c.Type = d.word(conditionTypes)
	c.Status = d.word(conditionStatuses)
	c.LastTransitionTime = d.time()
	i := d.uint()
	switch {
	case i == 0:
		c.Reason, c.Message = d.string(), d.string()
	case i < uint64(len(conditionTexts)):
		text := &conditionTexts[i]
		c.Reason, c.Message = text.reason, d.around(text.begin, text.end)
	default:
		d.fail()
	}
}

func (e *encoder) metricStatuses(statuses []recommender.MetricStatus) {
	e.uint(uint64(len(statuses)))
	for i := range statuses {
		e.metricStatus(&statuses[i])
	}
}

func (d *decoder) metricStatuses() []recommender.MetricStatus {
	return listIn(d, 9, &d.freeMetrics, d.metricStatus)
}

func (e *encoder) metricStatus(m *recommender.MetricStatus) {
	e.word(metricTypes, string(m.Type))
	e.string(m.Resource)
	e.string(m.Container)
	e.string(m.Metric.Name)
	e.selector(m.Metric.Selector)
	e.object(&m.DescribedObject)
	e.metricValue(&m.Current)
}

func (d *decoder) metricStatus(m *recommender.MetricStatus) {
	m.Type = recommender.MetricType(d.word(metricTypes))
	m.Resource, m.Container, m.Metric.Name = d.string(), d.string(), d.string()
	m.Metric.Selector = d.selector()
	d.object(&m.DescribedObject)
	d.metricValue(&m.Current)
}

func (e *encoder) metricValue(v *recommender.MetricValue) {
	var bits byte
	set := func(bit byte, on bool) {
		if on {
			bits |= bit
		}
	}
	set(valueBit, v.HasValue)
	set(averageValueBit, v.HasAverageValue)
	set(averageUtilizationBit, v.HasAverageUtilization)
	set(binaryBit, v.Binary)
	e.b = append(e.b, bits)
	if v.HasValue {
		e.int(v.Value)
	}
	if v.HasAverageValue {
		e.int(v.AverageValue)
	}
	if v.HasAverageUtilization {
		e.int(int64(v.AverageUtilization))
	}
}

func (d *decoder) metricValue(v *recommender.MetricValue) {
	bits := d.index(binaryBit << 1)
	v.HasValue, v.HasAverageValue = bits&valueBit != 0, bits&averageValueBit != 0
	v.HasAverageUtilization, v.Binary = bits&averageUtilizationBit != 0, bits&binaryBit != 0
	if v.HasValue {
		v.Value = d.int()
	}
	if v.HasAverageValue {
		v.AverageValue = d.int()
	}
	if v.HasAverageUtilization {
		v.AverageUtilization = int32(d.int())
	}
}

// selector appends 0 for none, else 1 and the selector, clipped if it is too long.
func (e *encoder) selector(s *recommender.LabelSelector) {
	if s == nil {
		e.b = append(e.b, 0)
		return
	}
	s = clipSelector(s)
	e.b = append(e.b, 1)
	e.uint(uint64(len(s.MatchLabels)))
	for _, l := range s.MatchLabels {
		e.string(l.Key)
		e.string(l.Value)
	}
	e.uint(uint64(len(s.MatchExpressions)))
	for _, r := range s.MatchExpressions {
		e.string(r.Key)
		e.string(r.Operator)
		e.uint(uint64(len(r.Values)))
		for _, v := range r.Values {
			e.string(v)
		}
	}
}

func (d *decoder) selector() *recommender.LabelSelector {
	if d.index(2) == 0 {
		return nil
	}
	return &recommender.LabelSelector{
		MatchLabels: list(d, 2, func(l *recommender.Label) { l.Key, l.Value = d.string(), d.string() }),
		MatchExpressions: list(d, 3, func(r *recommender.LabelRequirement) {
			r.Key, r.Operator = d.string(), d.string()
			r.Values = list(d, 1, func(v *string) { *v = d.string() })
		}),
	}
}

func (e *encoder) object(o *recommender.ObjectReference) {
	e.string(o.Kind)
	e.string(o.Name)
	e.string(o.APIVersion)
}

func (d *decoder) object(o *recommender.ObjectReference) {
	o.Kind, o.Name, o.APIVersion = d.string(), d.string(), d.string()
}

// word appends the index of a word in its vocabulary, or 0 and the word.
func (e *encoder) word(vocabulary []string, word string) {
	for i := 1; i < len(vocabulary); i++ {
		if vocabulary[i] == word {
			e.b = append(e.b, byte(i))
			return
		}
	}
	e.b = append(e.b, 0)
	e.string(word)
}

func (d *decoder) word(vocabulary []string) string {
	if i := d.index(len(vocabulary)); i > 0 {
		return vocabulary[i]
	}
	return d.string()
}
