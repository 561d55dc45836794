package stages_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// idleTarget goes to zero after five minutes at one replica.
func idleTarget(t *testing.T, activation int64) *target {
	g := newTarget(t)
	g.in.Spec.MinReplicas, g.in.Options.ScaleToZero = 0, true
	g.around.Plan.Idle = &stages.Idle{Activation: map[int]int64{0: activation * 1000}, Cooldown: 5 * time.Minute, InitialCooldown: 5 * time.Minute}
	return g
}

// step is one evaluation of a trace, by the period of 15 s until it.
type step struct {
	until time.Duration
	queue int64
	want  int32
}

// trace follows a target from noon on; its count is what was recommended.
func (g *target) trace(current int32, steps []step) int32 {
	g.t.Helper()
	at := noon
	for _, s := range steps {
		for ; at.Sub(noon) <= s.until; at = at.Add(15 * time.Second) {
			was := current
			if current = g.ask(at, current, s.queue).Desired; at.Sub(noon) < s.until {
				continue
			}
			if current != s.want {
				g.t.Fatalf("after %s from %d: %d, want %d", s.until, was, current, s.want)
			}
		}
	}
	return current
}

// atZero brings the target to zero.
func (g *target) atZero() time.Time {
	g.t.Helper()
	g.trace(1, []step{{5 * time.Minute, 0, 0}})
	return noon.Add(6 * time.Minute)
}

// I1: a metric is active above its activation.
func TestOnlyActivityLeavesZero(t *testing.T) {
	for queue, want := range map[int64]int32{0: 0, 4: 0, 5: 0, 6: 1} {
		g := idleTarget(t, 5)
		if d := g.ask(g.atZero(), 0, queue); d.Desired != want {
			t.Errorf("queue %d: %d, want %d", queue, d.Desired, want)
		} else if queue == 4 && messages(&d)[0] != "External:queue is 4, not above its activation of 5: it counts as 0" {
			t.Errorf("told %q", messages(&d))
		}
	}
}

// I2: down to one replica by the window, and after the cooldown to zero; I3: activity begins it anew.
func TestTheCooldownBeginsAtOne(t *testing.T) {
	g := idleTarget(t, 5)
	g.trace(5, []step{
		{15 * time.Second, 50, 5},
		{5 * time.Minute, 0, 5}, {5*time.Minute + 15*time.Second, 0, 1},
		{10*time.Minute + 15*time.Second, 0, 1}, {10*time.Minute + 30*time.Second, 0, 0},
	})
	if c := condition(g, recommender.ScaledToZero); c != recommender.ConditionTrue {
		t.Errorf("ScaledToZero is %q", c)
	}

	g = idleTarget(t, 5)
	g.trace(5, []step{
		{15 * time.Second, 50, 5}, {5*time.Minute + 15*time.Second, 0, 1},
		{8 * time.Minute, 0, 1}, {8*time.Minute + 15*time.Second, 12, 2}, // I3
		{13 * time.Minute, 0, 2}, {13*time.Minute + 15*time.Second, 0, 1},
		{18*time.Minute + 15*time.Second, 0, 1}, {18*time.Minute + 30*time.Second, 0, 0},
	})
}

func condition(g *target, kind string) string {
	// The pending change is settled: the status is the history's.
	for _, c := range g.history.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// I4: activation matters for zero only. I5: a workload that was set to zero by hand stays there.
func TestActivationMattersForZeroOnly(t *testing.T) {
	g := idleTarget(t, 50)
	if d := g.ask(noon, 4, 40); d.Desired != 4 {
		t.Errorf("I4: %d, want 4", d.Desired)
	}
	g = idleTarget(t, 5)
	g.ask(noon, 4, 40)
	if d := g.ask(noon.Add(time.Minute), 0, 40); d.Desired != 0 || d.Path != recommender.PathScalingDisabled {
		t.Errorf("I5: %d by %v, want 0 left alone", d.Desired, d.Path)
	}
}

// A value that is not zero and not active counts as 0 at one replica, too: else it would keep the replica.
func TestInactiveValuesGoToZero(t *testing.T) {
	g := idleTarget(t, 5)
	g.trace(1, []step{{15 * time.Second, 8, 1}, {5*time.Minute + 15*time.Second, 4, 1}, {5*time.Minute + 30*time.Second, 4, 0}})
}

func TestAFailedMetricIsActive(t *testing.T) {
	g := idleTarget(t, 5)
	g.trace(1, []step{{4 * time.Minute, 0, 1}, {20 * time.Minute, -1, 1}, {24*time.Minute + 45*time.Second, 0, 1}})
}

// An object has one value: with two the metric fails, as in the engine, and is none that is known to be inactive.
func TestAnObjectWithTwoValuesIsActive(t *testing.T) {
	g := idleTarget(t, 5)
	g.in.Spec.Metrics[0].Type, g.around.Plan.Metrics = recommender.ObjectMetric, []string{"Object:queue"}
	g.in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: 1000}, {Milli: 1000}}}}
	for i := range 60 {
		if d := g.decide(noon.Add(time.Duration(i)*15*time.Second), 1); d.Desired != 1 {
			t.Fatalf("after %d evaluations: %d, %q", i, d.Desired, messages(&d))
		}
	}
}

