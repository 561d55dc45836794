package recommender

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// wants is an input of that many replicas whose metric asks for so many, without
// anything that holds them.
func wants(current, replicas int32) *Input {
	in := wanting(current)
	in.Spec.Behavior = behavior(nil, nil)
	read(in, 0, int64(replicas)*unit)
	return in
}

func TestAScaleDownIsWithheldOnEveryPath(t *testing.T) {
	const below = "All metrics below target"
	for _, tt := range []struct {
		name    string
		in      *Input
		history *History
		path    Path
		want    Withheld
	}{
		{"metrics with behavior", wants(5, 3), longKnown(), PathMetrics, Withheld{3, below}},
		{"metrics without behavior", changed(wants(5, 3), func(in *Input) { in.Spec.Behavior = nil }), longKnown(), PathMetrics, Withheld{3, below}},
		{
			"what a policy leaves of it",
			changed(wants(5, 3), func(in *Input) { in.Spec.Behavior = behavior(nil, policies(ScalingPolicy{PodsPolicy, 1, 60})) }),
			longKnown(), PathMetrics, Withheld{4, below},
		},
		{
			"what stabilization leaves of it", changed(wants(9, 3), func(in *Input) { in.Spec.Behavior = nil }),
			&History{Seen: true, Initialized: true, Recommendations: []TimedRecommendation{{7, t0.Add(-time.Minute).UnixNano()}}},
			PathMetrics, Withheld{7, below},
		},
		{"what the minimum leaves of it", changed(wants(5, 1), func(in *Input) { in.Spec.MinReplicas = 2 }), longKnown(), PathMetrics, Withheld{2, below}},
		{
			"to zero", changed(wants(5, 0), func(in *Input) { in.Options.ScaleToZero, in.Spec.MinReplicas = true, 0 }),
			longKnown(), PathMetrics, Withheld{0, below},
		},
		{
			"to the maximum, although the metric asks for more",
			changed(wants(50, 70), func(in *Input) { in.Spec.MaxReplicas = 20 }),
			longKnown(), PathAboveMax, Withheld{20, "Current number of replicas above Spec.MaxReplicas"},
		},
		{
			"to the maximum, at first sight", changed(wants(5, 5), func(in *Input) { in.Spec.MaxReplicas = 3 }),
			nil, PathAboveMax, Withheld{3, "Current number of replicas above Spec.MaxReplicas"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.HoldDown, tt.in.Explain = true, true
			current := tt.in.Scale.SpecReplicas
			d, next := Recommend(t0, tt.in, tt.history)
			equal(t, "path", d.Path, tt.path)
			equal(t, "replicas", [2]int32{d.Current, d.Desired}, [2]int32{current, current})
			equal(t, "the reason for a change", d.Reason, "")
			equal(t, "the error", d.Error, "")
			equal(t, "events", len(d.Events), 0)
			equal(t, "AbleToScale", *conditionByType(d.Status.Conditions, AbleToScale), Condition{
				AbleToScale, ConditionFalse, "HistoryUnavailable", "the history store can't be reached; a scale-down from " +
					formatReplicas(current) + " to " + formatReplicas(tt.want.Replicas) + " is withheld until it answers", t0,
			})
			equal(t, "the status' replicas", [2]int32{d.Status.CurrentReplicas, d.Status.DesiredReplicas}, [2]int32{current, current})
			equal(t, "pending", next.Pending, (*Pending)(nil))
			equal(t, "the last decision", next.Last, LastDecision{ID: d.ID, At: t0.UnixNano(), From: current, To: current})
			equal(t, "what was withheld", d.Explanation.Withheld, &tt.want)
			equal(t, "bounds as without", d.Explanation.Bounds.Bounded, tt.want.Replicas)

			tt.in.HoldDown = false
			free, freed := Recommend(t0, tt.in, tt.history)
			equal(t, "without: desired", free.Desired, tt.want.Replicas)
			equal(t, "without: nothing withheld", free.Explanation.Withheld, (*Withheld)(nil))
			equal(t, "recommendations", next.Recommendations, freed.Recommendations)
			equal(t, "readings", d.Status.CurrentMetrics, free.Status.CurrentMetrics)
			for _, kind := range []string{ScalingActive, ScalingLimited, ScaledToZero} {
				equal(t, kind, conditionByType(d.Status.Conditions, kind), conditionByType(free.Status.Conditions, kind))
			}
		})
	}
}

