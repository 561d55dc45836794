package recommender

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// decided is a target, its last decision with its explanation, and the history after it.
type decided struct {
	in      *Input
	last    Decision
	history History
}

// newDecided is a target with pods and metrics of all types that was decided for a while.
func newDecided(t *testing.T, r random) decided {
	base := r.input()
	base.Options.Profile = oneOf(r, &v136, &v136, &v137, &v128, &v119, &v115, &cooldown)
	base.Options.HistoryLimit = oneOf(r, 0, 0, 8)
	x, at, replicas := decided{in: base}, t0, base.Scale.SpecReplicas
	for range r.between(1, 12) {
		in := r.input()
		in.Spec, in.Options, in.Readings, in.Explain = base.Spec, base.Options, nil, true
		for i := range base.Spec.Metrics {
			in.Readings = append(in.Readings, r.readings(&base.Spec.Metrics[i], in.Pods))
		}
		if in.Scale = (Scale{replicas, replicas}); r.chance(5) {
			in.Scale.StatusReplicas = int32(r.IntN(40))
		}
		in.HoldDown = r.chance(5)
		at = at.Add(time.Duration(r.between(1, 80)) * time.Second / 2)
		x.last, x.history = Recommend(at, in, &x.history)
		if !x.last.Changes() {
			continue
		}
		if outcome := oneOf(r, Undecided, Applied, Applied, Failed); outcome != Undecided {
			var err error
			_, x.history, err = Settle(x.history, "ns", x.last.ID, outcome, "no quota")
			fatal.If(t, err)
		}
		if x.history.Last.Outcome != Failed {
			replicas = x.last.Desired
		}
	}
	return x
}

// A retraced decision has the steps of the decision itself, and of its metrics nothing else than what
// these had; with the basis or without.
func TestPropertyARetraceTellsWhatTheDecisionDid(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	r := newRandom(44)
	steps, whole, sums, failures, unknown := 0, 0, 0, 0, 0
	for n := range 4_000 {
		x := newDecided(t, r)
		basis := oneOf(r, Basis{}, x.last.Basis, x.last.Basis)
		before := clone(&x.history)
		got, known := x.history.Retrace(x.in, &basis)
		if equal(t, "the history", &x.history, before); !known {
			t.Fatalf("case %d: nothing is known", n)
		}
		want, e := x.last.Explanation, got.Explanation
		if got.Path != x.last.Path || got.Current != x.last.Current || got.Desired != x.last.Desired || !got.At.Equal(x.last.At) {
			t.Fatalf("case %d (%s): %v %d → %d at %v, want %v %d → %d", n, want.Profile, got.Path, got.Current, got.Desired, got.At, x.last.Path, x.last.Current, x.last.Desired)
		}
		if e.Decided && (!want.Decided || e.Proposal != want.Proposal) || e.Winner >= 0 && e.Winner != want.Winner {
			t.Fatalf("case %d: %v proposes %d (%v), want %d proposes %d (%v)", n, e.Winner, e.Proposal, e.Decided, want.Winner, want.Proposal, want.Decided)
		}
		if want.Decided {
			whole++
		}
		if e.Stabilization.WindowsLen > 0 {
			steps++
			s, w := e.Stabilization, want.Stabilization
			s.slot, s.obsolete, w.slot, w.obsolete = 0, 0, 0, 0
			if x.history.RecommendationsLimited { // the decision may have thinned the records
				s, w = Stabilization{Stabilized: s.Stabilized}, Stabilization{Stabilized: w.Stabilized}
			}
			equal(t, "stabilization", s, w)
			equal(t, "the rate limit", e.RateLimit, want.RateLimit)
			equal(t, "withheld", e.Withheld, want.Withheld)
			if e.History.Oldest == 0 {
				e.History.Oldest = want.History.Oldest
			}
			if x.in.Options.HistoryLimit == 0 {
				e.History.ScaleUps, e.History.ScaleDowns = want.History.ScaleUps, want.History.ScaleDowns
				if !e.History.Younger && e.History.Recommendations == want.History.Recommendations+1 {
					e.History.Recommendations-- // none was replaced
				}
				equal(t, "the history's summary", e.History, want.History)
			}
		}
		if e.Bounds != (Bounds{}) {
			equal(t, "bounds", e.Bounds, want.Bounds)
		}
		if len(e.Metrics) == 0 {
			unknown += min(1, len(want.Metrics))
			continue
		}
		for i := range e.Metrics {
			m, w := &e.Metrics[i], &want.Metrics[i]
			if (m.Failure != nil) != (w.Failure != nil) || m.Calculation != w.Calculation {
				t.Fatalf("case %d (%s): metric %d is %+v, want %+v", n, want.Profile, i, m, w)
			}
			if m.Failure != nil {
				if failures++; m.Failure.Inner != notKept && m.Failure.Inner != w.Failure.Inner && m.Failure.Inner != w.Failure.Outer {
					t.Fatalf("case %d: metric %d failed by %q, want %q", n, i, m.Failure.Inner, w.Failure.Inner)
				}
				continue
			}
			equal(t, "the reading", m.Current.AverageUtilization, w.Current.AverageUtilization)
			if !m.Unproposed && m.Proposal != max(0, w.Proposal) && m.Proposal != w.Proposal {
				t.Fatalf("case %d (%s): metric %d proposes %d, want %d", n, want.Profile, i, m.Proposal, w.Proposal)
			}
			if m.Rule != NoProposal {
				sums++
			}
			// A sum that was divided by the observed replicas was rounded up to a milli-unit.
			if m.Compared && m.Calculation != AverageValuePerReplicaCalculation && m.UsageRatio != w.UsageRatio {
				t.Fatalf("case %d: the ratio of metric %d is %v, want %v", n, i, m.UsageRatio, w.UsageRatio)
			}
			if m.Multiplied && m.Rule == Proportional && int32(math.Ceil(m.UsageRatio*float64(m.Base))) != m.Proposal {
				t.Fatalf("case %d: metric %d has %d times %v for %d", n, i, m.Base, m.UsageRatio, m.Proposal)
			}
		}
		if t.Failed() {
			t.Fatalf("case %d (%s)", n, want.Profile)
		}
	}
	t.Logf("%d of %d decisions have their steps; %d sums, %d failures, %d without metrics", steps, whole, sums, failures, unknown)
	if steps*100 < whole*85 || sums < 1_000 || failures < 400 {
		t.Errorf("%d of %d decisions have their steps; %d sums, %d failures", steps, whole, sums, failures)
	}
}

