package recommender

import (
	"math"
	"slices"
	"testing"
	"time"
)

// trace runs a target through evaluations of random inputs with one spec; what
// changes is applied, failed or left to be seen.
func (r random) trace(evaluations int, check func(in *Input, history *History, d Decision, next *History)) {
	var history History
	first := r.input()
	at, replicas := t0, first.Scale.SpecReplicas
	for range evaluations {
		in := r.input()
		in.Spec, in.Options, in.Explain = first.Spec, first.Options, true
		in.Readings = nil
		for i := range in.Spec.Metrics {
			in.Readings = append(in.Readings, r.readings(&in.Spec.Metrics[i], in.Pods))
		}
		in.Scale = Scale{replicas, replicas}
		d, next := Recommend(at, in, &history)
		check(in, &history, d, &next)
		if d.Changes() && r.chance(80) {
			replicas = d.Desired
			if r.chance(50) {
				_, next, _ = Settle(next, "ns", d.ID, Applied, "")
			}
		}
		if r.chance(5) {
			replicas = int32(r.IntN(40)) // someone else
		}
		history = next
		at = at.Add(time.Duration(r.Int64N(int64(time.Minute))))
	}
}

func TestPropertyDesiredIsWithinTheBounds(t *testing.T) {
	random, decided := newRandom(2), 0
	for range 400 {
		random.trace(15, func(in *Input, _ *History, d Decision, _ *History) {
			switch d.Path {
			case PathMetrics, PathAboveMax, PathBelowMin:
				decided++
				if d.Desired < in.Spec.MinReplicas || d.Desired > in.Spec.MaxReplicas {
					t.Fatalf("%d replicas of %d to %d, from %d: %+v", d.Desired, in.Spec.MinReplicas, in.Spec.MaxReplicas, d.Current, in)
				}
			default:
				if d.Desired != d.Current {
					t.Fatalf("path %d changes %d to %d", d.Path, d.Current, d.Desired)
				}
			}
		})
	}
	if decided < 2000 {
		t.Errorf("only %d decisions", decided)
	}
}

// A workload of replicas ready pods, all measured, whose metrics read factor times
// their targets.
func (r random) onTarget(replicas int32, metrics int, factor func() float64) *Input {
	in := workload(cpuUtilization(100), replicas, 1000, each(int(replicas), 0))
	in.Spec.MaxReplicas, in.Spec.Metrics = 1000, nil
	if r.chance(50) {
		in.Spec.Behavior = behavior(nil, nil)
	}
	cpu := factor() // all cpu metrics read the same samples, of target 500 of 1000
	for i := range in.PodMetrics {
		in.PodMetrics[i].Containers[0].Usage[0].Milli = int64(math.Round(500 * cpu))
	}
	for i := range metrics {
		metric := oneOf(r, cpuUtilization(50), containerUtilization("app", 50), resourceAverage("cpu", 500),
			podsAverage(500), objectValue(5000), objectAverage(5000), externalValue(5000), externalAverage(5000))
		in.Spec.Metrics = append(in.Spec.Metrics, metric)
		f := factor()
		switch metric.Type {
		case PodsMetric:
			in.Readings = append(in.Readings[:i], Readings{})
			for _, p := range in.Pods {
				in.Readings[i].Values = append(in.Readings[i].Values, Value{p.Name, int64(math.Round(500 * f))})
			}
		case ObjectMetric, ExternalMetric:
			worth := 5000 * f
			if metric.Target.AverageValue != nil {
				worth *= float64(replicas)
			}
			read(in, i, int64(math.Round(worth)))
		default:
			read(in, i)
		}
	}
	return in
}

func TestPropertyWithinToleranceNothingChanges(t *testing.T) {
	random := newRandom(3)
	for range 3000 {
		in := random.onTarget(int32(random.between(1, 60)), random.between(1, 3), func() float64 { return 0.92 + 0.16*random.Float64() })
		d, _ := Recommend(t0, in, nil)
		if d.Path != PathMetrics || d.Changes() {
			t.Fatalf("path %d, %d to %d replicas: %+v", d.Path, d.Current, d.Desired, in.Spec.Metrics)
		}
	}
}

