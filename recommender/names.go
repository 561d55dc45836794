package recommender

import "strings"

// Name returns the metric in upstream's words, as they stand in reasons and
// conditions.
func (m *MetricSpec) Name() string {
	switch m.Type {
	case ResourceMetric, ContainerResourceMetric:
		return m.resourceName()
	case PodsMetric:
		return "pods metric " + m.Metric.Name
	case ObjectMetric:
		if m.Target.Type == ValueTarget && m.Target.Value != nil {
			return m.DescribedObject.Kind + " metric " + m.Metric.Name
		}
		// Upstream names an object's average «external».
		return m.externalName()
	case ExternalMetric:
		return m.externalName()
	}
	return ""
}

func (m *MetricSpec) resourceName() string {
	switch {
	case m.Target.AverageValue != nil:
		return m.Resource + " resource"
	case m.Type == ContainerResourceMetric:
		return m.Resource + " container resource utilization (percentage of request)"
	case m.Resource == "cpu": // most are; a constant is not allocated
		return "cpu resource utilization (percentage of request)"
	}
	return m.Resource + " resource utilization (percentage of request)"
}

func (m *MetricSpec) externalName() string {
	return "external metric " + m.Metric.Name + "(" + m.Metric.Selector.String() + ")"
}

// String prints a selector as Go's generated Kubernetes code does, for it stands
// in upstream's texts: "nil", or &LabelSelector{…}.
func (s *LabelSelector) String() string {
	if s == nil {
		return "nil"
	}
	var b strings.Builder
	b.WriteString("&LabelSelector{MatchLabels:map[string]string{")
	for _, l := range s.MatchLabels {
		b.WriteString(l.Key + ": " + l.Value + ",")
	}
	b.WriteString("},MatchExpressions:[]LabelSelectorRequirement{")
	for _, r := range s.MatchExpressions {
		b.WriteString("LabelSelectorRequirement{Key:" + r.Key + ",Operator:" + r.Operator +
			",Values:[" + strings.Join(r.Values, " ") + "],},")
	}
	b.WriteString("},}")
	return b.String()
}
