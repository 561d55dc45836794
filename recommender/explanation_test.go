package recommender

import (
	"testing"
	"time"
)

// The instants that an explanation gives are those at which the answer changes.
func TestPropertyWindowsLetGoWhenTheySay(t *testing.T) {
	random, held := newRandom(16), 0
	for range 3000 {
		var slots []TimedRecommendation
		for range random.IntN(8) {
			slots = append(slots, TimedRecommendation{int32(random.IntN(10)), random.Int64N(200)})
		}
		upWindow, downWindow := time.Duration(random.IntN(150)), time.Duration(random.IntN(150))
		current, proposed := int32(random.IntN(10)), int32(random.IntN(10))
		windows := func(now int64) []Window {
			without := stabilizeWithoutBehavior(now, &History{Recommendations: slots}, downWindow, proposed)
			with := stabilizeWithBehavior(now, &History{Recommendations: slots}, upWindow, downWindow, current, proposed)
			return append(without.Windows[:without.WindowsLen:1], with.Windows[:with.WindowsLen]...)
		}
		for i, w := range windows(200) {
			if !w.Held {
				equal(t, "what is not held", w.Replicas, proposed)
				continue
			}
			held++
			at := func(now int64) Window { return windows(now)[i] }
			if before, then := at(w.ReleasedAt-1), at(w.ReleasedAt); before.Replicas != w.Replicas || then.Replicas == w.Replicas {
				t.Fatalf("released at %d: %+v before, %+v then; %+v", w.ReleasedAt, before, then, slots)
			}
			if before, then := at(w.FullyReleasedAt-1), at(w.FullyReleasedAt); !before.Held || then.Held {
				t.Fatalf("fully released at %d: %+v before, %+v then; %+v", w.FullyReleasedAt, before, then, slots)
			}
		}
	}
	if held < 1000 {
		t.Errorf("only %d windows held anything", held)
	}
}

func TestPropertyPoliciesLetGoWhenTheySay(t *testing.T) {
	random := newRandom(17)
	for range 2000 {
		d := decider{profile: &v136}
		for range random.IntN(5) {
			d.next.ScaleUps = append(d.next.ScaleUps, ScaleEvent{Change: int32(random.between(1, 5)), At: t0.UnixNano() + random.Int64N(60e9)})
			d.next.ScaleDowns = append(d.next.ScaleDowns, ScaleEvent{Change: int32(random.between(1, 5)), At: t0.UnixNano() + random.Int64N(60e9)})
		}
		policy := ScalingPolicy{PodsPolicy, 1, int32(random.between(1, 60))}
		limit := func(now int64) PolicyLimit {
			d.nowNanos, d.current = now, 100
			return d.limitOf(Up, policy)
		}
		now := t0.Add(time.Minute).UnixNano()
		l := limit(now)
		if (l.ReleasedAt != 0) != (l.Up+l.Down > 0) {
			t.Fatalf("%+v", l)
		}
		if l.ReleasedAt == 0 {
			continue
		}
		before, then := limit(l.ReleasedAt-1), limit(l.ReleasedAt)
		if before.Up != l.Up || before.Down != l.Down || then.Up+then.Down >= l.Up+l.Down {
			t.Fatalf("%+v; before %+v, then %+v", l, before, then)
		}
	}
}

// However many policies there are, each counts what it counts alone.
func TestPropertyManyPoliciesCountTheSame(t *testing.T) {
	random, lasted := newRandom(18), 0
	for range 3000 {
		profile := oneOf(random, profiles...)
		alone := decider{profile: profile, current: 100, nowNanos: t0.UnixNano()}
		alone.next.EventsLimited = random.chance(50)
		for _, events := range []*[]ScaleEvent{&alone.next.ScaleUps, &alone.next.ScaleDowns} {
			for range random.IntN(8) {
				// Instants on the edges of periods, and beside them.
				age := int64(random.between(0, 12))*int64(time.Second) + int64(random.between(-1, 1))
				*events = append(*events, ScaleEvent{
					Change: int32(random.between(1, 5)), Outdated: random.chance(20),
					At: alone.nowNanos - age, Span: random.Int64N(3) * int64(time.Second),
				})
			}
		}
		together := alone
		direction := oneOf(random, Up, Down)
		var policies []ScalingPolicy
		for range random.between(1, 9) {
			policies = append(policies, ScalingPolicy{oneOf(random, PodsPolicy, PercentPolicy), int32(random.between(1, 50)), int32(random.between(1, 12))})
		}
		together.in = &Input{Explain: true}
		for i, l := range together.limitRate(direction, &ScalingRules{SelectPolicy: MaxChange, Policies: policies}).Policies {
			l.Selected = false
			equal(t, "one of many", l, alone.limitOf(direction, policies[i]))
		}
		equal(t, "whether some last", together.changesLast, alone.changesLast)
		if alone.changesLast {
			lasted++
		}
	}
	if lasted < 500 {
		t.Errorf("only %d of the cases are beyond the history's limit", lasted)
	}
}

