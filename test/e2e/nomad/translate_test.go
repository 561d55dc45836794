//go:build linux

package nomad

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// A job of the Nomad Autoscaler is translated: Nomad parses the result, and the agent scales by it.
func TestTranslate(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(20)
	g := n.group("web", 2, "")
	g.Scaling.Policy = map[string]any{
		"cooldown": "10s", "evaluation_interval": "2s",
		"check": []any{map[string]any{"queue": []any{map[string]any{
			"source": "prom", "query": "vector(2) # ${x} %{y} \"", "strategy": []any{map[string]any{"target-value": []any{map[string]any{"target": 1, "max_scale_up": 3}}}},
		}}}},
	}
	job := n.register("web", g)
	a := startAgent(t, n, service.Start(t), "--sources-file="+sourcesOf(t, "sources: {prom: {prometheus: {url: "+newPrometheus(t)+"}}}"))
	inspected, err := json.Marshal(map[string]any{"Job": job})
	must(t, err)
	translate := exec.Command(a.command.Program, "translate", "-")
	translate.Stdin = strings.NewReader(string(inspected))
	block, err := translate.Output()
	must(t, err)
	parsed, err := n.client.Jobs().ParseHCL(fmt.Sprintf("job \"web\" {\n group \"web\" {\n %s\n task \"app\" {\n driver = \"mock_driver\"\n }\n }\n}", block), true)
	must(t, err)
	g.Scaling = parsed.TaskGroups[0].Scaling
	n.run(job)
	n.await("web", 10)
	a.awaitState("web.web", func(s state) error {
		if s.Hold != nil || s.Warning != "" || s.Error != "" {
			return errors.New("something is left")
		}
		return nil
	})
}
