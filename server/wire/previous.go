package wire

import (
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// Tags of HorizontalPodAutoscalerStatus and HorizontalPodAutoscalerCondition.
const (
	statusGeneration    = 1<<3 | isVarint
	statusLastScaleTime = 2<<3 | isBytes
	statusCurrent       = 3<<3 | isVarint
	statusDesired       = 4<<3 | isVarint
	statusMetrics       = 5<<3 | isBytes
	statusConditions    = 6<<3 | isBytes

	conditionType       = 1<<3 | isBytes
	conditionStatus     = 2<<3 | isBytes
	conditionTransition = 3<<3 | isBytes
	conditionReason     = 4<<3 | isBytes
	conditionMessage    = 5<<3 | isBytes
)

// previous reads a previous status of which all is taken as it is: the long way leaves
// out and clips. It may become part of a history, so none of its memory is used again.
func (r *Request) previous(from, to int) (*recommender.Status, bool) {
	s := &recommender.Status{}
	metricBytes := 0
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return nil, false
		}
		ok := false
		switch tag {
		case statusGeneration:
			generation := int64(number(r.b, at, end))
			s.ObservedGeneration, ok = &generation, seen.first(1) && generation >= 0
		case statusLastScaleTime:
			s.LastScaleTime, ok = r.instant(at, end)
			ok = ok && seen.first(2)
		case statusCurrent:
			s.CurrentReplicas = int32(number(r.b, at, end))
			ok = seen.first(3) && s.CurrentReplicas >= 0
		case statusDesired:
			s.DesiredReplicas = int32(number(r.b, at, end))
			ok = seen.first(4) && s.DesiredReplicas >= 0
		case statusMetrics:
			if s.CurrentMetrics == nil {
				s.CurrentMetrics = make([]recommender.MetricStatus, 0, min(r.count(tag, i, to), conversion.MaxSeedMetrics))
			}
			metricBytes += end - at
			ok = len(s.CurrentMetrics) < conversion.MaxSeedMetrics && metricBytes <= conversion.MaxSeedMetricBytes &&
				r.metricStatus(grow(&s.CurrentMetrics), at, end)
		case statusConditions:
			if s.Conditions == nil {
				s.Conditions = make([]recommender.Condition, 0, min(r.count(tag, i, to), conversion.MaxSeedConditions))
			}
			ok = len(s.Conditions) < conversion.MaxSeedConditions && r.condition(grow(&s.Conditions), at, end)
		}
		if !ok {
			return nil, false
		}
		i = end
	}
	return s, true
}

// count counts the fields with that tag from i on.
func (r *reader) count(tag byte, i, to int) (n int) {
	for i < to {
		other, _, end := next(r.b, i, to)
		if end == 0 {
			break
		}
		if other == tag {
			n++
		}
		i = end
	}
	return n
}

func (r *reader) condition(c *recommender.Condition, from, to int) bool {
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case conditionType:
			c.Type, ok = r.string(at, end, conversion.MaxSeedType)
			ok = ok && seen.first(1)
		case conditionStatus:
			c.Status, ok = r.string(at, end, conversion.MaxSeedStatus)
			ok = ok && seen.first(2)
		case conditionTransition:
			c.LastTransitionTime, ok = r.instant(at, end)
			ok = ok && seen.first(3)
		case conditionReason:
			c.Reason, ok = r.string(at, end, conversion.MaxSeedReason)
			ok = ok && seen.first(4)
		case conditionMessage:
			c.Message, ok = r.string(at, end, conversion.MaxSeedMessage)
			ok = ok && seen.first(5)
		}
		if !ok {
			return false
		}
		i = end
	}
	return true
}

// Tags of MetricStatus, and of the messages in it, which have their metric or its
// name first, and then the reading.
const (
	metricType              = 1<<3 | isBytes
	metricObject            = 2<<3 | isBytes
	metricPods              = 3<<3 | isBytes
	metricResource          = 4<<3 | isBytes
	metricContainerResource = 5<<3 | isBytes
	metricExternal          = 6<<3 | isBytes

	sourceMetric  = 1<<3 | isBytes
	sourceCurrent = 2<<3 | isBytes
	sourceThird   = 3<<3 | isBytes // the container, or the object

	currentValue       = 1<<3 | isBytes
	currentAverage     = 2<<3 | isBytes
	currentUtilization = 3<<3 | isVarint
)