// The condition is of one decision: the next one comes to its own. It says since
// when scale-downs are withheld, as long as they are.
func TestWithholdingEndsWithTheFlag(t *testing.T) {
	in := wants(5, 3)
	x := &target{in: in, history: *longKnown()}
	withheldAt := func(at time.Duration, since time.Duration) {
		t.Helper()
		d := x.recommend(t, at)
		c := conditionByType(d.Status.Conditions, AbleToScale)
		equal(t, "AbleToScale at "+at.String(), []any{d.Desired, c.Reason, c.LastTransitionTime}, []any{int32(5), "HistoryUnavailable", t0.Add(since)})
	}
	in.HoldDown = true
	withheldAt(0, 0)
	withheldAt(15*time.Second, 0)
	withheldAt(30*time.Second, 0)

	read(in, 0, 5*unit) // nothing to withhold, though the store is still away
	d := x.recommend(t, 45*time.Second)
	equal(t, "AbleToScale without a scale-down", *conditionByType(d.Status.Conditions, AbleToScale),
		Condition{AbleToScale, ConditionTrue, "ReadyForNewScale", "recommended size matches current size", t0.Add(45 * time.Second)})

	read(in, 0, 3*unit)
	withheldAt(60*time.Second, 60*time.Second)

	in.HoldDown = false
	in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(20))
	d = x.recommend(t, 75*time.Second) // 3 was recommended 15 s ago, 5 30 s ago
	equal(t, "desired once the store is back", d.Desired, int32(3))
	equal(t, "AbleToScale then", *conditionByType(d.Status.Conditions, AbleToScale),
		Condition{AbleToScale, ConditionTrue, "ReadyForNewScale", "recommended size matches current size", t0.Add(75 * time.Second)})
	equal(t, "reason", d.Reason, "All metrics below target")
	equal(t, "pending", x.history.Pending.To, int32(3))
}

// A pending change is settled by sight as ever; a scale whose reading fails says
// so, and keeps the time since which nothing could be scaled.
func TestWithholdingBesideOtherConditions(t *testing.T) {
	in := wants(5, 8)
	in.HoldDown = true
	x := &target{in: in, history: *longKnown()}
	up := x.recommend(t, 0)
	in.Scale = Scale{8, 8}
	read(in, 0, 3*unit)
	d := x.recommend(t, time.Minute)
	equal(t, "the scale-up before", d.SettledBefore, Settled{up.ID, Applied})
	equal(t, "its event", x.history.ScaleUps, []ScaleEvent{{Change: 3, At: t0.UnixNano()}})
	equal(t, "AbleToScale", reasonOf(d.Status.Conditions, AbleToScale), "False HistoryUnavailable")

	in.ScaleError = &ScaleError{Message: "x"}
	d = x.recommend(t, 2*time.Minute)
	c := conditionByType(d.Status.Conditions, AbleToScale)
	equal(t, "AbleToScale without a scale", []any{c.Reason, c.LastTransitionTime}, []any{"FailedGetScale", t0.Add(time.Minute)})
	in.ScaleError = nil
	d = x.recommend(t, 3*time.Minute)
	c = conditionByType(d.Status.Conditions, AbleToScale)
	equal(t, "AbleToScale with it again", []any{c.Reason, c.LastTransitionTime}, []any{"HistoryUnavailable", t0.Add(time.Minute)})
}

// Whatever the history and the input: the count never shrinks, a decision that
// would not make it shrink is the same to the last bit, and one that would differs
// in what withholding is.
func TestPropertyHoldDownOnlyWithholds(t *testing.T) {
	testlength.SkipUnderRace(t)
	random, withheld, others := newRandom(20), 0, 0
	for range 500 {
		random.trace(12, func(in *Input, history *History, d Decision, next *History) {
			holding := *in
			holding.HoldDown = true
			historyBefore := clone(history)
			held, heldNext := Recommend(d.At, &holding, history)
			unwritten(t, "the history given", history, historyBefore)
			if held.Desired < held.Current {
				t.Fatalf("%d to %d replicas", held.Current, held.Desired)
			}
			if d.Desired >= d.Current {
				others++
				unwritten(t, "a decision with nothing to withhold", clone(&held), clone(&d))
				unwritten(t, "the history after it", &heldNext, next)
				return
			}
			withheld++
			want, wantNext := *clone(&d), *clone(next)
			want.Desired, want.Reason = d.Current, ""
			want.Explanation.Withheld = &Withheld{d.Desired, d.Reason}
			want.Status.DesiredReplicas = d.Current
			want.Status.Conditions = withheldConditions(d.Status.Conditions, &held)
			wantNext.Status = want.Status
			wantNext.Pending, wantNext.Last.To, wantNext.Last.Reason, wantNext.Last.Outcome = nil, d.Current, "", NotChanged
			unwritten(t, "a withheld decision", clone(&held), &want)
			unwritten(t, "the history after it", &heldNext, &wantNext)
		})
	}
	if withheld < 300 || others < 3000 {
		t.Errorf("%d decisions withheld, %d others", withheld, others)
	}
}

// withheldConditions are those conditions with AbleToScale as a withheld decision has it.
func withheldConditions(conditions []Condition, held *Decision) []Condition {
	conditions = slices.Clone(conditions)
	able := conditionByType(conditions, AbleToScale)
	got := conditionByType(held.Status.Conditions, AbleToScale)
	able.Status, able.Reason, able.Message = ConditionFalse, HistoryUnavailable, got.Message
	able.LastTransitionTime = got.LastTransitionTime
	return conditions
}
