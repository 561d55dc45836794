package stages_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

const failed = -1

// several is a target with as many External metrics as it is asked with, each of which proposes its value:
// averages of 1 without tolerance.
func several(t *testing.T, n int) *target {
	g := newTarget(t)
	one := int64(1000)
	g.in.Options.Tolerance, g.in.Spec.Metrics = 0, nil
	plan := &stages.Plan{}
	for i := range n {
		name := []string{"cpu", "queue", "latency", "fourth", "fifth"}[i]
		g.in.Spec.Metrics = append(g.in.Spec.Metrics, recommender.MetricSpec{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: name},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &one},
		})
		plan.Metrics = append(plan.Metrics, "External:"+name)
	}
	g.around.Plan = plan
	return g
}

func (g *target) propose(at time.Time, current int32, proposals ...int64) recommender.Decision {
	g.t.Helper()
	g.in.Readings = nil
	for _, p := range proposals {
		readings := recommender.Readings{Values: []recommender.Value{{Milli: p * 1000}}}
		if p == failed {
			readings = recommender.Readings{Error: "away"}
		}
		g.in.Readings = append(g.in.Readings, readings)
	}
	return g.decide(at, current)
}

// The examples of combiners.
func TestCombine(t *testing.T) {
	for name, c := range map[string]struct {
		combine   stages.Combine
		current   int32
		proposals []int64
		want      int32
		plain     int32
		held      bool
		message   string
	}{
		"C1 MAX": {stages.Combine{}, 6, []int64{8, 5, 12}, 12, 12, false, ""},
		"C1 MIN": {stages.Combine{Method: stages.Min}, 6, []int64{8, 5, 12}, 6, 12, false, // the window
			"MIN of External:cpu 8, External:queue 5, External:latency 12: 5; MAX would be 12"},
		"C1 QUORUM": {stages.Combine{Method: stages.Quorum, Quorum: 2}, 6, []int64{8, 5, 12}, 8, 12, false,
			"QUORUM 2 of External:cpu 8, External:queue 5, External:latency 12: 8; MAX would be 12"},
		"C1 SUM": {stages.Combine{Method: stages.Sum}, 12, []int64{8, 5, 12}, 20, 12, false,
			"SUM of External:cpu 8, External:queue 5, External:latency 12: 25; MAX would be 12"},
		"C2 WEIGHTED": {stages.Combine{Method: stages.Weighted, Weights: []int64{5, 3, 2}}, 6, []int64{8, 5, 12}, 8, 12, false,
			"WEIGHTED of External:cpu 8, External:queue 5, External:latency 12: 8; MAX would be 12"},
		"C3 MAX": {stages.Combine{}, 6, []int64{8, 5, failed}, 8, 8, false, ""},
		"C3 MIN": {stages.Combine{Method: stages.Min}, 6, []int64{8, 5, failed}, 6, 8, true,
			"MIN of External:cpu 8, External:queue 5, External:latency failed: at least 0, held at 6 because a metric failed; MAX would be 8"},
		"C3 QUORUM, held": {stages.Combine{Method: stages.Quorum, Quorum: 2}, 6, []int64{8, 5, failed}, 6, 8, true,
			"QUORUM 2 of External:cpu 8, External:queue 5, External:latency failed: at least 5, held at 6 because a metric failed; MAX would be 8"},
		"C3 QUORUM, valid": {stages.Combine{Method: stages.Quorum, Quorum: 2}, 5, []int64{8, 5, failed}, 5, 8, false,
			"QUORUM 2 of External:cpu 8, External:queue 5, External:latency failed: 5; MAX would be 8"},
		"C3 WEIGHTED": {stages.Combine{Method: stages.Weighted, Weights: []int64{5, 3, 2}}, 5, []int64{8, 5, failed}, 6, 8, false,
			"WEIGHTED of External:cpu 8, External:queue 5, External:latency failed: 6; MAX would be 8"},
		"C4 both must ask": {stages.Combine{Method: stages.Min}, 6, []int64{6, 9}, 6, 9, false,
			"MIN of External:cpu 6, External:queue 9: 6; MAX would be 9"},
		"all failed": {stages.Combine{Method: stages.Min}, 6, []int64{failed, failed}, 6, 6, true, ""},
		"a quorum of more than there are": {stages.Combine{Method: stages.Quorum, Quorum: 9}, 6, []int64{8, 7}, 7, 8, false,
			"QUORUM 9 of External:cpu 8, External:queue 7: 7; MAX would be 8"},
	} {
		t.Run(name, func(t *testing.T) {
			g := several(t, len(c.proposals))
			g.around.Plan.Combine = &c.combine
			d := g.propose(noon, c.current, c.proposals...)
			if d.Desired != c.want || d.Adjusted.Plain != c.plain {
				t.Errorf("desired %d, plain %d, want %d and %d", d.Desired, d.Adjusted.Plain, c.want, c.plain)
			}
			if held := d.Path == recommender.PathMetricsFailed; held != c.held {
				t.Errorf("held: %v, want %v", held, c.held)
			}
			message := ""
			if len(d.Adjusted.Adjustments) > 0 {
				message = d.Adjusted.Adjustments[0].Message
			}
			if message != c.message {
				t.Errorf("message %q,\nwant %q", message, c.message)
			}
		})
	}
}

