package recommender

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// outlooking is a target whose metrics propose what they are told, whatever the count.
type outlooking struct {
	random
	in       *Input
	asked    []int32 // by metric, failed: it fails
	history  History
	last     Decision
	at       time.Time
	replicas int32
	shown    []int32 // what the input shows: asked and replicas
}

// newOutlooking is a target of any profile that was decided for a while; its last change is pending,
// applied or failed.
func newOutlooking(t *testing.T, r random) *outlooking {
	in := wanting(1)
	in.Spec.MinReplicas, in.Spec.MaxReplicas = int32(r.between(1, 5)), int32(r.between(5, 60))
	in.Options.Profile = oneOf(r, &v136, &v136, &v136, &v137, &v128, &v119, &v115, &cooldown, &design2015)
	in.Options.DownscaleStabilization = time.Duration(r.between(0, 240)) * time.Second / 2
	in.Options.UpscaleDelay, in.Options.DownscaleDelay = time.Duration(r.IntN(60))*time.Second, time.Duration(r.IntN(90))*time.Second
	in.Options.HistoryLimit = oneOf(r, 0, 0, 0, 8, 12)
	if in.Options.ScaleToZero = r.chance(20); in.Options.ScaleToZero && r.chance(50) {
		in.Spec.MinReplicas = 0
	}
	if r.chance(70) {
		in.Spec.Behavior = r.behavior()
		up, down := &in.Spec.Behavior.ScaleUp, &in.Spec.Behavior.ScaleDown
		up.Tolerance, down.Tolerance = nil, nil
		down.StabilizationWindowSeconds = oneOf(r, nil, new(int32(0)), new(int32(20)), new(int32(90)))
		for r.chance(10) || len(down.Policies) > 3 && len(down.Policies) <= fewPolicies {
			down.Policies = append(down.Policies, r.rules(0).Policies...)
		}
	}
	metrics := max(1, r.between(-4, 6))
	if in.Options.Profile == &design2015 {
		metrics, in.Spec.Metrics[0], in.Options.Tolerance = 1, cpuUtilization(100), oneOf(r, 0, 0.1, 0.3)
	}
	for range metrics - 1 {
		in.Spec.Metrics = append(in.Spec.Metrics, in.Spec.Metrics[0])
	}
	x := &outlooking{random: r, in: in, at: t0, asked: make([]int32, metrics), replicas: int32(r.between(1, 60))}
	high := oneOf(r, 10, 70)
	for range r.between(1, 25) {
		x.at = x.at.Add(time.Duration(r.between(0, 40)) * time.Second / 2)
		for i := range x.asked {
			if x.asked[i] = int32(r.between(0, high)); r.chance(6) {
				x.asked[i] = failed
			}
		}
		if r.chance(4) {
			x.replicas = int32(r.between(0, 70)) // someone else
		}
		x.in.ScaleError, x.in.SelectorProblem = nil, nil
		switch r.IntN(40) {
		case 0:
			x.in.ScaleError = &ScaleError{Message: "away"}
		case 1:
			x.in.SelectorProblem = &SelectorProblem{Reason: SelectorRequired}
		}
		d := x.decide(x.at, &x.history)
		if d.Changes() {
			outcome := oneOf(r, Undecided, Applied, Applied, Failed)
			if outcome != Undecided {
				x.settle(t, d.ID, outcome)
			}
			if outcome != Failed {
				x.replicas = d.Desired
			}
		} else {
			x.replicas = d.Current
		}
		x.last = d
	}
	return x
}

// decide decides with what the metrics ask for, and keeps the next history in h.
func (x *outlooking) decide(at time.Time, h *History) Decision {
	x.in.ID[0]++
	if x.in.ID[0] == 0 {
		x.in.ID[1]++
	}
	x.in.Scale = Scale{x.replicas, x.replicas}
	if now := append(slices.Clone(x.asked), x.replicas); !slices.Equal(now, x.shown) {
		x.shown = now
		x.show()
	}
	d, next := Recommend(at, x.in, h)
	*h = next
	return d
}

