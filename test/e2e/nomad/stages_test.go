//go:build linux

package nomad

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/markdown"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

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
	fatal.If(t, err)
	policy := ""
	for _, block := range markdown.Parse(page).Blocks {
		if block.Language == "hcl" && strings.Contains(block.Text, "stages {") {
			policy = block.Text
		}
	}
	job, err := n.client.Jobs().ParseHCL(fmt.Sprintf("job \"web\" {\n group \"web\" {\n scaling {\n max = 10\n %s\n}\n task \"app\" {\n driver = %q\n}\n}\n}", policy, n.server.driver), true)
	fatal.If(t, err)
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