// walk asks two targets the same at random, and compares what they decide and remember, but for names of
// metrics in texts.
func walk(t *testing.T, steps, metrics int, a, b func(metrics int) *target) {
	random := rand.New(rand.NewPCG(31, 4))
	for step := 0; step < steps; {
		n := 1 + random.IntN(metrics)
		one, other := a(n), b(n)
		current := int32(random.IntN(21))
		at := noon
		for range 10 {
			proposals := make([]int64, n)
			for i := range proposals {
				if proposals[i] = int64(random.IntN(25)); random.IntN(5) == 0 {
					proposals[i] = failed
				}
			}
			d, e := one.propose(at, current, proposals...), other.propose(at, current, proposals...)
			if d.Desired != e.Desired || d.Path != e.Path || d.Error != e.Error || !reflect.DeepEqual(one.history.Recommendations, other.history.Recommendations) ||
				!reflect.DeepEqual(one.history.ScaleUps, other.history.ScaleUps) || !reflect.DeepEqual(one.history.ScaleDowns, other.history.ScaleDowns) {
				t.Fatalf("%d replicas, proposals %v: %d by %s, and %d by %s", current, proposals, d.Desired, d.Path, e.Desired, e.Path)
			}
			if d.Desired < current && slices.Contains(proposals, failed) && current <= one.in.Spec.MaxReplicas {
				t.Fatalf("%d replicas, proposals %v: down to %d", current, proposals, d.Desired)
			}
			current, at = d.Desired, at.Add(time.Duration(random.IntN(200))*time.Second)
			step++
		}
	}
}

// C5: equalities between the methods, over whole histories.
func TestMethodsAreEqualAtTheirEnds(t *testing.T) {
	testlength.SkipUnderRace(t)
	with := func(of func(n int) stages.Combine) func(int) *target {
		return func(n int) *target {
			g := several(t, n)
			c := of(n)
			g.around.Plan.Combine = &c
			return g
		}
	}
	plain := func(n int) *target {
		g := several(t, n)
		g.around.Plan = nil
		g.around.Proposals = []stages.Proposal{} // none
		return g
	}
	walk(t, 20_000, 4, plain, with(func(int) stages.Combine { return stages.Combine{Method: stages.Quorum, Quorum: 1} }))
	walk(t, 2_000, 4, plain, with(func(int) stages.Combine { return stages.Combine{} }))
	walk(t, 20_000, 4, with(func(int) stages.Combine { return stages.Combine{Method: stages.Min} }),
		with(func(n int) stages.Combine { return stages.Combine{Method: stages.Quorum, Quorum: n} }))
	walk(t, 2_000, 1, plain, with(func(int) stages.Combine { return stages.Combine{Method: stages.Weighted, Weights: []int64{7}} }))
	walk(t, 2_000, 1, plain, with(func(int) stages.Combine { return stages.Combine{Method: stages.Sum} }))
}