// show makes the metrics read what they are to ask for.
func (x *outlooking) show() {
	for i, n := range x.asked {
		if read(x.in, i, int64(n)*unit); n == failed {
			x.in.Readings[i] = Readings{Error: "away"}
		}
	}
	if x.in.Options.Profile == &design2015 { // n replicas' worth, spread over all of them
		count := max(0, int(x.replicas))
		pods := workload(x.in.Spec.Metrics[0], 0, int64(count), each(count, int64(x.asked[0])))
		x.in.Pods, x.in.PodMetrics = pods.Pods, pods.PodMetrics
	}
}

func (x *outlooking) settle(t *testing.T, id ID, outcome Outcome) {
	t.Helper()
	var err error
	_, x.history, err = Settle(x.history, "ns", id, outcome, "")
	fatal.If(t, err)
}

// At the outlook's instants, and at no decision in between, the engine changes the count as the
// outlook says: it is asked at each of its instants with the same proposals.
func TestPropertyTheEngineDoesWhatTheOutlookSays(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	r := newRandom(41)
	changes, ends, holds, paths := 0, 0, 0, map[Path]int{}
	for n := range 20_000 {
		x := newOutlooking(t, r)
		period := oneOf(r, time.Second, time.Second, time.Second, 15*time.Second, time.Second/2)
		now := x.at.Add(time.Duration(r.IntN(80)) * time.Second / 2)
		before := clone(&x.history)
		basis := x.last.Basis
		if r.chance(50) && x.in.Options.Profile.algorithm == controllerAlgorithm {
			basis = Basis{} // the history has the proposal
		}
		if !x.history.lastKnown(x.in, &basis).Decided {
			basis = x.last.Basis // several decisions were made at that instant
		}
		o, known := x.history.Outlook(x.in, &basis, now, period)
		if equal(t, "the history", &x.history, before); !known {
			t.Fatal("nothing is known of a target that was evaluated")
		}
		if o.Replicas != x.replicas {
			t.Fatalf("case %d starts at %d replicas, want %d", n, o.Replicas, x.replicas)
		}
		paths[o.Path]++
		if known := x.history.lastKnown(x.in, &basis); known.path != x.last.Path || known.Decided && (!x.last.Basis.Decided || known.Proposal != x.last.Basis.Proposal) {
			t.Fatalf("case %d (%s): the last decision was %v %+v, want %v %+v", n, x.in.Options.Profile.Name(), known.path, known.Basis, x.last.Path, x.last.Basis)
		}
		expected := slices.Clone(o.Changes)
		history := x.history
		held := o.Hold.Window != nil && (len(expected) == 0 || expected[0].At.After(now))
		for i := range oneOf(r, 20, 30, 30, 140) {
			at := now.Add(time.Duration(i) * period)
			if !o.Until.IsZero() && !at.Before(o.Until) {
				break
			}
			over := held && at.UnixNano() >= o.Hold.Until
			x.in.Explain = over
			d := x.decide(at, &history)
			if i == 0 && d.Path != o.Path {
				t.Fatalf("case %d (%s): the path is %v, want %v: %v %+v", n, x.in.Options.Profile.Name(), o.Path, d.Path, x.last.Path, x.history)
			}
			if over { // before that nothing changes, see below
				if held = false; d.hold(&history).Window != nil && d.Explanation.Stabilization.Stabilized == d.Current {
					t.Fatalf("case %d (%s): it is held after %v, too\n%+v\n%+v", n, x.in.Options.Profile.Name(), at.Sub(now), o.Hold, x.history)
				}
				holds++
			}
			due := len(expected) > 0 && expected[0].At.Equal(d.At)
			if due != d.Changes() || due && expected[0].Replicas != d.Desired {
				t.Fatalf("case %d (%s): after %v %d become %d, the outlook has %v\n%+v\n%+v",
					n, x.in.Options.Profile.Name(), at.Sub(now), d.Current, d.Desired, expected, x.in.Spec.Behavior, x.history)
			}
			if due {
				changes++
				expected = expected[1:]
				x.replicas = d.Desired
				var err error
				_, history, err = Settle(history, "ns", d.ID, Applied, "")
				fatal.If(t, err)
			}
		}
		if o.Until.IsZero() {
			ends++
		}
	}
	if changes < 8_000 || ends < 10_000 || holds < 500 || len(paths) < 7 {
		t.Errorf("%d changes, %d outlooks with an end, %d windows that let go, paths %v", changes, ends, holds, paths)
	}
}

