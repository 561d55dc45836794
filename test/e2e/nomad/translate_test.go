//go:build linux

package nomad

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/panels"
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
	a := startAgent(t, n, service.Start(t), "--sources-file="+sourcesOf(t, "sources: {prom: {prometheus: {url: "+panels.Prometheus(t, nil)+"}}}"))
	inspected, err := json.Marshal(map[string]any{"Job": job})
	fatal.If(t, err)
	translate := exec.Command(a.Command.Program, "translate", "-")
	translate.Stdin = strings.NewReader(string(inspected))
	block, err := translate.Output()
	fatal.If(t, err)
	parsed, err := n.client.Jobs().ParseHCL(fmt.Sprintf("job \"web\" {\n group \"web\" {\n %s\n task \"app\" {\n driver = \"mock_driver\"\n }\n }\n}", block), true)
	fatal.If(t, err)
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

// Nomad parses what the documentation shows of job files.
func TestDocumentedBlocksAreHCL(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	pages, err := filepath.Glob("../../../docs/*/*.md")
	fatal.If(t, err)
	fence := regexp.MustCompile("(?s)\n *```hcl\n(.*?)\n *```")
	parsed := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		fatal.If(t, err)
		for _, found := range fence.FindAllStringSubmatch(string(text), -1) {
			block := found[1]
			for _, outer := range []struct{ inner, format string }{
				{"stages", "setpoint {\n%s\n}"}, {"setpoint", "policy {\n%s\n}"}, {"policy", "scaling {\nmax = 9\n%s\n}"},
				{"scaling", "group \"web\" {\n%s\ntask \"app\" {\ndriver = \"mock_driver\"\n}\n}"}, {"group", "job \"web\" {\n%s\n}"},
			} {
				if strings.HasPrefix(block, outer.inner+" ") {
					block = fmt.Sprintf(outer.format, block)
				}
			}
			if !strings.HasPrefix(block, "job ") {
				continue // of an agent of Nomad
			}
			parsed++
			if _, err := n.client.Jobs().ParseHCL(block, false); err != nil {
				t.Errorf("%s: %v\n%s", page, err, found[1])
			}
		}
	}
	if parsed < 5 {
		t.Errorf("%d blocks were parsed", parsed)
	}
}