// metricStatus reads a reading of the source that its type names, and of no other.
func (r *Request) metricStatus(m *recommender.MetricStatus, from, to int) bool {
	var source place
	var sourceTag byte
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		switch {
		case end == 0:
			return false
		case tag == metricType:
			var ok bool
			if m.Type, ok = metricTypeOf(r.b[at:end]); !ok || !seen.first(1) {
				return false
			}
		case tag&7 != isBytes || tag > metricExternal || !seen.first(2):
			return false
		default:
			source, sourceTag = place{at, end}, tag
		}
		i = end
	}
	if !seen.has(1) || !seen.has(2) {
		return !seen.has(1) && !seen.has(2) // that of a metric that could not be computed
	}
	switch {
	case m.Type == recommender.ResourceMetric && sourceTag == metricResource,
		m.Type == recommender.ContainerResourceMetric && sourceTag == metricContainerResource,
		m.Type == recommender.PodsMetric && sourceTag == metricPods,
		m.Type == recommender.ObjectMetric && sourceTag == metricObject,
		m.Type == recommender.ExternalMetric && sourceTag == metricExternal:
		return r.statusSource(m, source.from, source.to)
	}
	return false
}

func metricTypeOf(b []byte) (recommender.MetricType, bool) {
	switch string(b) {
	case "Resource":
		return recommender.ResourceMetric, true
	case "ContainerResource":
		return recommender.ContainerResourceMetric, true
	case "Pods":
		return recommender.PodsMetric, true
	case "Object":
		return recommender.ObjectMetric, true
	case "External":
		return recommender.ExternalMetric, true
	}
	return "", false
}

// statusSource reads the source of a metric of that type.
func (r *Request) statusSource(m *recommender.MetricStatus, from, to int) bool {
	var current place
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ofResource := m.Type == recommender.ResourceMetric || m.Type == recommender.ContainerResourceMetric
		ok := false
		switch {
		case tag == sourceMetric && ofResource:
			m.Resource, ok = r.resource(at, end)
			ok = ok && seen.first(1)
		case tag == sourceMetric:
			m.Metric, ok = r.identifier(at, end)
			ok = ok && seen.first(1)
		case tag == sourceCurrent:
			current, ok = place{at, end}, seen.first(2)
		case tag == sourceThird && m.Type == recommender.ContainerResourceMetric:
			m.Container, ok = r.string(at, end, end-at)
			ok = ok && seen.first(3)
		case tag == sourceThird && m.Type == recommender.ObjectMetric:
			m.DescribedObject, ok = r.object(at, end)
			ok = ok && seen.first(3)
		}
		if !ok {
			return false
		}
		i = end
	}
	m.Current.Binary = m.Resource == "memory"
	return r.current(&m.Current, current.from, current.to)
}

// current reads a reading.
func (r *reader) current(v *recommender.MetricValue, from, to int) bool {
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case currentValue:
			v.Value, ok = r.milli(at, end)
			v.HasValue = true
			ok = ok && seen.first(1)
		case currentAverage:
			v.AverageValue, ok = r.milli(at, end)
			v.HasAverageValue = true
			ok = ok && seen.first(2)
		case currentUtilization:
			v.AverageUtilization, v.HasAverageUtilization = int32(number(r.b, at, end)), true
			ok = seen.first(3)
		}
		if !ok {
			return false
		}
		i = end
	}
	return true
}

// object reads the name of an object.
func (r *reader) object(from, to int) (o recommender.ObjectReference, ok bool) {
	kind, name, version, ok := reference(r.b, from, to)
	if !ok {
		return o, false
	}
	var kindOK, nameOK, versionOK bool
	o.Kind, kindOK = r.string(kind.from, kind.to, to-from)
	o.Name, nameOK = r.string(name.from, name.to, to-from)
	o.APIVersion, versionOK = r.string(version.from, version.to, to-from)
	return o, kindOK && nameOK && versionOK
}

// identifier reads the identity of a metric the long way, once: as that of the
// status of a request that has nothing else.
func (r *Request) identifier(from, to int) (recommender.MetricIdentifier, bool) {
	key := appendField(r.scratch.key[:0], 2, anyBounds)
	key = appendScale(key, nil)
	const ofPods = "\x0a\x04Pods"
	source := headSize(to-from) + to - from
	metric := len(ofPods) + headSize(source) + source
	key = appendHead(key, 16, headSize(metric)+metric)
	key = appendHead(key, 5, metric)
	key = append(key, ofPods...)
	key = appendHead(key, 3, source)
	key = appendField(key, 1, r.b[from:to])
	r.scratch.key = key
	p := r.decoder.planOf(key)
	if p == nil || p.refused || p.input.PreviousStatus.CurrentMetrics == nil {
		return recommender.MetricIdentifier{}, false
	}
	return p.input.PreviousStatus.CurrentMetrics[0].Metric, true
}
