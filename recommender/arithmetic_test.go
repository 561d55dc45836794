package recommender

import (
	"math"
	"testing"
)

func TestNumbersOutOfRangeSaturate(t *testing.T) {
	above, below := math.Nextafter(math.MaxInt32, math.Inf(1)), math.Nextafter(math.MinInt32, math.Inf(-1))
	for _, tt := range []struct {
		in        float64
		want      int32
		saturates bool
	}{
		{0, 0, false}, {math.Copysign(0, -1), 0, false}, {0.9, 0, false}, {-0.9, 0, false}, {1.9, 1, false}, {-1.9, -1, false},
		{math.MaxInt32 - 1, math.MaxInt32 - 1, false}, {math.MaxInt32, math.MaxInt32, false},
		{above, math.MaxInt32, false}, {math.MaxInt32 + 0.999, math.MaxInt32, false}, {math.MaxInt32 + 1, math.MaxInt32, true},
		{math.MinInt32, math.MinInt32, false}, {below, math.MinInt32, false}, {math.MinInt32 - 1, math.MinInt32, true},
		{1e300, math.MaxInt32, true}, {-1e300, math.MinInt32, true},
		{math.Inf(1), math.MaxInt32, true}, {math.Inf(-1), math.MinInt32, true}, {math.NaN(), 0, true},
	} {
		if got := toInt32(tt.in); got != tt.want || outOfInt32(tt.in) != tt.saturates {
			t.Errorf("toInt32(%v) = %d, saturates %t; want %d, %t", tt.in, got, outOfInt32(tt.in), tt.want, tt.saturates)
		}
	}
	for _, tt := range []struct {
		in   float64
		want int64
	}{
		{0, 0}, {1.9, 1}, {-1.9, -1}, {1 << 62, 1 << 62}, {-(1 << 62), -(1 << 62)},
		{math.Nextafter(math.MaxInt64, 0), math.MaxInt64 - 1023}, {math.MaxInt64, math.MaxInt64},
		{math.MinInt64, math.MinInt64}, {math.Nextafter(math.MinInt64, 0), math.MinInt64 + 1024},
		{math.Inf(1), math.MaxInt64}, {math.Inf(-1), math.MinInt64}, {math.NaN(), 0},
	} {
		if got := toInt64(tt.in); got != tt.want {
			t.Errorf("toInt64(%v) = %d; want %d", tt.in, got, tt.want)
		}
	}
}

func TestToleranceEdges(t *testing.T) {
	for _, tt := range []struct {
		name       string
		tolerances Tolerances
		ratio      float64
		want       bool
	}{
		{"exactly above", Tolerances{ScaleUp: 0.1, ScaleDown: 0.1}, 1.1, true},
		{"a hair above that", Tolerances{ScaleUp: 0.1, ScaleDown: 0.1}, math.Nextafter(1.1, 2), false},
		{"exactly below", Tolerances{ScaleUp: 0.1, ScaleDown: 0.1}, 0.9, true},
		{"a hair below that", Tolerances{ScaleUp: 0.1, ScaleDown: 0.1}, math.Nextafter(0.9, 0), false},
		{"none, on target", Tolerances{ScaleUp: 0, ScaleDown: 0}, 1, true},
		{"none, a hair above", Tolerances{ScaleUp: 0, ScaleDown: 0}, math.Nextafter(1, 2), false},
		{"none, a hair below", Tolerances{ScaleUp: 0, ScaleDown: 0}, math.Nextafter(1, 0), false},
		{"up alone", Tolerances{ScaleUp: 0.5}, 1.5, true},
		{"up alone, below", Tolerances{ScaleUp: 0.5}, 0.99, false},
		{"down alone", Tolerances{ScaleDown: 0.5}, 0.5, true},
		{"down alone, above", Tolerances{ScaleDown: 0.5}, 1.01, false},
		{"all of it, idle", Tolerances{ScaleUp: 1, ScaleDown: 1}, 0, true},
		{"NaN", Tolerances{ScaleUp: 1e9, ScaleDown: 1e9}, math.NaN(), false},
		{"+Inf", Tolerances{ScaleUp: 1e9, ScaleDown: 1e9}, math.Inf(1), false},
		{"-Inf", Tolerances{ScaleUp: 1e9, ScaleDown: 1e9}, math.Inf(-1), false},
	} {
		if got := tt.tolerances.within(tt.ratio); got != tt.want {
			t.Errorf("%s: %v within %+v is %t", tt.name, tt.ratio, tt.tolerances, got)
		}
	}
}

