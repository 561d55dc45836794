package stages

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
)

// upstreamsLargest is the choice of computeReplicasForMetrics: 0 is none yet.
func upstreamsLargest(metrics []recommender.MetricEvaluation) (replicas int32) {
	for i := range metrics {
		if metrics[i].Failure != nil || metrics[i].Ignored {
			continue
		}
		if proposal := metrics[i].Proposal; replicas == 0 || proposal > replicas {
			replicas = proposal
		}
	}
	return replicas
}

func randomMetrics(random *rand.Rand) []recommender.MetricEvaluation {
	metrics := make([]recommender.MetricEvaluation, 1+random.IntN(6))
	for i := range metrics {
		metrics[i] = recommender.MetricEvaluation{
			Spec: &recommender.MetricSpec{Metric: recommender.MetricIdentifier{Name: "m"}}, Proposal: int32(random.IntN(16)) - 3,
		}
		switch random.IntN(6) {
		case 0:
			metrics[i].Failure = &recommender.MetricFailure{Reason: "Away"}
		case 1:
			metrics[i].Ignored = true
		}
	}
	return metrics
}

// The largest proposal is upstream's, also among proposals of zero and below, and a plan without another
// method and without a cap below it touches nothing.
func TestTheLargestIsUpstreams(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := rand.New(rand.NewPCG(31, 6))
	for range 20_000 {
		metrics := randomMetrics(random)
		if got, want := largestOf(metrics), upstreamsLargest(metrics); got != want {
			t.Fatalf("%+v: %d, upstream takes %d", metrics, got, want)
		}
		c := recommender.Combining{Current: int32(random.IntN(10)), Metrics: metrics}
		before := c
		before.Metrics = append([]recommender.MetricEvaluation(nil), metrics...)
		r := &run{Around: &Around{}, plan: &Plan{}, caps: []limit{{replicas: 12}}}
		if random.IntN(2) == 0 {
			r.plan.Combine = &Combine{}
		}
		r.combine(&c)
		if !reflect.DeepEqual(c, before) || r.edited || len(r.adjusted.Adjustments) > 0 {
			t.Fatalf("touched: %+v, was %+v", c, before)
		}
	}
}

// Whatever failed metrics could have proposed, a value that is taken while some fail is one that leads to
// at least the current count, and one at least as large with every number in their place.
func TestUnknownProposalsNeverLower(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := rand.New(rand.NewPCG(31, 7))
	for range 20_000 {
		metrics := randomMetrics(random)
		c := recommender.Combining{Current: int32(random.IntN(12)), Metrics: metrics}
		plan := &Plan{Combine: &Combine{Method: Method(random.IntN(5)), Quorum: 1 + random.IntN(6)}}
		for range metrics {
			plan.Combine.Weights = append(plan.Combine.Weights, random.Int64N(4))
		}
		r := &run{Around: &Around{}, plan: plan}
		r.combine(&c)
		failed := false
		for i := range metrics {
			if e := &metrics[i]; e.Failure != nil && !e.Ignored {
				failed = true
				e.Failure, e.Proposal = nil, int32(random.IntN(20))
			}
		}
		if !c.Combined || c.Held || !failed {
			continue
		}
		if c.Replicas < c.Current {
			t.Fatalf("%s takes %d below %d while metrics fail", plan.Combine, c.Replicas, c.Current)
		}
		known := recommender.Combining{Current: c.Current, Metrics: metrics}
		(&run{Around: &Around{}, plan: plan}).combine(&known)
		if known.Combined && known.Replicas < c.Replicas {
			t.Fatalf("%s took %d, and with all known %d", plan.Combine, c.Replicas, known.Replicas)
		}
	}
}

// The smallest cap limits the combined value, and is held where that would lower a count while a metric
// fails.
func TestCaps(t *testing.T) {
	until := time.UnixMilli(1_800_000_000_000)
	limitTo := func(n int32, rule string) limit {
		return limit{replicas: n, stage: recommender.StageSchedule, rule: rule, until: until, message: func(before int32) string {
			return fmt.Sprintf("%d, not %d", n, before)
		}}
	}
	of := func(proposals ...int32) (metrics []recommender.MetricEvaluation) {
		for _, p := range proposals {
			e := recommender.MetricEvaluation{Spec: &recommender.MetricSpec{}, Proposal: p}
			if p < 0 {
				e = recommender.MetricEvaluation{Spec: &recommender.MetricSpec{}, Failure: &recommender.MetricFailure{}}
			}
			metrics = append(metrics, e)
		}
		return metrics
	}
	for name, c := range map[string]struct {
		current   int32
		proposals []int32
		caps      []limit
		replicas  int32
		held      bool
		after     int32
	}{
		"the smallest":          {9, []int32{9, 4}, []limit{limitTo(8, "a"), limitTo(6, "schedule/b"), limitTo(7, "c")}, 6, false, 6},
		"up, while one fails":   {4, []int32{9, -1}, []limit{limitTo(6, "schedule/b")}, 6, false, 6},
		"held, while one fails": {9, []int32{12, -1}, []limit{limitTo(6, "schedule/b")}, 6, true, 9},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{Around: &Around{}, plan: &Plan{}, caps: c.caps}
			combining := recommender.Combining{Current: c.current, Metrics: of(c.proposals...)}
			r.combine(&combining)
			if !combining.Combined || combining.Replicas != c.replicas || combining.Held != c.held || combining.Name != "schedule/b" || !combining.Edited {
				t.Errorf("%+v", combining)
			}
			a := r.adjusted.Adjustments
			if len(a) != 1 || a[0].Before != c.proposals[0] || a[0].After != c.after || a[0].Rule != "schedule/b" || !a[0].Until.Equal(until) {
				t.Errorf("%+v", a)
			}
		})
	}
}
