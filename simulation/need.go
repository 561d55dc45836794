package simulation

import (
	"math"

	"github.com/setpoint-dev/setpoint/recommender"
)

// need is the number of replicas that one metric requires at a load if it were observed at
// once: the target is compared with a usage of idle + perLoad·load/n per pod, or with a total
// per replica.
type need struct {
	idle, perLoad, target float64
	// total reports whether idle counts once, not once per pod.
	total bool
	// tolerance of scale-ups.
	tolerance float64
}

// needsOf returns the needs of the metrics for which they are defined: those whose usage
// follows the load and whose target is per pod or per replica.
func needsOf(s *Scenario, a *Autoscaler) []need {
	var needs []need
	tolerance := a.Options.Tolerance
	if b := a.Spec.Behavior; b != nil && b.ScaleUp.Tolerance != nil {
		tolerance = *b.ScaleUp.Tolerance
	}
	for i := range a.Spec.Metrics {
		m := &a.Spec.Metrics[i]
		u := s.Workload.usageOf(MetricName(m))
		n := need{idle: u.Idle, perLoad: u.PerLoad, tolerance: tolerance}
		perPod := true
		switch m.Type {
		case recommender.ResourceMetric, recommender.ContainerResourceMetric:
			beside := m.Type == recommender.ResourceMetric
			if !beside && len(s.Workload.Containers) > 0 && m.Container != s.Workload.Containers[0].Name {
				continue // its usage does not follow the load
			}
			request := 0.0
			for c := range s.Workload.Containers {
				if c > 0 && !beside {
					break
				}
				request += amount(s.Workload.Containers[c].Requests, m.Resource)
				if c > 0 {
					n.idle += amount(s.Workload.Containers[c].Usage, m.Resource)
				}
			}
			if m.Target.AverageUtilization != nil {
				n.target = mul(float64(*m.Target.AverageUtilization), request) / 100
			}
		case recommender.ObjectMetric, recommender.ExternalMetric:
			perPod = false
			if u.Follows == QueueLength || u.Follows == QueueAge {
				continue
			}
			if m.Type == recommender.ObjectMetric && m.Target.Type != recommender.AverageValueTarget {
				continue // a total does not depend on the count
			}
		}
		if m.Target.AverageValue != nil {
			n.target = float64(*m.Target.AverageValue)
		}
		if n.total = !perPod; n.target > 0 {
			needs = append(needs, n)
		}
	}
	return needs
}

// Wanted is how many replicas a load asks for at the targets of the metrics that follow it, without
// idle usage, bounds and rounding. It is 0 if none follows it.
func Wanted(s *Scenario, a *Autoscaler, load float64) float64 {
	most := 0.0
	for _, n := range needsOf(s, a) {
		most = max(most, mul(n.perLoad, load)/n.target)
	}
	return most
}

func amount(list []recommender.ResourceUsage, name string) float64 {
	for _, r := range list {
		if r.Resource == name {
			return float64(r.Milli)
		}
	}
	return 0
}

// needed is the least count within the bounds that keeps all metrics at their targets; tolerated: within their
// tolerance above them, whatever the minimum, of which no load is the reason.
func needed(needs []need, spec *recommender.Spec, load float64, tolerated bool) int32 {
	count := float64(spec.MinReplicas)
	if tolerated {
		count = 0
	}
	for i := range needs {
		n := &needs[i]
		target := n.target
		if tolerated {
			target = mul(target, 1+n.tolerance)
		}
		var want float64
		switch usage := mul(n.perLoad, load); {
		case n.total:
			want = (n.idle + usage) / target
		case n.idle >= target:
			want = math.Inf(1)
		default:
			want = usage / (target - n.idle)
		}
		// A rounding error above a whole number is not another replica.
		count = max(count, math.Ceil(want-1e-9))
	}
	return int32(min(count, float64(spec.MaxReplicas)))
}
