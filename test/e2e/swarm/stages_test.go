//go:build linux

package swarm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// queued makes a service that is scaled by one task for each ten in the queue, between 1 and 5.
func (w *world) queued(t *testing.T, name string, replicas int, behavior string, labels ...string) *workload {
	t.Helper()
	s := w.createLabelled(t, name, "burn:1", replicas, append([]string{
		"setpoint.max=5", "setpoint.metric.queue.source=queue", "setpoint.metric.queue.path=/", "setpoint.metric.queue.valuePath={.depth}",
		"setpoint.metric.queue.average=10", "setpoint.behavior=" + behavior,
	}, labels...)...)
	t.Cleanup(func() { s.remove(t) })
	s.use(t, idle)
	return s
}

// stepwise adds a task each three seconds, and holds a count for a few.
func stepwise(window time.Duration) string {
	return fmt.Sprintf("{scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 3}]}, scaleDown: {stabilizationWindowSeconds: %d}}", window/time.Second)
}

// tells waits until the agent's status of a service has a text about what was changed.
func (s *workload) tells(t *testing.T, want string) {
	t.Helper()
	kit.Eventually(t, patience, s.name+": "+want, func() error {
		o, err := s.status(s.name)
		if err != nil || o.Decision == nil || !strings.Contains(o.Decision.Adjusted, want) {
			return fmt.Errorf("the agent says %+v, %w", o, err)
		}
		return nil
	})
}

// goes fails unless the counts that were seen are each a step up or, if there is one, down from the
// one before.
func goes(t *testing.T, seen []change, by int) {
	t.Helper()
	for i := 1; i < len(seen); i++ {
		if step := seen[i].to - seen[i-1].to; step*by < 0 || step > 1 {
			t.Errorf("the count went %s", trajectory(seen))
		}
	}
}

// overrideHoldsRamp: an override that somebody types holds a ramp, also over a restart of the agent and of
// the service. Then the ramp goes on in its steps; the window knows what was recommended below the hold, and has
// passed below another one. One that ended while no agent was there does nothing.
func overrideHoldsRamp(t *testing.T, w *world) {
	const place = "clusters/e2e/namespaces/default"
	override := func(args ...string) string {
		t.Helper()
		out, err := w.serve.Setpoint(append([]string{"override"}, args...)...)
		kit.Must(t, err)
		return out
	}
	w.queue.Store(10)
	s := w.queued(t, "ramp", 1, stepwise(20*time.Second))
	s.decided(t)
	w.queue.Store(50)
	s.becomes(t, 2)
	override("create", place+"/targets/ramp", "--hold", "--for=30m", "--reason=a migration", "--id=freeze")
	s.tells(t, `: "a migration" (override freeze of the target); the recommendation would be `)
	held := s.replicas(t)
	if held >= 5 {
		t.Fatal("the ramp was over before it was held")
	}
	w.killAgent()
	w.serve.Kill()
	w.serve.Restart()
	w.startAgent()
	w.awaitReconciles(t, w.reconciles(t)+5, 0)
	s.tells(t, fmt.Sprintf("held at %d by somebody until ", held))
	if n := s.replicas(t); n != held {
		t.Fatalf("%d replicas, though it is held at %d", n, held)
	}
	// The load falls right before the end: the window keeps the count by what was recommended below the hold.
	w.queue.Store(10)
	s.tells(t, "(override freeze of the target); as is the recommendation")
	override("delete", place+"/targets/ramp/overrides/freeze")
	w.awaitReconciles(t, w.reconciles(t)+3, 0)
	if n := s.replicas(t); n != held {
		t.Errorf("%d replicas right after the end, want still %d", n, held)
	}
	w.queue.Store(50)
	up := s.watch(t, 5)
	goes(t, up, 1)

	override("create", place, "--no-scale-down", "--for=30m", "--reason=a sale", "--id=sale")
	w.queue.Store(10)
	s.tells(t, "the recommendation would be 1")
	if n := s.replicas(t); n != 5 {
		t.Errorf("%d replicas, though it may not scale down", n)
	}
	override("delete", place+"/overrides/sale")
	kit.Eventually(t, patience, "one replica", func() error {
		o, err := s.status(s.name)
		if err == nil && o.Decision != nil && o.Decision.Adjusted == "" && o.Decision.Current == 5 && o.Decision.Desired == 5 {
			t.Fatalf("without the override it is held by something else: %+v", o.Decision)
		}
		if n := s.replicas(t); n != 1 {
			return fmt.Errorf("%d replicas, %w", n, err)
		}
		return nil
	})

	w.stopAgent()
	override("create", place+"/targets/ramp", "--pin=4", "--for=5s", "--reason=a load test", "--id=late")
	kit.Eventually(t, patience, "the end of the override", func() error {
		if strings.Contains(override("list", place+"/targets/ramp"), "late") {
			return errors.New("it has not ended")
		}
		return nil
	})
	w.startAgent()
	w.awaitReconciles(t, w.reconciles(t)+4, 0)
	if n := s.replicas(t); n != 1 {
		t.Errorf("%d replicas by an override that had ended", n)
	}
	t.Logf("held at %d; then %s", held, trajectory(up))
}