// Whatever the metrics propose that do not fail, a decision is from Lowest to Highest, and some
// proposals come to these.
func TestPropertyTheOutlookKnowsHowFarADecisionCanGo(t *testing.T) {
	t.Parallel()
	r := newRandom(42)
	moves := 0
	for n := range 800 {
		x := newOutlooking(t, r)
		now := x.at.Add(time.Duration(r.IntN(80)) * time.Second / 2)
		o, _ := x.history.Outlook(x.in, &x.last.Basis, now, time.Second)
		asked := slices.Clone(x.asked)
		if x.last.Path == PathMetricsFailed && x.in.Options.Profile.keepsMetrics {
			continue // nothing tells which metrics fail
		}
		if x.last.Path == PathAboveMax || x.last.Path == PathBelowMin || x.last.Path == PathScalingDisabled {
			clear(asked) // they were not read
		}
		lowest, highest := int32(math.MaxInt32), int32(math.MinInt32)
		for p := range int32(80) {
			if p == 79 {
				p = 1_000_000
			}
			for i := range asked {
				if x.asked[i] = p; asked[i] == failed {
					x.asked[i] = failed
				}
			}
			if i := r.IntN(len(asked)); p == 40 && x.asked[i] != failed {
				x.asked[i] = int32(r.IntN(40)) // the largest counts
			}
			history := x.history
			x.replicas = o.Replicas
			d := x.decide(now, &history)
			lowest, highest = min(lowest, d.Desired), max(highest, d.Desired)
		}
		if o.Lowest > lowest || o.Highest < highest {
			t.Fatalf("case %d: %d to %d can be reached, the outlook has %d to %d", n, lowest, highest, o.Lowest, o.Highest)
		}
		if o.Lowest != lowest || o.Highest != highest {
			t.Fatalf("case %d (%s): only %d to %d can be reached, the outlook has %d to %d", n, x.in.Options.Profile.Name(), lowest, highest, o.Lowest, o.Highest)
		}
		if o.Lowest < o.Highest {
			moves++
		}
	}
	if moves < 250 {
		t.Errorf("only %d can move", moves)
	}
}

// No history makes it panic or go on beyond its limits.
func TestPropertyAnyHistoryHasABoundedOutlook(t *testing.T) {
	t.Parallel()
	r := newRandom(43)
	for range 3000 {
		in, history := r.input(), r.history()
		r.wild(in)
		d, next := Recommend(t0, in, &history)
		for _, h := range []*History{&history, &next} {
			o, known := h.Outlook(in, &d.Basis, t0, time.Duration(r.between(-1, 1e9)))
			if known != h.Seen || len(o.Changes) > OutlookDecisions || known && o.Lowest > o.Highest {
				t.Fatalf("%v %+v", known, o)
			}
		}
	}
}

