//go:build linux

package panels_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/test/e2e/panels"
)

// The Prometheus that deploy/swarm/monitoring.yaml puts beside the stack accepts its configuration and rules, and scrapes
// each program where monitoring.yaml has it listen.
func TestTheSwarmsPrometheusScrapesTheStack(t *testing.T) {
	panels.Require(t, "promtool")
	const folder = "../../../deploy/swarm"
	var stack struct {
		Services map[string]struct {
			Environment map[string]string
			Configs     []struct{ Source, Target string }
		}
		Configs map[string]struct{ File string }
	}
	parse(t, filepath.Join(folder, "monitoring.yaml"), &stack)

	mounted := t.TempDir()
	configs := stack.Services["prometheus"].Configs
	if len(configs) == 0 {
		t.Fatal("monitoring.yaml gives Prometheus no configuration")
	}
	for _, c := range configs {
		text := testpages.Read(t, filepath.Join(folder, stack.Configs[c.Source].File))
		fatal.If(t, os.WriteFile(filepath.Join(mounted, filepath.Base(c.Target)), []byte(text), 0o600))
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", filepath.Join(mounted, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}

	var prometheus struct {
		Jobs []struct {
			DNS []struct {
				Names []string
				Port  int
			} `json:"dns_sd_configs"`
		} `json:"scrape_configs"`
	}
	parse(t, filepath.Join(mounted, "prometheus.yml"), &prometheus)
	scraped := map[string]string{}
	for _, job := range prometheus.Jobs {
		for _, dns := range job.DNS {
			for _, name := range dns.Names {
				scraped[strings.TrimPrefix(name, "tasks.")] = fmt.Sprint(":", dns.Port)
			}
		}
	}
	for name, service := range stack.Services {
		if address := service.Environment["SETPOINT_ADMIN_ADDRESS"]; address != scraped[name] {
			t.Errorf("%s listens at %q, and is scraped at %q", name, address, scraped[name])
		}
	}
	if len(scraped) < 3 {
		t.Errorf("scraped are %v, want the server, the agent and the node's program", scraped)
	}
}

func parse(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
