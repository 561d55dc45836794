package simulation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
)

// O2 in a simulation: an override acts from its start to just before its end, is the cause of what it decides, and the
// window below it is warm when it ends.
func TestOverridesOfAScenario(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		override stages.Override
		during   int32
	}{
		"hold":          {stages.Override{Hold: true, Pin: -1, Floor: -1, Ceiling: -1}, 4},
		"pin":           {stages.Override{Pin: 2, Floor: -1, Ceiling: -1}, 2},
		"floor":         {stages.Override{Pin: -1, Floor: 9, Ceiling: -1}, 9},
		"ceiling":       {stages.Override{Pin: -1, Floor: -1, Ceiling: 5}, 5},
		"no scale-up":   {stages.Override{NoScaleUp: true, Pin: -1, Floor: -1, Ceiling: -1}, 4},
		"no scale-down": {stages.Override{NoScaleDown: true, Pin: -1, Floor: -1, Ceiling: -1}, 8},
	} {
		c.override.Level, c.override.Reason = stages.OfTarget, "test"
		s := &simulation.Scenario{
			Start: start, Duration: 20 * time.Minute, Load: trace(t, 0, 40, 360, 40, 361, 80), Workload: web(4), Loop: simulation.Loop{SyncPeriod: 15 * time.Second},
			Events: []simulation.Event{{At: 5 * time.Minute, For: 10 * time.Minute, Kind: simulation.Override, Override: &c.override}},
		}
		s.Workload.Usage = []simulation.Usage{offered(0)}
		got := map[time.Duration]int32{}
		cause := map[time.Duration]simulation.Cause{}
		_, err := simulation.Run(s, onTotal(2, 50, 10), func(step *simulation.Step) error {
			got[step.Time.Sub(start)], cause[step.Time.Sub(start)] = step.Decision.Desired, step.Cause
			return nil
		})
		fatal.If(t, err)
		for at, want := range map[time.Duration]int32{4*time.Minute + 45*time.Second: 4, 10 * time.Minute: c.during, 14*time.Minute + 45*time.Second: c.during, 16 * time.Minute: 8} {
			if got[at] != want {
				t.Errorf("%s: at %s %d replicas, want %d", name, at, got[at], want)
			}
		}
		if decides := c.during != 8; strings.HasPrefix(string(cause[10*time.Minute]), "override ") != decides {
			t.Errorf("%s: decided by %s", name, cause[10*time.Minute])
		}
	}
}

// More overrides than each decision can look at are refused.
func TestOverridesOfAScenarioAreBounded(t *testing.T) {
	t.Parallel()
	s := &simulation.Scenario{Start: start, Duration: time.Minute, Load: trace(t, 0, 40), Workload: web(4)}
	s.Workload.Usage = []simulation.Usage{offered(0)}
	for range simulation.MaxOverrides + 1 {
		s.Events = append(s.Events, simulation.Event{Kind: simulation.Override, For: time.Second, Override: &stages.Override{Hold: true}})
	}
	if _, err := simulation.Run(s, onTotal(2, 50, 10), nil); err == nil || !strings.Contains(err.Error(), "events: have 101 overrides, more than 100") {
		t.Errorf("got %v", err)
	}
	s.Events = []simulation.Event{{Kind: simulation.Override, For: time.Second}}
	if _, err := simulation.Run(s, onTotal(2, 50, 10), nil); err == nil || !strings.Contains(err.Error(), "events[0].override: is missing") {
		t.Errorf("got %v", err)
	}
}