// text is the outlook in one line: changes with their seconds after t0, and the reasons of holds.
func (o *Outlook) text() string {
	var b strings.Builder
	say := func(h *Hold) {
		if h.Reason != "" {
			fmt.Fprintf(&b, " %s", h.Reason)
		}
		if h.Rate != nil && h.Rate.SelectPolicy != "" {
			fmt.Fprintf(&b, "(%s)", h.Rate.SelectPolicy)
		}
		if h.Until != 0 {
			fmt.Fprintf(&b, " until %v", time.Unix(0, h.Until).Sub(t0).Seconds())
		}
	}
	fmt.Fprintf(&b, "%v [%d,%d] %d of %d", o.Path, o.Lowest, o.Highest, o.Replicas, o.Proposal)
	say(&o.Hold)
	for _, c := range o.Changes {
		fmt.Fprintf(&b, "; %v: %d", c.At.Sub(t0).Seconds(), c.Replicas)
		if c.Doubtful {
			b.WriteString("?")
		}
		say(&c.Hold)
	}
	if !o.Until.IsZero() {
		fmt.Fprintf(&b, "; then unknown from %v", o.Until.Sub(t0).Seconds())
	}
	return b.String()
}

func TestAnOutlookEnds(t *testing.T) {
	for _, tt := range []struct {
		period  int32
		changes int
		until   time.Duration
	}{
		{1, OutlookDecisions, OutlookDecisions * time.Second},
		{7200, 13, OutlookHorizon + 1}, // the first at once, the last after a day
	} {
		in := wanting(100)
		in.Spec.Behavior = behavior(nil, policies(ScalingPolicy{PodsPolicy, 1, tt.period}))
		_, history := Recommend(t0.Add(-time.Hour), in, nil)
		o, _ := history.Outlook(in, &Basis{Decided: true, Proposal: 1}, t0, time.Second)
		equal(t, "changes", len(o.Changes), tt.changes)
		equal(t, "until", o.Until, t0.Add(tt.until))
		equal(t, "its end", o.End, EndOfLimit)
	}
	o, known := new(History).Outlook(wanting(1), &Basis{}, t0, time.Second)
	equal(t, "the outlook of a new target", o, Outlook{})
	equal(t, "known", known, false)
}

// A change that was refused is due again.
func TestAnOutlookAfterARefusedChange(t *testing.T) {
	x, d := scalingUp(t, nil)
	_, history := mustSettle(t, x.history, "ns", d.ID, Failed, "quota")
	o, _ := history.Outlook(x.in, &d.Basis, t0.Add(15*time.Second), 15*time.Second)
	equal(t, "the outlook", o.text(), "Metrics [8,10] 5 of 8; 15: 8")
}

// What a target of type Value asks for is multiplied by the count: 250 of 100 makes 5 of 2, and 13 of 5.
func TestAnOutlookOfATotalEndsWithTheCount(t *testing.T) {
	for _, tt := range []struct {
		value int64
		count int32
		want  string
	}{
		{250, 2, "Metrics [5,10] 5 of -1; then unknown from 15"},
		{50, 6, "Metrics [6,12] 6 of 3 ScaleDownStabilized until 300; 300: 3; then unknown from 315"},
	} {
		in := total(externalValue(100*unit), tt.count, tt.value*unit)
		in.Spec.Behavior = defaultBehavior()
		d, history := Recommend(t0, in, nil)
		o, _ := history.Outlook(in, &d.Basis, t0.Add(15*time.Second), 15*time.Second)
		equal(t, "the outlook", o.text(), tt.want)
		equal(t, "its end", o.End, EndMultiple)
	}
}

