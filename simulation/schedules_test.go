package simulation_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// What a schedule's bound decides is told as the schedule's, and the reason of a change names it after upstream's words.
func TestSchedulesAreNamedAsTheCause(t *testing.T) {
	t.Parallel()
	times, err := schedule.Compile(schedule.Text{Zone: "UTC", At: start.Add(5 * time.Minute), Duration: 10 * time.Minute})
	fatal.If(t, err)
	for name, c := range map[string]struct {
		schedule stages.Schedule
		cause    simulation.Cause
		reason   string
	}{
		"a minimum":            {stages.Schedule{Min: 6, Max: -1}, `schedule "office"`, `Current number of replicas below Spec.MinReplicas; schedule "office" raises minReplicas from 2 to 6`},
		"a maximum":            {stages.Schedule{Min: -1, Max: 3, MaxAtOnce: true}, `schedule "office"`, `Current number of replicas above Spec.MaxReplicas; schedule "office" lowers maxReplicas from 50 to 3`},
		"a minimum that isn't": {stages.Schedule{Min: 3, Max: -1}, simulation.CauseMetrics, ""},
	} {
		c.schedule.Name, c.schedule.Times = "office", times
		a := onTotal(2, 50, 10)
		a.Stages = &stages.Plan{Schedules: []stages.Schedule{c.schedule}}
		s := &simulation.Scenario{Start: start, Duration: 20 * time.Minute, Load: trace(t, 0, 40), Workload: web(4), Loop: simulation.Loop{SyncPeriod: 15 * time.Second}}
		s.Workload.Usage = []simulation.Usage{offered(0)}
		var cause simulation.Cause
		result, err := simulation.Run(s, a, func(step *simulation.Step) error {
			if step.Time.Equal(start.Add(10 * time.Minute)) {
				cause = step.Cause
			}
			return nil
		})
		fatal.If(t, err)
		reason := ""
		for _, action := range result.Actions {
			if action.At == 5*time.Minute {
				reason = action.Reason
			}
		}
		if cause != c.cause || reason != c.reason {
			t.Errorf("%s: decided by %s, %s", name, cause, reason)
		}
	}
	if got := simulation.ReasonOf(&recommender.Decision{Reason: "All metrics below target"}); got != "All metrics below target" {
		t.Errorf("without stages: %s", got)
	}
}
