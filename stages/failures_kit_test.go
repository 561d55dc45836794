package stages_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/stages"
)

// period is the time between two evaluations.
const period = 15 * time.Second

// away is a metric that can't be read.
var away = recommender.Readings{Error: "away"}

// clock returns an instant of the morning of noon's day: "10:02:45".
func clock(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse("15:04:05", s)
	fatal.If(t, err)
	return time.Date(2026, 11, 23, at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// newPair is newTarget with a second metric, External:load, that proposes what it reads.
func newPair(t *testing.T, plan stages.Plan) *target {
	g := newTarget(t)
	one := int64(1000)
	g.in.Spec.Metrics = append(g.in.Spec.Metrics, recommender.MetricSpec{
		Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "load"},
		Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &one},
	})
	g.plan(plan, "External:queue", "External:load")
	return g
}

func newQueue(t *testing.T, plan stages.Plan) *target {
	g := newTarget(t)
	g.plan(plan, "External:queue")
	return g
}

func (g *target) plan(plan stages.Plan, metrics ...string) {
	plan.Metrics = metrics
	g.around.Plan = &plan
}

// series are values without timestamps.
func series(values ...int64) recommender.Readings {
	var r recommender.Readings
	for _, v := range values {
		r.Add(time.Time{}, recommender.Value{Milli: v * 1000})
	}
	return r
}

// taken are values with the instants at which they were measured.
func taken(r recommender.Readings, at ...time.Time) recommender.Readings {
	r.Taken = at
	return r
}

// round asks at an instant with those readings, and applies the answer.
func (g *target) round(at time.Time, current int32, readings ...recommender.Readings) recommender.Decision {
	g.t.Helper()
	in := g.in
	in.Scale = recommender.Scale{SpecReplicas: current, StatusReplicas: current}
	in.ID[0]++
	in.Readings = readings
	var history recommender.History
	if g.history != nil {
		history = *g.history
	}
	before := slices.Clone(readings)
	d, next, state := g.around.RecommendIn(nil, at, &in, &history, g.state)
	if !reflect.DeepEqual(readings, before) {
		g.t.Fatal("the caller's readings were changed")
	}
	if next.Pending != nil {
		_, settled, err := recommender.Settle(next, "shop", d.ID, recommender.Applied, "")
		fatal.If(g.t, err)
		next = settled
	}
	g.history, g.state = &next, state
	return d
}

// rounds asks every period from an instant up to another, exclusive, follows the answers, and returns
// the counts by time of day.
func (g *target) rounds(from, to string, current int32, readings ...recommender.Readings) (int32, map[string]recommender.Decision) {
	g.t.Helper()
	all := make(map[string]recommender.Decision)
	for at, end := clock(g.t, from), clock(g.t, to); at.Before(end); at = at.Add(period) {
		d := g.round(at, current, readings...)
		all[at.Format("15:04:05")] = d
		current = d.Desired
	}
	return current, all
}

// counts checks the counts of some instants.
func counts(t *testing.T, all map[string]recommender.Decision, want map[string]int32) {
	t.Helper()
	for at, n := range want {
		if d, ok := all[at]; !ok || d.Desired != n {
			t.Errorf("%s: %d, want %d (asked: %v)", at, d.Desired, n, ok)
		}
	}
}

func told(d *recommender.Decision, stage recommender.Stage) (sentences []string) {
	if d.Adjusted == nil {
		return nil
	}
	for _, a := range d.Adjusted.Adjustments {
		if a.Stage == stage {
			sentences = append(sentences, a.Message)
		}
	}
	return sentences
}

// status returns the status of a condition and since when it is so; empty: there is none.
func status(d *recommender.Decision, kind string) (string, time.Time) {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return c.Status, c.LastTransitionTime
		}
	}
	return "", time.Time{}
}

// newPods is a target with cpu at 50 % of 1000m and that many pods.
func newPods(t *testing.T, pods int, plan stages.Plan) *target {
	g := newTarget(t)
	half := int32(50)
	g.in.Spec.Metrics = []recommender.MetricSpec{{
		Type: recommender.ResourceMetric, Resource: "cpu",
		Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &half},
	}}
	for i := range pods {
		g.in.Pods = append(g.in.Pods, recommender.Pod{
			Name: fmt.Sprintf("web-%d", i), Phase: recommender.PhaseRunning, Ready: recommender.ReadyTrue,
			StartTime: noon.Add(-time.Hour), ReadyTransition: noon.Add(-time.Hour),
			Containers: []recommender.Container{{Name: "app", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: cores(t)}}}},
		})
	}
	g.plan(plan, "Resource:cpu")
	return g
}

func cores(t *testing.T) quantity.Quantity {
	q, err := quantity.Parse("1")
	fatal.If(t, err)
	return q
}

// uses sets the samples of cpu, of those ages at noon.
func (g *target) uses(milli int64, ages ...time.Duration) {
	g.in.PodMetrics = nil
	for i, age := range ages {
		g.in.PodMetrics = append(g.in.PodMetrics, recommender.PodMetrics{
			Pod: fmt.Sprintf("web-%d", i), Timestamp: noon.Add(-age), Window: 30 * time.Second,
			Containers: []recommender.ContainerMetrics{{Name: "app", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: milli}}}},
		})
	}
}
