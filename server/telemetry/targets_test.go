package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func key(i int) store.Key {
	return store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprintf("t%d", i)}
}

// decided records a decision without more.
func decided(targets *telemetry.Targets, i int, current, desired int32) {
	targets.Decided(key(i), &recommender.Decision{Current: current, Desired: desired}, 0, nil, nil)
}

// shown gathers the desired replicas by target, and how many decisions were dropped.
func shown(t *testing.T, r *prometheus.Registry) (desired map[string]float64, dropped float64) {
	t.Helper()
	families, err := r.Gather()
	fatal.If(t, err)
	desired = map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "setpoint_target_desired_replicas":
				for _, l := range m.GetLabel() {
					if l.GetName() == "target" {
						desired[l.GetValue()] = m.GetGauge().GetValue()
					}
				}
			case "setpoint_target_metrics_dropped_total":
				dropped = m.GetCounter().GetValue()
			}
		}
	}
	return desired, dropped
}

func newTargets(t *testing.T, limit int) (*telemetry.Targets, *prometheus.Registry, *time.Time) {
	t.Helper()
	now := t0
	targets := telemetry.NewTargets(limit, func() time.Time { return now })
	r := prometheus.NewRegistry()
	r.MustRegister(targets.Collectors()...)
	return targets, r, &now
}

func TestATargetShowsItsLastDecision(t *testing.T) {
	t.Parallel()
	targets, r, _ := newTargets(t, 10)
	decided(targets, 1, 3, 5)
	decided(targets, 1, 5, 4)
	decided(targets, 2, 1, 1)
	if desired, dropped := shown(t, r); len(desired) != 2 || desired["t1"] != 4 || desired["t2"] != 1 || dropped != 0 {
		t.Errorf("got %v, %v dropped", desired, dropped)
	}
	if n := series(t, r, "setpoint_target_current_replicas", "setpoint_target_last_decision_timestamp_seconds"); n != 4 {
		t.Errorf("%d other series, want 4", n)
	}
}

// An override that has ended overrides nothing, whenever the next decision comes; one whose end is
// not known stays.
func TestAnOverrideIsShownUntilItsEnd(t *testing.T) {
	t.Parallel()
	targets, r, now := newTargets(t, 10)
	overridden := recommender.Status{Conditions: []recommender.Condition{{Type: stages.Overridden, Status: recommender.ConditionTrue}}}
	told := func(stage recommender.Stage) *recommender.Adjusted {
		return &recommender.Adjusted{Adjustments: []recommender.Adjustment{{Stage: stage, Until: t0.Add(time.Minute)}}}
	}
	targets.Decided(key(1), &recommender.Decision{Status: overridden, Adjusted: told(recommender.StageOverride)}, 0, nil, nil)
	targets.Decided(key(2), &recommender.Decision{Status: overridden, Adjusted: told(recommender.StageBounds)}, 0, nil, nil)
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {time.Minute - 1, 2}, {time.Minute, 1}, {59 * time.Minute, 1}} {
		*now = t0.Add(tt.after)
		if n := series(t, r, "setpoint_target_state"); n != tt.want {
			t.Errorf("%v after the decisions %d targets are overridden, want %d", tt.after, n, tt.want)
		}
	}
	*now = t0
	failed := &record.Record{History: recommender.History{Status: overridden}}
	failed.Adjusted = told(recommender.StageOverride)
	targets.Failed(key(3), failed)
	if n := series(t, r, "setpoint_target_state"); n != 3 {
		t.Errorf("%d targets are overridden, want one more after its change failed", n)
	}
	if *now = t0.Add(time.Minute); series(t, r, "setpoint_target_state") != 1 {
		t.Error("an override that has ended is shown of a target whose change failed")
	}
}

// The series stay the same however many targets there are: that is the purpose of the
// limit.
func TestMoreTargetsThanRoomAreDropped(t *testing.T) {
	t.Parallel()
	targets, r, _ := newTargets(t, 100)
	for round := range 3 {
		for i := range 150 {
			decided(targets, i, 1, int32(round))
		}
	}
	desired, dropped := shown(t, r)
	if len(desired) != 100 || dropped != 150 {
		t.Errorf("%d series, %v dropped, want 100 and 150", len(desired), dropped)
	}
	for i := range 100 {
		if desired[key(i).Target] != 2 {
			t.Fatalf("%s is %v, want 2", key(i).Target, desired[key(i).Target])
		}
	}
}

func TestATargetGoesWhenItIsDeletedOrForAnHourQuiet(t *testing.T) {
	t.Parallel()
	targets, r, now := newTargets(t, 2)
	decided(targets, 1, 1, 1)
	*now = now.Add(telemetry.TargetLifetime / 2)
	decided(targets, 2, 1, 1)
	decided(targets, 3, 1, 1) // beyond the limit
	*now = now.Add(telemetry.TargetLifetime / 2)
	if desired, _ := shown(t, r); len(desired) != 1 || desired["t2"] != 1 {
		t.Errorf("after an hour there are %v, want t2", desired)
	}
	decided(targets, 3, 1, 7)
	targets.Deleted(key(3), now.Add(-1)) // and decided again
	targets.Deleted(key(2), *now)
	targets.Deleted(key(9), *now)
	if desired, dropped := shown(t, r); len(desired) != 1 || desired["t3"] != 7 || dropped != 1 {
		t.Errorf("got %v, %v dropped, want t3 and 1", desired, dropped)
	}
}

// Places are freed when they are needed, even without a scrape.
func TestRoomIsMadeWithoutAScrape(t *testing.T) {
	t.Parallel()
	targets, r, now := newTargets(t, 1)
	decided(targets, 1, 1, 1)
	*now = now.Add(telemetry.TargetLifetime)
	decided(targets, 2, 1, 1)
	if desired, dropped := shown(t, r); len(desired) != 1 || desired["t2"] != 1 || dropped != 0 {
		t.Errorf("got %v, %v dropped", desired, dropped)
	}
}