// Totals where a count or a reading does not fit.
func TestTotalsAtTheirLimits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		in       *Input
		proposal int32
		rule     ProposalRule
		reported int64
	}{
		{name: "nothing observed, something used", in: observed(total(externalAverage(10*unit), 4, 25*unit), 0), proposal: 3, rule: Proportional, reported: math.MaxInt64},
		{name: "nothing observed, nothing used", in: observed(total(externalAverage(10*unit), 4, 0), 0), proposal: 0, rule: Proportional, reported: 0},
		{name: "a sum past the largest", in: total(externalAverage(10*unit), 4, math.MaxInt64, 1), proposal: math.MaxInt32, rule: Saturated, reported: math.MaxInt64},
		{name: "an object's total is divided all the same", in: total(objectAverage(10*unit), 4, math.MaxInt64), proposal: math.MaxInt32, rule: Saturated, reported: 1 << 61},
		{name: "a count one past the largest", in: observed(total(externalAverage(1), 4, math.MaxInt32+1), 1), proposal: math.MaxInt32, rule: Saturated, reported: math.MaxInt32 + 1},
		{name: "the largest count", in: observed(total(externalAverage(1), 4, math.MaxInt32), 1), proposal: math.MaxInt32, rule: Proportional, reported: math.MaxInt32},
		{name: "an object below zero", in: total(objectAverage(10*unit), 4, -25*unit), proposal: -2, rule: Proportional, reported: -6250},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(tt.in)
			e := d.Explanation.Metrics[0]
			equal(t, "the proposal", e.Proposal, tt.proposal)
			equal(t, "the rule", e.Rule, tt.rule)
			equal(t, "the reading", d.Status.CurrentMetrics[0].Current.AverageValue, tt.reported)
		})
	}
}

func observed(in *Input, replicas int32) *Input {
	in.Scale.StatusReplicas = replicas
	return in
}

// 0 counts as «none yet».
func TestSelectionAmongProposals(t *testing.T) {
	failure := &MetricFailure{Reason: "R", Inner: "i", Outer: "o"}
	const failed = math.MinInt32
	for _, tt := range []struct {
		name             string
		proposals        []int32
		current          int32
		replicas, winner int
		blocked          bool
		problem          string
	}{
		{name: "the largest wins", proposals: []int32{3, 7, 5}, current: 9, replicas: 7, winner: 1},
		{name: "of equals the first", proposals: []int32{3, 7, 7}, current: 1, replicas: 7, winner: 1},
		{name: "after 0 the last", proposals: []int32{0, 0}, current: 1, replicas: 0, winner: 1},
		{name: "below zero wins over 0", proposals: []int32{0, -3}, current: 1, replicas: -3, winner: 1},
		{name: "0 does not win over more", proposals: []int32{5, 0}, current: 1, replicas: 5, winner: 0},
		{name: "one failed, up", proposals: []int32{failed, 7}, current: 5, replicas: 7, winner: 1, problem: "invalid metrics (1 invalid out of 2), first error is: o"},
		{name: "one failed, the same", proposals: []int32{5, failed}, current: 5, replicas: 5, winner: 0, problem: "invalid metrics (1 invalid out of 2), first error is: o"},
		{name: "one failed, down", proposals: []int32{4, failed}, current: 5, replicas: 4, winner: 0, blocked: true, problem: "invalid metrics (1 invalid out of 2), first error is: o"},
		{name: "one failed at zero", proposals: []int32{0, failed}, current: 0, replicas: 0, winner: 0, problem: "invalid metrics (1 invalid out of 2), first error is: o"},
		{name: "all failed", proposals: []int32{failed, failed}, current: 0, replicas: 0, winner: -1, blocked: true, problem: "invalid metrics (2 invalid out of 2), first error is: o"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var metrics []MetricEvaluation
			for _, p := range tt.proposals {
				if p == failed {
					metrics = append(metrics, MetricEvaluation{Failure: failure})
					continue
				}
				metrics = append(metrics, MetricEvaluation{Proposal: p})
			}
			s := selectProposal(metrics, tt.current, &v136)
			equal(t, "replicas", int(s.replicas), tt.replicas)
			equal(t, "winner", s.winner, tt.winner)
			equal(t, "blocked", s.failed != nil, tt.blocked)
			equal(t, "the problem", s.problem, tt.problem)
		})
	}
}
