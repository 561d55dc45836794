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
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

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
