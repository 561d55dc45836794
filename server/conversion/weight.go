package conversion

import "github.com/setpoint-dev/setpoint/recommender"

// Names of metrics with their selectors, and errors, are seldom longer than usualText,
// in bytes. A decision and its response quote one about quotedTimes, in conditions,
// events and errors.
const (
	usualText   = 512
	quotedTimes = 25
)

// Weight estimates the memory of a decision and its response that is due to quoting
// unusually long texts of the input.
func Weight(in *recommender.Input) int {
	weight := 0
	add := func(n int) {
		if n > usualText {
			weight += quotedTimes * n
		}
	}
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		add(len(m.Resource) + len(m.Container) + len(m.DescribedObject.Kind) + len(m.DescribedObject.Name) +
			len(m.Metric.Name) + selectorSize(m.Metric.Selector))
	}
	for i := range in.Readings {
		add(len(in.Readings[i].Error) + len(in.Readings[i].SelectorError))
	}
	if e := in.ScaleError; e != nil {
		add(len(e.Message))
	}
	if p := in.SelectorProblem; p != nil {
		n := len(p.Message) + len(p.Selector)
		for _, name := range p.Autoscalers {
			n += len(name)
		}
		add(n)
	}
	add(len(in.Spec.ScaleTargetRef.Kind) + len(in.Spec.ScaleTargetRef.Name))
	return weight
}

// selectorSize estimates the length of a selector's text.
func selectorSize(s *recommender.LabelSelector) int {
	if s == nil {
		return 0
	}
	n := 0
	for _, l := range s.MatchLabels {
		n += len(l.Key) + len(l.Value)
	}
	for i := range s.MatchExpressions {
		n += len(s.MatchExpressions[i].Key) + len(s.MatchExpressions[i].Operator)
		for _, v := range s.MatchExpressions[i].Values {
			n += len(v)
		}
	}
	return n
}

// Cells estimates how many pods and samples the metrics of an input evaluate.
func Cells(in *recommender.Input) int {
	byPod := 0 // metrics evaluated pod by pod
	byUsage := 0
	for i := range in.Spec.Metrics {
		switch in.Spec.Metrics[i].Type {
		case recommender.ResourceMetric, recommender.ContainerResourceMetric:
			byPod++
			byUsage++
		default: // metrics of objects count the pods, too
			byPod++
		}
	}
	cells := byPod * len(in.Pods)
	if byUsage == 0 {
		return cells
	}
	parts := len(in.PodMetrics)
	for i := range in.PodMetrics {
		parts += len(in.PodMetrics[i].Containers)
		for j := range in.PodMetrics[i].Containers {
			parts += len(in.PodMetrics[i].Containers[j].Usage)
		}
	}
	for i := range in.Pods {
		p := &in.Pods[i]
		parts += len(p.Containers) + len(p.InitContainers)
		for j := range p.Containers {
			parts += len(p.Containers[j].Requests)
		}
		for j := range p.InitContainers {
			parts += len(p.InitContainers[j].Requests)
		}
	}
	return cells + byUsage*parts
}
