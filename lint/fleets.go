package lint

import (
	"fmt"
	"math"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
)

// takesPart are the members of a fleet that are not drained, as a split sees them when it begins, and the sum of their
// weights. A count can be no larger than the sum of their caps.
func takesPart(f *fleet.Spec) (seats []fleet.Seat, names []string, weights, caps int64) {
	for i := range f.Members {
		m := &f.Members[i]
		if m.Drained() {
			continue
		}
		most := f.Engine.MaxReplicas
		if m.Max >= 0 {
			most = min(most, m.Max)
		}
		seats, names = append(seats, fleet.Seat{Weight: m.Weight, Floor: m.Min, Cap: most}), append(names, m.Name)
		weights, caps = weights+int64(m.Weight), caps+int64(most)
	}
	return seats, names, weights, caps
}

// fleetHoldsDead looks for utilizations that pods beside a dead member don't reach, whose pods count as idle.
func fleetHoldsDead(s *subject) {
	f := s.Fleet
	if f == nil || f.OnLost != fleet.Hold || f.SurviveOne || len(s.spec.Metrics) == 0 {
		return
	}
	seats, names, weights, _ := takesPart(f)
	if len(seats) < 2 {
		return
	}
	heaviest := 0
	for i := range seats {
		if seats[i].Weight > seats[heaviest].Weight {
			heaviest = i
		}
	}
	part := float64(seats[heaviest].Weight) / float64(weights)
	if shares := fleet.Split(seats, s.spec.MaxReplicas, 0); shares.Total > 0 { // caps may make it smaller
		part = min(part, float64(shares.Of[heaviest])/float64(shares.Total))
	}
	if part >= 1 {
		return
	}
	lowest := math.MaxInt32
	for i := range s.spec.Metrics {
		m := &s.spec.Metrics[i]
		if m.Type != recommender.ResourceMetric && m.Type != recommender.ContainerResourceMetric || m.Target.AverageUtilization == nil {
			return // there is a metric that may rise
		}
		lowest = min(lowest, int(*m.Target.AverageUtilization))
	}
	// Utilizations are whole percents.
	all, above := math.Floor(100*(1-part)+1e-9), 1+s.tolerance(recommender.Up)
	if all/float64(lowest) <= above {
		s.report("fleet", fmt.Sprintf("if %s is dead nothing is added for it, as long as the other pods use no more than they request", names[heaviest]),
			fmt.Sprintf("its pods count as idle, %s of all by weight: at 100 %% of the others all are at %s %%, and replicas are added above %d %% × %s = %s %%",
				percentOf(part), decimals(all), lowest, decimals(above), decimals(float64(lowest)*above)))
	}
}

func fleetCapsBelowMaximum(s *subject) {
	if s.Fleet == nil {
		return
	}
	seats, _, _, caps := takesPart(s.Fleet)
	most, least := int64(s.spec.MaxReplicas), int64(s.spec.MinReplicas)
	sum := fmt.Sprintf("the maxReplicas of the %d members that take part add up to %d", len(seats), caps)
	switch {
	case caps < least:
		s.report("fleet.members", fmt.Sprintf("the members can't take the minimum: %d of %d are always unplaced", least-caps, least), sum)
	case caps < most:
		s.report("fleet.members", fmt.Sprintf("the members can take %d of at most %d replicas: what is above is unplaced", caps, most), sum)
	}
}

func fleetSurvivesNone(s *subject) {
	if s.Fleet == nil || !s.Fleet.SurviveOne {
		return
	}
	count := max(1, s.spec.MinReplicas)
	seats, _, _, _ := takesPart(s.Fleet)
	if shares, missing := fleet.SplitSurviving(seats, count, s.spec.MaxReplicas, 0); missing > 0 {
		s.report("fleet.surviveOne", fmt.Sprintf("surviveOne is never fulfilled: already at %d replicas %d are missing without the largest member", count, missing),
			fmt.Sprintf("at most %d are shared out to %d members that take part, the largest gets %d", shares.Total, len(seats), most(shares.Of)))
	}
}

func most(of []int32) (n int32) {
	for _, one := range of {
		n = max(n, one)
	}
	return n
}

func fleetOneTakesPart(s *subject) {
	if s.Fleet == nil {
		return
	}
	if seats, names, _, _ := takesPart(s.Fleet); len(seats) == 1 {
		s.report("fleet.members", "the whole count is with "+names[0], fmt.Sprintf("%d of %d members are drained", len(s.Fleet.Members)-1, len(s.Fleet.Members)))
	}
}

func fleetStaleSoon(s *subject) {
	if f := s.Fleet; f != nil && f.StaleAfter < 2*f.Period {
		s.report("fleet.staleAfter", "a single call that is late or fails makes a member stale", fmt.Sprintf("%s < 2 × the period of %s", f.StaleAfter, f.Period))
	}
}

func fleetShiftsAtOnce(s *subject) {
	if f := s.Fleet; f != nil && f.OnLost == fleet.Shift && f.LostAfter == f.StaleAfter {
		s.report("fleet.lostAfter", "a member is lost as soon as it is stale: every false alarm gives its share to the others", fmt.Sprintf("lostAfter %s = staleAfter", f.LostAfter))
	}
}

func fleetAddsValues(s *subject) {
	if s.Fleet == nil {
		return
	}
	for i := range s.spec.Metrics {
		m := &s.spec.Metrics[i]
		at := "external"
		switch {
		case m.Target.Value == nil || i >= len(s.Fleet.Scopes) || s.Fleet.Scopes[i] != fleet.PerMember:
			continue
		case m.Type == recommender.ObjectMetric:
			at = "object"
		case m.Type != recommender.ExternalMetric:
			continue
		}
		n, target := len(s.Fleet.Members), decimals(number(&m.Target))
		s.report(fmt.Sprintf("spec.metrics[%d].%s.target.value", i, at), fmt.Sprintf("%s: the readings of the members are added up before they are compared", metricName(m)),
			fmt.Sprintf("%d members that each read %s make %s, %d times the target", n, target, decimals(float64(n)*number(&m.Target)), n))
	}
}

func fleetOwnMinimum(s *subject) {
	if m := s.Member; m != nil && m.Members > 0 && s.spec.MinReplicas > m.Most {
		s.report("spec.minReplicas", fmt.Sprintf("fleet %s gives it at most %d: it has %d, and %d of them do not count there", m.Name, m.Most, s.spec.MinReplicas, s.spec.MinReplicas-m.Most),
			fmt.Sprintf("%d > %d", s.spec.MinReplicas, m.Most))
	}
}

func fleetDiffers(s *subject) {
	if m := s.Member; m != nil && m.Differs != "" {
		s.report("spec.metrics", fmt.Sprintf("fleet %s refuses its calls: %s: %s", m.Name, m.Metric, m.Differs), "the metrics of a member are those of the fleet, in their order")
	}
}

func fleetHasNoSuchMember(s *subject) {
	if m := s.Member; m != nil && m.Members == 0 {
		s.report("metadata", fmt.Sprintf("fleet %s has no member %s/%s in any cluster: its calls are refused", m.Name, s.namespace, s.Name),
			fmt.Sprintf("a member of it is clusters/CLUSTER/namespaces/%s/targets/%s", s.namespace, s.Name))
	}
}