func TestTheCooldownIsTold(t *testing.T) {
	g := idleTarget(t, 5)
	g.ask(noon.Add(-15*time.Second), 5, 30)
	d := g.ask(noon, 5, 0)
	if got, want := messages(&d)[0], "inactive since 2026-11-23T12:00:00Z: one replica for 5m0s before zero"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	d = g.ask(noon.Add(time.Minute), 1, 0)
	a := d.Adjusted.Adjustments[0]
	if want := "inactive since 2026-11-23T12:00:00Z, one replica since 2026-11-23T12:01:00Z: zero at 2026-11-23T12:06:00Z"; a.Message != want {
		t.Errorf("told %q, want %q", a.Message, want)
	}
	if !a.Until.Equal(noon.Add(6 * time.Minute)) {
		t.Errorf("until %s", a.Until)
	}
}

// A new target waits for the initial cooldown, until it is active for the first time.
func TestTheInitialCooldown(t *testing.T) {
	g := idleTarget(t, 5)
	g.around.Plan.Idle.InitialCooldown = 20 * time.Minute
	g.trace(1, []step{{19*time.Minute + 45*time.Second, 0, 1}, {20 * time.Minute, 0, 0}})

	g = idleTarget(t, 5)
	g.around.Plan.Idle.InitialCooldown = 20 * time.Minute
	g.trace(1, []step{{time.Minute, 8, 1}, {6 * time.Minute, 0, 1}, {6*time.Minute + 15*time.Second, 0, 0}})

	g = idleTarget(t, 5)
	g.around.Plan.Idle.InitialCooldown = 0
	if d := g.ask(noon, 1, 0); d.Desired != 1 { // the engine's window has the count that it saw first
		t.Errorf("%d", d.Desired)
	}
}

// Without idle scaling nothing of it is kept.
func TestIdleIsForgotten(t *testing.T) {
	g := idleTarget(t, 5)
	g.ask(noon, 1, 0)
	if len(g.state) == 0 {
		t.Fatal("nothing is kept")
	}
	g.around.Plan.Idle = nil
	if g.ask(noon.Add(time.Minute), 1, 0); len(g.state) != 0 {
		t.Errorf("%d bytes are kept", len(g.state))
	}
}

// While a schedule or a floor needs replicas there is no zero.
func TestASchedulePreventsZero(t *testing.T) {
	g := idleTarget(t, 5)
	g.around.Plan.Schedules = []stages.Schedule{always(t, "day", 3, -1)}
	g.trace(1, []step{{20 * time.Minute, 0, 3}})
}

// After a pause with which windows begin anew nobody knows that it was inactive.
func TestThePauseIsNoCooldown(t *testing.T) {
	g := idleTarget(t, 5)
	g.in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32)
	g.trace(1, []step{{time.Minute, 0, 1}})
	at := noon.Add(time.Hour)
	if !g.history.RestartAfterPause(at, &g.in) {
		t.Fatal("no pause")
	}
	for after, want := range map[time.Duration]int32{0: 1, 5*time.Minute - 1: 1, 5 * time.Minute: 0} {
		history, state := *g.history, g.state
		g.ask(at, 1, 0)
		if d := g.ask(at.Add(after), 1, 0); d.Desired != want {
			t.Errorf("%s after the pause: %d, want %d", after, d.Desired, want)
		}
		g.history, g.state = &history, state
	}
}

// While the scale can't be read nobody knows the count: the cooldown goes on.
func TestAnUnreadableScaleBeginsNoCooldown(t *testing.T) {
	g := idleTarget(t, 5)
	g.trace(1, []step{{4 * time.Minute, 0, 1}})
	g.in.ScaleError = &recommender.ScaleError{Message: "away"}
	g.ask(noon.Add(4*time.Minute+15*time.Second), 0, 0)
	g.in.ScaleError = nil
	if d := g.ask(noon.Add(5*time.Minute+15*time.Second), 1, 0); d.Desired != 0 {
		t.Errorf("%d, %q", d.Desired, messages(&d))
	}
}

// One metric that is active is activity, whatever the others are.
func TestOneOfTwoMetricsIsActive(t *testing.T) {
	g := newPair(t, stages.Plan{Idle: &stages.Idle{Activation: map[int]int64{0: 0, 1: 0}, Cooldown: 5 * time.Minute}})
	g.in.Spec.MinReplicas, g.in.Options.ScaleToZero, g.in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = 0, true, new(int32)
	_, all := g.rounds("10:00:00", "10:10:00", 1, series(8), series(0))
	if least := all["10:09:45"].Basis.Min; least != 1 {
		t.Errorf("while it is active the least is %d", least)
	}
	_, all = g.rounds("10:10:00", "10:15:15", 1, series(0), series(0))
	counts(t, all, map[string]int32{"10:10:00": 1, "10:14:45": 1, "10:15:00": 0})
}