func TestAnExplanationTellsHowPodsCounted(t *testing.T) {
	in := workload(cpuUtilization(50), 5, 100, each(3, 100), missing(1), pending(1))
	d := decide(in)
	e := d.Explanation.Metrics[0]
	equal(t, "counts", e.Counts, PodCounts{Ready: 3, Unready: 1, Missing: 1})
	equal(t, "sums", [2]int64{e.TotalUsage, e.TotalRequests}, [2]int64{300, 300})
	equal(t, "ratios", [2]float64{e.UsageRatio, e.DampenedRatio}, [2]float64{2, 1.2})
	equal(t, "the base", e.Base, int32(5))
	equal(t, "pods", e.Pods, []PodEvaluation{
		{Name: "web-0", Usage: 100, HasUsage: true, Request: 100, HasRequest: true},
		{Name: "web-1", Usage: 100, HasUsage: true, Request: 100, HasRequest: true},
		{Name: "web-2", Usage: 100, HasUsage: true, Request: 100, HasRequest: true},
		{Name: "web-3", Group: PodMissing, Rule: RuleNoSample, Request: 100, HasRequest: true, HasAssumed: true},
		{Name: "web-4", Group: PodUnready, Rule: RulePending, Request: 100, HasRequest: true, HasAssumed: true},
	})
}

// What stands for the sample that a pod does not have: when scaling down the
// target of a plain metric, all of the request or the target above that.
func TestAnExplanationTellsWhatWasAssumed(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   *Input
		want int64
	}{
		{"an average", workload(podsAverage(170), 4, 0, each(3, 20), missing(1)), 170},
		{"a utilization", workload(cpuUtilization(50), 4, 70, each(3, 5), missing(1)), 70},
		{"a utilization above 100 %", workload(cpuUtilization(150), 4, 71, each(3, 5), missing(1)), 106},
		{"scaling up", workload(podsAverage(10), 4, 0, each(3, 20), missing(1)), 0},
	} {
		p := decide(tt.in).Explanation.Metrics[0].Pods[3]
		equal(t, tt.name, [2]any{p.Assumed, p.HasAssumed}, [2]any{tt.want, true})
	}
}

func TestAnExplanationTellsWhatDecided(t *testing.T) {
	in := wanting(10)
	in.Spec.Behavior = behavior(nil, policies(ScalingPolicy{PodsPolicy, 4, 60}, ScalingPolicy{PercentPolicy, 10, 60}))
	in.Spec.Metrics = append(in.Spec.Metrics, objectValue(unit))
	in.Notes = []string{"a note"}
	read(in, 0, 3*unit)
	read(in, 1, 0)
	d := decide(in)
	e := d.Explanation
	equal(t, "the proposal", e.Proposal, int32(3))
	equal(t, "the winner", e.Winner, 0)
	equal(t, "warnings", e.Warnings, []string{"a note"})
	equal(t, "stabilized", [2]int32{e.Stabilization.Proposed, e.Stabilization.Stabilized}, [2]int32{3, 3})
	equal(t, "the rate limit", e.RateLimit, RateLimit{
		Direction: Down, SelectPolicy: MaxChange, Limit: 6, HasLimit: true,
		Policies: []PolicyLimit{
			{Policy: ScalingPolicy{PodsPolicy, 4, 60}, Start: 10, Limit: 6, Selected: true},
			{Policy: ScalingPolicy{PercentPolicy, 10, 60}, Start: 10, Limit: 9},
		},
	})
	equal(t, "bounds", e.Bounds, Bounds{Min: 1, Max: 100, Wanted: 3, Bounded: 6, Reason: ScaleDownLimit})

	in.Scale.SpecReplicas = 200
	forced := decide(in).Explanation
	equal(t, "bounds of a forced move", forced.Bounds, Bounds{Min: 1, Max: 100, Wanted: 200, Bounded: 100, Reason: TooManyReplicas})
	equal(t, "metrics of a forced move", len(forced.Metrics), 0)
}

func TestAnExplanationTellsHowMuchWasKnown(t *testing.T) {
	at := func(d time.Duration) int64 { return t0.Add(d).UnixNano() }
	in := wanting(10)
	in.Explain = true
	x := &target{in: in}
	for _, tt := range []struct {
		at   time.Duration
		want HistorySummary
	}{
		{0, HistorySummary{Younger: true}},
		{299 * time.Second, HistorySummary{Recommendations: 2, Oldest: at(0), Since: at(0), Younger: true}},
		{300 * time.Second, HistorySummary{Recommendations: 3, Oldest: at(0), Since: at(0)}},
		{301 * time.Second, HistorySummary{Recommendations: 4, Oldest: at(0), Since: at(0)}},
		{302 * time.Second, HistorySummary{Recommendations: 4, Oldest: at(0), Since: at(0)}}, // of two slots one was reused
		{303 * time.Second, HistorySummary{Recommendations: 4, Oldest: at(299 * time.Second), Since: at(0)}},
	} {
		equal(t, "after "+tt.at.String(), x.recommend(t, tt.at).Explanation.History, tt.want)
	}
	in.Spec.Behavior = defaultBehavior()
	in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(3600))
	equal(t, "of a longer window", x.recommend(t, 310*time.Second).Explanation.History.Younger, true)
}

// Explaining is no part of deciding.
func TestPropertyExplainingChangesNothing(t *testing.T) {
	random := newRandom(18)
	for range 2000 {
		in := random.input()
		in.Explain = false
		d, next := Recommend(t0, in, nil)
		equal(t, "no explanation", d.Explanation, (*Explanation)(nil))
		in.Explain = true
		explained, nextExplained := Recommend(t0, in, nil)
		explained.Explanation = nil
		unwritten(t, "the decision", explained, d)
		unwritten(t, "the history", nextExplained, next)
	}
}