// Each rule, in cases whose figures are computed by hand. A target is asked for so many replicas at
// so many seconds; then comes the outlook of a decision each second.
func TestOutlooks(t *testing.T) {
	type asked struct{ at, wants int32 }
	of := func(replicas int32, change func(in *Input)) *Input { return changed(wanting(replicas), change) }
	perMinute := func(kind PolicyType, value int32) []ScalingPolicy {
		return policies(ScalingPolicy{kind, value, 60})
	}
	for _, tt := range []struct {
		name  string
		in    *Input
		asked []asked
		now   int
		want  string
	}{
		{
			"a window, then a policy, step by step",
			of(14, func(in *Input) {
				in.Spec.Behavior = behavior(perMinute(PodsPolicy, 2), perMinute(PercentPolicy, 20))
				in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(300))
			}),
			[]asked{{0, 14}, {15, 5}, {30, 5}}, 45,
			"Metrics [14,16] 14 of 5 ScaleDownStabilized until 300; 300: 11 ScaleDownLimit(Max); 360: 8 ScaleDownLimit(Max); 420: 6 ScaleDownLimit(Max); 480: 5",
		},
		{
			"a policy that has counted a change holds until it leaves the period",
			of(14, func(in *Input) { in.Spec.Behavior = behavior(nil, perMinute(PercentPolicy, 20)) }),
			[]asked{{0, 5}}, 15,
			"Metrics [11,22] 11 of 5 ScaleDownLimit(Max) until 60; 60: 8 ScaleDownLimit(Max); 120: 6 ScaleDownLimit(Max); 180: 5",
		},
		{
			"recommendations leave the window one after the other; without behavior one at its edge counts",
			of(10, func(*Input) {}),
			[]asked{{0, 10}, {60, 8}, {90, 5}}, 100,
			"Metrics [10,20] 10 of 5 ScaleDownStabilized until 300.000000001; 301: 8 ScaleDownStabilized until 360.000000001; 361: 5",
		},
		{
			"a peak that a policy limited holds, and after it lower recommendations down to the count",
			of(5, func(in *Input) {
				in.Spec.Behavior = behavior(perMinute(PodsPolicy, 2), nil)
				in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(300))
			}),
			[]asked{{0, 9}, {20, 8}, {40, 7}, {60, 6}, {80, 3}}, 90,
			"Metrics [7,9] 7 of 3 ScaleDownStabilized until 340; 340: 6 ScaleDownStabilized until 360; 360: 3",
		},
		{
			"without behavior the count doubles at most with each decision, and a recommendation can raise it",
			of(3, func(*Input) {}),
			[]asked{{0, 40}}, 15,
			"Metrics [12,12] 6 of 40 ScaleUpLimit; 15: 12 ScaleUpLimit; 16: 24 ScaleUpLimit; 17: 40",
		},
		{
			"a window upwards",
			of(3, func(in *Input) {
				in.Spec.Behavior = behavior(perMinute(PodsPolicy, 4), nil)
				in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(30))
			}),
			[]asked{{0, 3}, {10, 9}}, 20,
			"Metrics [1,3] 3 of 9 ScaleUpStabilized until 30; 30: 7 ScaleUpLimit(Max); 90: 9",
		},
		{
			"the maximum",
			of(6, func(in *Input) { in.Spec.MaxReplicas, in.Spec.Behavior = 10, behavior(nil, nil) }),
			[]asked{{0, 40}}, 15,
			"Metrics [1,10] 10 of 40 TooManyReplicas",
		},
		{
			"the minimum",
			of(6, func(in *Input) { in.Spec.MinReplicas, in.Spec.Behavior = 4, behavior(nil, nil) }),
			[]asked{{0, 1}}, 15,
			"Metrics [4,8] 4 of 1 TooFewReplicas",
		},
		{
			"a minimum that is the maximum",
			of(6, func(in *Input) { in.Spec.MinReplicas, in.Spec.MaxReplicas = 6, 6 }),
			[]asked{{0, 9}}, 15,
			"Metrics [6,6] 6 of 9 TooManyReplicas",
		},
		{
			"scale-downs are disabled",
			of(6, func(in *Input) {
				in.Spec.Behavior = behavior(nil, nil)
				in.Spec.Behavior.ScaleDown.SelectPolicy = NoSelection
			}),
			[]asked{{0, 1}}, 15,
			"Metrics [6,12] 6 of 1 ScaleDownLimit(Disabled)",
		},
		{"no replicas", of(0, func(*Input) {}), []asked{{0, 4}}, 15, "ScalingDisabled [0,0] 0 of -1"},
		{"the only metric fails", of(6, func(*Input) {}), []asked{{0, failed}}, 15, "MetricsFailed [6,6] 6 of -1"},
		{
			"one of two metrics fails: no scale-down",
			of(6, func(in *Input) {
				in.Spec.Metrics = append(in.Spec.Metrics, in.Spec.Metrics[0])
				in.Readings = append(in.Readings, Readings{Error: "away"})
			}),
			[]asked{{0, 2}}, 15,
			"MetricsFailed [6,12] 6 of -1",
		},
		{
			"nobody has read the metrics of a target above the maximum",
			of(20, func(in *Input) { in.Spec.MaxReplicas = 10 }),
			[]asked{{0, 3}}, 15,
			"Metrics [10,10] 10 of -1; then unknown from 15",
		},
		{
			"on the way the load comes within tolerance",
			of(130, func(in *Input) {
				in.Options.Tolerance, in.Spec.MaxReplicas = 0.1, 200
				in.Spec.Behavior = behavior(nil, perMinute(PercentPolicy, 10))
			}),
			[]asked{{0, 100}}, 15,
			"Metrics [117,200] 117 of 100 ScaleDownLimit(Max) until 60; 60: 105 ScaleDownLimit(Max); 120: 100?",
		},
		{
			"tolerance has a direction",
			of(90, func(in *Input) {
				in.Spec.MaxReplicas, in.Spec.Behavior = 200, behavior(perMinute(PodsPolicy, 10), nil)
				in.Spec.Behavior.ScaleUp.Tolerance, in.Spec.Behavior.ScaleDown.Tolerance = new(0.06), new(0.5)
			}),
			[]asked{{0, 117}}, 15, // 117 are 1.064 times 110, and 116.5 are within 1.06
			"Metrics [1,100] 100 of 117 ScaleUpLimit(Max) until 60; 60: 110 ScaleUpLimit(Max); 120: 117?",
		},
		{
			"a proposal is no doubt at the count that it was made for",
			of(100, func(in *Input) {
				in.Options.Tolerance, in.Spec.Metrics[0].Target.AverageValue = 0.1, new(int64(2*unit))
			}),
			[]asked{{0, 200}, {15, 179}}, 20, // 89.5 replicas' worth, and 90 would be within tolerance
			"Metrics [100,100] 100 of 90 ScaleDownStabilized until 300.000000001; 301: 90",
		},
		{
			"delays after a change",
			of(3, func(in *Input) { in.Options.Profile = &cooldown }),
			[]asked{{0, 40}}, 15,
			"Metrics [6,6] 6 of 40 BackoffBoth until 180.000000001; 181: 12 ScaleUpLimit; 362: 24 ScaleUpLimit; 543: 40",
		},
		{
			"delays after a change that pods caused, whose samples are gone",
			changed(workload(cpuUtilization(50), 3, 1000, each(3, 1000)), func(in *Input) { in.Options.Profile = &cooldown }),
			[]asked{{0, 0}}, 15,
			"Metrics [6,6] 6 of 6",
		},
		{
			"delays after a change, in the design",
			changedBefore(utilized(3, alike(3, 800)...), time.Minute),
			[]asked{{0, 0}}, 15,
			"Metrics [3,3] 3 of 30 until 120.000000001; 121: 30",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, last := &target{in: tt.in}, Decision{}
			for _, a := range tt.asked {
				if tt.in.Spec.Metrics[0].Type == ExternalMetric {
					if read(tt.in, 0, int64(a.wants)*unit); a.wants == failed {
						tt.in.Readings[0] = Readings{Error: "away"}
					}
				}
				if last = x.recommend(t, time.Duration(a.at)*time.Second); last.Changes() {
					x.settle(t, last)
				}
			}
			o, _ := x.history.Outlook(tt.in, &last.Basis, t0.Add(time.Duration(tt.now)*time.Second), time.Second)
			if got := o.text(); got != tt.want {
				t.Errorf("the outlook is\n%s, want\n%s", got, tt.want)
			}
		})
	}
}