// The arithmetic of a reading leads to the proposal, or is not shown.
func TestRetracedSums(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    *Input
		rule  ProposalRule
		ratio float64
		base  int32
	}{
		{"all pods are ready", workload(cpuUtilization(60), 3, 1000, each(3, 900)), Proportional, 1.5, 3},
		{"within tolerance", workload(cpuUtilization(60), 3, 1000, each(3, 620)), WithinTolerance, 62.0 / 60, 0},
		{"a pod that is missing counts, too", workload(cpuUtilization(60), 6, 1000, each(4, 900), missing(2)), NoProposal, 1.5, 0},
		{"a sum that the replicas don't divide", total(externalAverage(1*unit), 3, 4*unit), Proportional, 4.0 / 3, 3},
		{"a total", total(objectValue(100*unit), 3, 250*unit), Proportional, 2.5, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, history := Recommend(t0, tt.in, nil)
			got, _ := history.Retrace(tt.in, &d.Basis)
			m := &got.Explanation.Metrics[0]
			equal(t, "the proposal", m.Proposal, d.Basis.Proposals[0])
			equal(t, "the rule", m.Rule, tt.rule)
			equal(t, "the base", m.Base, tt.base)
			if math.Abs(m.UsageRatio-tt.ratio) > 1e-12 {
				t.Errorf("the ratio is %v, want %v", m.UsageRatio, tt.ratio)
			}
		})
	}
}

// Of metrics that may have made the proposal none is named, and a failed one has no proposal.
func TestARetraceDoesNotGuess(t *testing.T) {
	in := wanting(3)
	in.Spec.Metrics = append(in.Spec.Metrics, in.Spec.Metrics[0], in.Spec.Metrics[0])
	in.Readings = append(in.Readings, Readings{Values: []Value{{Milli: 5 * unit}}}, Readings{Error: "away"})
	d, history := Recommend(t0, in, nil)
	got, _ := history.Retrace(in, &Basis{})
	equal(t, "the winner", got.Explanation.Winner, -1)
	equal(t, "the proposal of all", got.Explanation.Proposal, int32(5))
	for i := range 2 {
		equal(t, "it is unknown what a metric proposed", got.Explanation.Metrics[i].Unproposed, true)
	}
	got, _ = history.Retrace(in, &d.Basis)
	equal(t, "the winner with the basis", got.Explanation.Winner, 1)
	m := got.Explanation.Metrics[2]
	equal(t, "the proposal of a failed metric", m.Proposal, int32(failed))
	if !strings.Contains(m.Failure.Inner, "away") {
		t.Errorf("its error is %q", m.Failure.Inner)
	}
}

// A decision without the scale is told as one, whatever was wrong with it.
func TestARetraceWithoutAScale(t *testing.T) {
	for _, reason := range []ScaleErrorReason{ScaleGetFailed, ScaleInvalidAPIVersion, ScaleUnknownKind} {
		in := wanting(3)
		in.ScaleError = &ScaleError{Reason: reason, Message: "x"}
		_, history := Recommend(t0, in, nil)
		got, _ := history.Retrace(in, &Basis{})
		equal(t, "the path", got.Path, PathScaleUnavailable)
	}
}

// With other windows the steps do not lead to the decision, and are left out.
func TestARetraceWithAnotherSpec(t *testing.T) {
	in := wanting(9)
	x := &target{in: in}
	x.recommend(t, 0)
	read(in, 0, 4*unit)
	x.recommend(t, 15*time.Second)
	other := *in
	other.Spec.Behavior = behavior(nil, nil) // no window holds
	got, known := x.history.Retrace(&other, &Basis{})
	e := got.Explanation
	if !known || got.Current != 9 || got.Desired != 9 || e.Stabilization.WindowsLen > 0 || e.Bounds != (Bounds{}) {
		t.Errorf("%v %+v", known, e)
	}
	if none, known := new(History).Retrace(in, &Basis{}); known {
		t.Errorf("a new target has %+v", none)
	}
	if !slices.Equal(e.Warnings, nil) {
		t.Errorf("warnings: %v", e.Warnings)
	}
}