// A weighted mean is exact, also where its products do not fit in 64 bits.
func TestTheWeightedMeanIsExact(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := rand.New(rand.NewPCG(31, 5))
	for range 20_000 {
		n := 1 + random.IntN(4)
		g := several(t, n)
		g.in.Spec.MaxReplicas, g.in.Spec.Behavior = 1<<31-1, nil
		weights, sum, total := make([]int64, n), new(big.Int), new(big.Int)
		proposals := make([]int64, n)
		for i := range weights {
			if weights[i] = random.Int64N(1e15); i > 0 && random.IntN(3) == 0 {
				weights[i] = 0
			}
			proposals[i] = random.Int64N(1<<31 - 2)
			total.Add(total, big.NewInt(weights[i]))
			sum.Add(sum, new(big.Int).Mul(big.NewInt(weights[i]), big.NewInt(proposals[i])))
		}
		if total.Sign() == 0 {
			continue
		}
		mean, rest := new(big.Int).DivMod(sum, total, new(big.Int))
		want := mean.Int64() + int64(rest.Sign())
		g.around.Plan.Combine = &stages.Combine{Method: stages.Weighted, Weights: weights}
		g.propose(noon, 2, proposals...)
		if got := g.history.Recommendations[len(g.history.Recommendations)-1].Replicas; int64(got) != want {
			t.Fatalf("weights %v of %v: %d, want %d", weights, proposals, got, want)
		}
	}
}

// The list of many proposals, or of long names, gives way to the numbers.
func TestLongListsAreCut(t *testing.T) {
	g := several(t, 5)
	g.around.Plan.Combine = &stages.Combine{Method: stages.Sum}
	for i := range g.around.Plan.Metrics {
		g.around.Plan.Metrics[i] = fmt.Sprintf("External:%0120d", i)
	}
	d := g.propose(noon, 6, 1, 2, 1, 1, 2)
	if got, want := d.Adjusted.Adjustments[0].Message, "SUM of 5 proposals: 7; MAX would be 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Also in the profiles of versions that go on without failed metrics nothing scales down while one fails,
// and the error names the failure.
func TestCombinersHoldInAllProfiles(t *testing.T) {
	for _, name := range []string{"v1.28", "v1.19", "v1.15", recommender.DefaultProfile} {
		profile, ok := recommender.ProfileByName(name)
		if !ok {
			t.Fatalf("no profile %s", name)
		}
		g := several(t, 3)
		g.in.Options.Profile, g.in.Spec.Behavior = profile, nil
		g.around.Plan.Combine = &stages.Combine{Method: stages.Quorum, Quorum: 2}
		d := g.propose(noon, 6, 8, 5, failed)
		if d.Desired != 6 || d.Path != recommender.PathMetricsFailed || !strings.Contains(d.Error, "away") {
			t.Errorf("%s: %d by %s: %s", name, d.Desired, d.Path, d.Error)
		}
		g.history, g.state = nil, nil
		if d := g.propose(noon, 5, 8, 5, failed); d.Desired != 5 || d.Path != recommender.PathMetrics {
			t.Errorf("%s: %d by %s", name, d.Desired, d.Path)
		}
	}
}

// A mean with a metric of which only a part is known holds the count where it is below: more of the metric would raise it.
func TestAMeanWithAPartOfAMetric(t *testing.T) {
	for name, c := range map[string]struct {
		least []int32
		want  int32
		told  string
	}{
		"all is known":              {nil, 8, ""},
		"a part is known":           {[]int32{15}, 12, "WEIGHTED of External:queue 15, External:load 1: at least 8, held at 12 because only a part of a metric is known; MAX would be 15"},
		"a part is known of others": {[]int32{0, 0, 7}, 8, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newPair(t, stages.Plan{Combine: &stages.Combine{Method: stages.Weighted, Weights: []int64{1, 1}}})
			g.around.Least = c.least
			_, all := g.rounds("10:00:00", "10:10:00", 12, series(150), series(1))
			d := all["10:09:45"]
			if d.Desired != c.want {
				t.Errorf("%d, want %d", d.Desired, c.want)
			}
			if got := told(&d, recommender.StageCombine); c.told != "" && (len(got) != 1 || got[0] != c.told) {
				t.Errorf("told %q, want %q", got, c.told)
			}
			d = g.round(clock(t, "10:10:00"), d.Desired, series(150), series(40))
			if d.Desired <= c.want {
				t.Errorf("with more: %d", d.Desired)
			}
		})
	}
}
