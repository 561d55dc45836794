package recommender

import "strings"

// Name returns the metric as upstream names it in reasons and conditions.
func (m *MetricSpec) Name() string { return m.name(&v136.texts) }

// name is Name in the wording of a version.
func (m *MetricSpec) name(texts *texts) string {
	switch m.Type {
	case ResourceMetric, ContainerResourceMetric:
		return m.resourceName()
	case PodsMetric:
		return "pods metric " + m.Metric.Name
	case ObjectMetric:
		if m.Target.Type == ValueTarget && m.Target.Value != nil {
			return m.DescribedObject.Kind + " metric " + m.Metric.Name
		}
		// Upstream calls an object's average "external".
		return m.externalName(texts)
	case ExternalMetric:
		return m.externalName(texts)
	}
	return ""
}

func (m *MetricSpec) resourceName() string {
	switch {
	case m.Target.AverageValue != nil:
		return m.Resource + " resource"
	case m.Type == ContainerResourceMetric:
		return m.Resource + " container resource utilization (percentage of request)"
	case m.Resource == "cpu": // the usual case; a constant is not allocated
		return "cpu resource utilization (percentage of request)"
	}
	return m.Resource + " resource utilization (percentage of request)"
}

func (m *MetricSpec) externalName(texts *texts) string {
	return "external metric " + m.Metric.Name + "(" + m.Metric.Selector.text(texts) + ")"
}

// String prints a selector as Go's generated Kubernetes code does, because upstream's
// texts contain it: "nil", or &LabelSelector{…}.
func (s *LabelSelector) String() string { return s.text(&v136.texts) }

// text is String in the wording of a version.
func (s *LabelSelector) text(texts *texts) string {
	if s == nil {
		return "nil"
	}
	var b strings.Builder
	b.WriteString("&LabelSelector{MatchLabels:map[string]string{")
	for _, l := range s.MatchLabels {
		b.WriteString(l.Key + ": " + l.Value + ",")
	}
	if texts.plainExpressions {
		b.WriteString("},MatchExpressions:[")
		for i, r := range s.MatchExpressions {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString("{" + r.Key + " " + r.Operator + " [" + strings.Join(r.Values, " ") + "]}")
		}
		b.WriteString("],}")
		return b.String()
	}
	b.WriteString("},MatchExpressions:[]LabelSelectorRequirement{")
	for _, r := range s.MatchExpressions {
		b.WriteString("LabelSelectorRequirement{Key:" + r.Key + ",Operator:" + r.Operator +
			",Values:[" + strings.Join(r.Values, " ") + "],},")
	}
	b.WriteString("},}")
	return b.String()
}