// With every pod measured and ready, and as many pods as replicas.
func TestPropertyMoreUsageNeverYieldsFewer(t *testing.T) {
	random := newRandom(4)
	for range 1500 {
		replicas, seed := int32(random.between(1, 60)), random.Uint64()
		at := func(f float64) int32 {
			in := newRandom(seed).onTarget(replicas, 1, func() float64 { return f })
			d, _ := Recommend(t0, in, longKnown())
			return d.Desired
		}
		less := 3 * random.Float64()
		more := less + random.Float64()*oneOf(random, 0.01, 0.2, 3)
		if few, many := at(less), at(more); few > many {
			t.Fatalf("%d replicas at %v times the target yield %d, at %v %d", replicas, less, few, more, many)
		}
	}
}

func TestPropertyTheOrderOfMetricsIsIrrelevantToTheCount(t *testing.T) {
	random := newRandom(5)
	for range 3000 {
		in := random.input()
		d, _ := Recommend(t0, in, longKnown())
		other := clone(in)
		slices.Reverse(other.Spec.Metrics)
		slices.Reverse(other.Readings)
		if random.chance(50) {
			half := len(other.Spec.Metrics) / 2
			other.Spec.Metrics = slices.Concat(other.Spec.Metrics[half:], other.Spec.Metrics[:half])
			other.Readings = slices.Concat(other.Readings[half:], other.Readings[:half])
		}
		reordered, _ := Recommend(t0, other, longKnown())
		if reordered.Desired != d.Desired {
			t.Fatalf("%d replicas, in another order %d: %+v", d.Desired, reordered.Desired, in)
		}
	}
}

func TestPropertyAFailedMetricNeverScalesDown(t *testing.T) {
	random, failures := newRandom(6), 0
	for range 600 {
		random.trace(10, func(_ *Input, _ *History, d Decision, _ *History) {
			failed := slices.ContainsFunc(d.Explanation.Metrics, func(e MetricEvaluation) bool { return e.Failure != nil })
			if !failed {
				return
			}
			failures++
			if d.Desired < d.Current || d.Error == "" {
				t.Fatalf("%d to %d replicas, error %q", d.Current, d.Desired, d.Error)
			}
		})
	}
	if failures < 500 {
		t.Errorf("only %d failures", failures)
	}
}

// plain is the arithmetic of windows and policies over everything that ever happened: no slots, no
// reuse, nothing dropped.
type plain struct {
	recommended []TimedRecommendation
	ups, downs  []ScaleEvent
}

// change adds up the events that are younger than the period.
func (p *plain) change(events []ScaleEvent, now int64, period int32) (sum int32) {
	for _, e := range events {
		if e.At > now-int64(period)*int64(time.Second) {
			sum += e.Change
		}
	}
	return sum
}

// limit is what policies allow.
func (p *plain) limit(now int64, up bool, rules *ScalingRules, current int32) int32 {
	if rules.SelectPolicy == NoSelection {
		return current
	}
	var allowed []int32
	for _, policy := range rules.Policies {
		start := current - p.change(p.ups, now, policy.PeriodSeconds) + p.change(p.downs, now, policy.PeriodSeconds)
		percent := float64(policy.Value) / 100
		switch {
		case policy.Type == PodsPolicy && up:
			allowed = append(allowed, start+policy.Value)
		case policy.Type == PodsPolicy:
			allowed = append(allowed, start-policy.Value)
		case up:
			allowed = append(allowed, int32(math.Ceil(float64(start)*(1+percent))))
		default:
			allowed = append(allowed, int32(float64(start)*(1-percent)))
		}
	}
	if up == (rules.SelectPolicy == MaxChange) {
		return slices.Max(allowed)
	}
	return slices.Min(allowed)
}

// stabilized is the arithmetic of windows.
func (p *plain) stabilized(now int64, in *Input, current, proposal int32) int32 {
	up, down := proposal, proposal
	if in.Spec.Behavior == nil {
		for _, r := range p.recommended {
			if r.At >= now-int64(in.Options.DownscaleStabilization) {
				down = max(down, r.Replicas)
			}
		}
		return down
	}
	upWindow := int64(*in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds) * int64(time.Second)
	downWindow := int64(*in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds) * int64(time.Second)
	for _, r := range p.recommended {
		if r.At > now-upWindow {
			up = min(up, r.Replicas)
		}
		if r.At > now-downWindow {
			down = max(down, r.Replicas)
		}
	}
	return min(max(current, up), down)
}

