//go:build linux

package nomad

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/internal/markdown"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// byQueueSlowly is byQueue, by two allocations at a time, with a window of 20 s.
var byQueueSlowly = strings.NewReplacer("value: 3", "value: 2", "stabilizationWindowSeconds: 8", "stabilizationWindowSeconds: 20").Replace(byQueue)

// An override that somebody types holds a ramp, also over a restart of the agent and of the service. Then the
// ramp goes on in its steps, and the window is as it would be: it knows what was recommended below the hold,
// and it passes below a hold. One that ended while no agent was there does nothing.
func TestAnOverrideHoldsARamp(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	s := service.Start(t, "--redis", redistest.Start(t, redistest.Config{}).URL())
	override := func(args ...string) string {
		t.Helper()
		out, err := s.Setpoint(append([]string{"override"}, args...)...)
		must(t, err)
		return out
	}
	place := "clusters/test/namespaces/" + n.namespace
	adjusted := func(want string) func(state) error {
		return func(s state) error {
			if s.Decision == nil || !strings.Contains(s.Decision.Adjusted, want) {
				return fmt.Errorf("it does not say %q", want)
			}
			return nil
		}
	}
	n.queue.Store(20)
	n.register("web", n.group("web", 2, byQueueSlowly))
	a := startAgent(t, n, s)

	n.queue.Store(90)
	n.await("web", 4)
	override("create", place+"/targets/web.web", "--hold", "--for=30m", "--reason=a migration", "--id=freeze")
	a.awaitState("web.web", adjusted(": \"a migration\" (override freeze of the target); the recommendation would be "))
	held := n.count("web")
	if held >= 9 {
		t.Fatalf("the ramp was over before it was held")
	}
	a.Kill()
	s.Kill()
	s.Restart()
	a.start()
	a.awaitReconciles(6)
	a.awaitState("web.web", adjusted(fmt.Sprintf("held at %d by somebody until ", held)))
	if got := n.count("web"); got != held {
		t.Fatalf("%d allocations, though it is held at %d", got, held)
	}
	if list := override("list", place+"/targets/web.web"); !strings.Contains(list, place+"/targets/web.web/overrides/freeze   hold") {
		t.Errorf("the list has no override:\n%s", list)
	}
	// The load falls right before the end: the window keeps the count by what was recommended below the hold.
	n.queue.Store(20)
	a.awaitState("web.web", adjusted("(override freeze of the target); as is the recommendation"))
	override("delete", place+"/targets/web.web/overrides/freeze")
	a.awaitReconciles(3)
	if got := n.count("web"); got != held {
		t.Errorf("%d allocations right after the end, want still %d", got, held)
	}
	n.queue.Store(90)
	n.await("web", 9)
	n.awaitEvents("web", "2→4 4→6 6→8 8→9")

	// The window passes while it is held, so that nothing is waited for after that.
	override("create", place, "--no-scale-down", "--for=30m", "--reason=a sale", "--id=sale")
	n.queue.Store(20)
	a.awaitState("web.web", adjusted("the recommendation would be 2"))
	if got := n.count("web"); got != 9 {
		t.Errorf("%d allocations, though it may not scale down", got)
	}
	override("delete", place+"/overrides/sale")
	n.eventually(func() error {
		if s := a.status("web.web"); s.Decision != nil && s.Decision.Adjusted == "" && s.Decision.Current == 9 && s.Decision.Desired == 9 {
			t.Fatalf("without the override it is held by something else: %+v", s.Decision)
		}
		if got := n.count("web"); got != 2 {
			return fmt.Errorf("%d allocations, want 2", got)
		}
		return nil
	})

	must(t, a.Stop())
	override("create", place+"/targets/web.web", "--pin=7", "--for=5s", "--reason=a load test", "--id=late")
	n.eventually(func() error {
		if strings.Contains(override("list", place+"/targets/web.web"), "late") {
			return errors.New("it has not ended")
		}
		return nil
	})
	a.start()
	a.awaitReconciles(4)
	n.awaitEvents("web", "2→4 4→6 6→8 8→9 9→2")
}

// What is wrong with stages holds the group and nothing else, in the agent's words where it is the shape,
// else in the service's.
func TestStagesThatAreWrong(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(50)
	const schedule = `stages: {schedules: [{name: night, timeZone: %s, cron: "%s", duration: 60s, minReplicas: 5}]}`
	all := []struct{ name, stages, reason, says string }{
		{"unknown", "stages: {windowTroughFailures: true}", "InvalidObject", "stages.windowTroughFailures: there is no such key; did you mean windowThroughFailures?"},
		{"zone", fmt.Sprintf(schedule, "Mars/Olympus", "0 8 * * *"), "RecommendationRefused", `stages.schedules[0].timeZone: Invalid value: "Mars/Olympus": `},
		{"never", fmt.Sprintf(schedule, "UTC", "0 0 30 2 *"), "RecommendationRefused", `stages.schedules[0].cron: Invalid value: "0 0 30 2 *": it never fires`},
	}
	for _, wrong := range all {
		n.register(wrong.name, n.group(wrong.name, 2, byQueue+wrong.stages))
	}
	n.register("fine", n.group("fine", 2, byQueue))
	a := startAgent(t, n, service.Start(t))
	n.await("fine", 5)
	for _, wrong := range all {
		a.awaitState(wrong.name+"."+wrong.name, func(s state) error {
			if s.Hold == nil || s.Hold.Reason != wrong.reason || !strings.Contains(s.Hold.Message, wrong.says) {
				return fmt.Errorf("it is not held for %s with %q", wrong.reason, wrong.says)
			}
			return nil
		})
		if got := n.count(wrong.name); got != 2 {
			t.Errorf("%s: %d allocations", wrong.name, got)
		}
	}
}

// What the guide shows in HCL is what Nomad hands to the agent, and the agent to the service.
func TestTheStagesOfTheGuide(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	page, err := os.ReadFile("../../../docs/guides/nomad.md")
	must(t, err)
	policy := ""
	for _, block := range markdown.Parse(page).Blocks {
		if block.Language == "hcl" && strings.Contains(block.Text, "stages {") {
			policy = block.Text
		}
	}
	job, err := n.client.Jobs().ParseHCL(fmt.Sprintf("job \"web\" {\n group \"web\" {\n scaling {\n max = 10\n %s\n}\n task \"app\" {\n driver = %q\n}\n}\n}", policy, n.server.driver), true)
	must(t, err)
	job.Namespace, job.Datacenters = &n.namespace, []string{"*"}
	job.TaskGroups[0].Tasks = []*api.Task{n.idle()}
	n.run(job)
	s := service.Start(t)
	startAgent(t, n, s)
	n.eventually(func() error {
		known, err := s.Setpoint("targets", "get", "clusters/test/namespaces/"+n.namespace+"/targets/web.web", "-o=json")
		if err == nil && (!strings.Contains(known, `"windowThroughFailures": true`) || !strings.Contains(known, `"timeZone": "Europe/Berlin"`)) {
			err = errors.New(known)
		}
		return err
	})
}
