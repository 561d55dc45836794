package main

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// stack is the tested part of a stack file.
type stack struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Healthcheck struct{ Test []string }
		Deploy      struct {
			Mode   string
			Labels map[string]string
		}
	}
	Configs map[string]struct{ File, Name string }
}

func readStack(t *testing.T, name string) stack {
	t.Helper()
	text := testpages.Read(t, "../../deploy/swarm/"+name)
	var s stack
	fatal.If(t, yaml.Unmarshal([]byte(text), &s))
	return s
}

// A config whose text has changed under its old name keeps a whole stack from being upgraded.
func TestAConfigIsNamedByItsText(t *testing.T) {
	t.Parallel()
	configs := readStack(t, "monitoring.yaml").Configs
	if len(configs) != 2 {
		t.Errorf("configs %v", configs)
	}
	for key, c := range configs {
		text := testpages.Read(t, "../../deploy/swarm/"+c.File)
		if want := fmt.Sprintf("setpoint-%s-%x", key, sha256.Sum256([]byte(text)))[:len("setpoint-")+len(key)+9]; c.Name != want {
			t.Errorf("deploy/swarm/monitoring.yaml: the config %s of %s has the name %s; write %s", key, c.File, c.Name, want)
		}
	}
}

// The stack file uses existing settings, and the labels of the example are valid.
func TestTheStackNamesSettingsThatThereAre(t *testing.T) {
	t.Parallel()
	s := readStack(t, "stack.yaml")
	for _, name := range []string{"agent", "node"} {
		cmd, _, err := newRoot().Find(s.Services[name].Command)
		if err != nil || cmd.Name() != name {
			t.Fatalf("%s runs %v: %v", name, s.Services[name].Command, err)
		}
		known := map[string]bool{"GOMEMLIMIT": true} // Go's own
		cmd.Flags().VisitAll(func(flag *pflag.Flag) { known[config.VariableOf(flag)] = true })
		for variable := range s.Services[name].Environment {
			if !known[variable] {
				t.Errorf("%s: %s is no setting of it", name, variable)
			}
		}
	}
	for name, service := range s.Services { // Swarm ends tasks that are not ready, all of them while Redis is away
		if !slices.Contains(service.Healthcheck.Test, "--live") {
			t.Errorf("the health check of %s is %v, which is not of liveness", name, service.Healthcheck.Test)
		}
	}
	for _, file := range []string{"sources.yaml", "monitoring.yaml"} {
		for name, added := range readStack(t, file).Services {
			cmd, _, err := newRoot().Find([]string{name})
			if err != nil || cmd.Name() != name {
				continue // another program
			}
			known := map[string]bool{}
			cmd.Flags().VisitAll(func(flag *pflag.Flag) { known[config.VariableOf(flag)] = true })
			for variable := range added.Environment {
				if !known[variable] {
					t.Errorf("%s: %s: %s is no setting of it", file, name, variable)
				}
			}
		}
	}
	text := testpages.Read(t, "../../deploy/swarm/sources-example.yaml")
	if _, err := samples.ParseConfig([]byte(text)); err != nil {
		t.Errorf("the sources of the example: %v", err)
	}
	if s.Services["node"].Deploy.Mode != "global" {
		t.Error("node does not run on each node")
	}
	example := readStack(t, "example.yaml").Services["web"].Deploy.Labels
	if wants, err := swarm.ParseLabels("web", example); err != nil || !swarm.Enabled(example) || len(wants.Warnings) > 0 {
		t.Errorf("labels of the example: %v, %v", wants, err)
	}
}