// outageAndSchedule: an outage that is longer than the window and ends in zeros takes only the service without
// stages to its least count. Beside them a schedule moves the floor at its instants.
func outageAndSchedule(t *testing.T, w *world) {
	const outageWindow = 12 * time.Second
	w.queue.Store(30)
	plain := w.queued(t, "plain", 3, stepwise(outageWindow))
	window := w.queued(t, "window", 3, stepwise(outageWindow), "setpoint.stages={windowThroughFailures: true}")
	guard := w.queued(t, "guard", 3, stepwise(outageWindow), `setpoint.stages={zeroGuards: [{metric: "External:queue", confirm: 600s}]}`)
	schedule := func(name string, at time.Time) string {
		return fmt.Sprintf("setpoint.stages={schedules: [{name: %s, timeZone: Europe/Berlin, at: %q, duration: 60s, minReplicas: 4}]}", name, at.Format(time.RFC3339Nano))
	}
	unknown := w.queued(t, "unknown", 2, stepwise(outageWindow), `setpoint.stages={schedules: [{name: night, timeZone: Mars/Olympus, cron: "0 8 * * *", duration: 60s, minReplicas: 5}]}`)
	never := w.queued(t, "never", 2, stepwise(outageWindow), `setpoint.stages={schedules: [{name: night, timeZone: UTC, cron: "0 0 30 2 *", duration: 60s, minReplicas: 5}]}`)

	failing := func(fails bool) {
		t.Helper()
		for _, s := range []*workload{plain, window, guard} {
			kit.Eventually(t, patience, fmt.Sprintf("%s fails: %v", s.name, fails), func() error {
				if o, err := w.status(s.name); err != nil || o.Decision == nil || (o.Error != "") != fails {
					return fmt.Errorf("%+v, %w", o, err)
				}
				return nil
			})
		}
	}
	failing(false)
	w.queue.Store(-1)
	failing(true)
	failed := time.Now()

	ends := time.Now().Add(12 * time.Second)
	scheduled := w.create(t, "scheduled", "burn:1", 1, schedule("night", ends.Add(-time.Minute)))
	defer scheduled.remove(t)
	scheduled.use(t, idle)
	scheduled.tells(t, `schedule "night" raises minReplicas from 1 to 4`)
	scheduled.becomes(t, 4)
	scheduled.becomes(t, least)
	if early := time.Until(ends); early > 0 {
		t.Errorf("the floor was let go %s before the end of the schedule", early)
	}
	starts := time.Now().Add(4 * time.Second)
	_, label, _ := strings.Cut(schedule("day", starts), "=")
	scheduled.label(t, "setpoint.stages", label)
	scheduled.becomes(t, 4)
	if early := time.Until(starts); early > 0 {
		t.Errorf("the floor was raised %s before the start of the schedule", early)
	}
	t.Logf("the floor moved %s after its instant", time.Since(starts).Round(100*time.Millisecond))

	time.Sleep(outageWindow - time.Since(failed)) // nothing in the window is young enough after that
	w.queue.Store(0)
	began := time.Now()
	plain.becomes(t, 1)
	guard.tells(t, "External:queue fell from 30 to 0 at ")
	w.queue.Store(30)
	zeros := time.Since(began)
	w.awaitReconciles(t, w.reconciles(t)+10, 0)
	for _, s := range []*workload{window, guard} {
		if version := s.must(t, 1, "service", "inspect", "--format={{.Spec.Mode.Replicated.Replicas}} {{.PreviousSpec}}", s.name); version != "3 <nil>" && (s == guard || zeros < outageWindow) {
			t.Errorf("%s was changed in %s of zeros: %s", s.name, zeros, version)
		}
	}
	plain.becomes(t, 3)
	t.Logf("%s of zeros took only the service without stages to 1", zeros.Round(100*time.Millisecond))
	for s, says := range map[*workload]string{unknown: "Mars/Olympus", never: "it never fires"} {
		if o, err := w.status(s.name); err != nil || o.Hold == nil || !strings.Contains(o.Hold.Message, says) || s.replicas(t) != 2 {
			t.Errorf("%s is not held with %q: %+v, %v", s.name, says, o, err)
		} else {
			t.Logf("%s: %s", o.Hold.Reason, o.Hold.Message)
		}
	}
}