// bounded is the arithmetic of policies and bounds.
func (p *plain) bounded(now int64, in *Input, current, wanted int32) int32 {
	spec := &in.Spec
	switch {
	case spec.Behavior == nil:
		return max(min(wanted, spec.MaxReplicas, max(2*current, 4)), spec.MinReplicas)
	case wanted > current:
		return min(wanted, spec.MaxReplicas, max(p.limit(now, true, &spec.Behavior.ScaleUp, current), current))
	case wanted < current:
		return max(wanted, spec.MinReplicas, min(p.limit(now, false, &spec.Behavior.ScaleDown, current), current))
	}
	return wanted
}

// comparison is a target that wants random counts, decided by both.
type comparison struct {
	random
	in      *Input
	history History
	plain   plain
	now     time.Time
}

func newComparison(r random) *comparison {
	in := wanting(int32(r.between(2, 30)))
	in.Spec.MinReplicas, in.Spec.MaxReplicas = int32(r.between(1, 5)), int32(r.between(10, 60))
	in.Options.DownscaleStabilization = time.Duration(r.between(0, 120)) * time.Second
	if r.chance(75) {
		in.Spec.Behavior = r.behavior()
		up, down := &in.Spec.Behavior.ScaleUp, &in.Spec.Behavior.ScaleDown
		up.Tolerance, down.Tolerance = nil, nil
		// An event is kept for the longest period of its own direction, although
		// both directions count it.
		up.Policies[0].PeriodSeconds, down.Policies[0].PeriodSeconds = 90, 90
	}
	return &comparison{random: r, in: in, now: t0}
}

// step evaluates once; the change is applied. The target moves by whole and half
// seconds so that edges are met.
func (c *comparison) step(t *testing.T) {
	current, wants := c.in.Scale.SpecReplicas, int32(c.between(0, 70))
	read(c.in, 0, int64(wants)*unit)
	c.in.ID[0]++
	at := c.now.UnixNano()
	d, next := Recommend(c.now, c.in, &c.history)
	if len(c.plain.recommended) == 0 {
		c.plain.recommended = append(c.plain.recommended, TimedRecommendation{current, at})
	}
	want := min(max(current, c.in.Spec.MinReplicas), c.in.Spec.MaxReplicas)
	if want == current {
		want = c.plain.bounded(at, c.in, current, c.plain.stabilized(at, c.in, current, wants))
		c.plain.recommended = append(c.plain.recommended, TimedRecommendation{wants, at})
	}
	if d.Desired != want {
		t.Fatalf("%d replicas want %d and get %d, want %d: %+v", current, wants, d.Desired, want, d.Status.Conditions)
	}
	if d.Changes() {
		if c.in.Spec.Behavior != nil {
			if change := d.Desired - current; change > 0 {
				c.plain.ups = append(c.plain.ups, ScaleEvent{Change: change, At: at})
			} else {
				c.plain.downs = append(c.plain.downs, ScaleEvent{Change: -change, At: at})
			}
		}
		_, next, _ = Settle(next, "ns", d.ID, Applied, "")
	}
	c.history = next
	c.in.Scale = Scale{d.Desired, d.Desired}
	if c.chance(3) {
		replicas := int32(c.between(1, 60)) // someone else, which is no event
		c.in.Scale = Scale{replicas, replicas}
	}
	c.now = c.now.Add(time.Duration(c.between(0, 40)) * time.Second / 2)
}

// As long as windows and periods stay as they are, and both directions have the
// same longest period, upstream's slots hold all that counts; so no step exceeds
// the policies over everything that happened, except to reach the bounds.
func TestPropertySlotsAnswerAsAFullRecord(t *testing.T) {
	random, reused := newRandom(7), 0
	for range 300 {
		c := newComparison(random)
		for range 60 {
			c.step(t)
		}
		if len(c.history.Recommendations) < len(c.plain.recommended) {
			reused++
		}
	}
	if reused < 200 {
		t.Errorf("slots were reused in %d traces only", reused)
	}
}
