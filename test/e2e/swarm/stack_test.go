//go:build linux

package swarm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The stack of deploy/swarm runs as it is, and scales a service. Only its network is another: the
// daemons of the tests have no overlay networks, so its services find each other on the host's,
// and one node runs them all.
func TestTheStackScales(t *testing.T) {
	s := startSwarm(t)
	s.must(t, 1, "node", "update", "--availability=drain", s.must(t, 2, "info", "--format={{.Swarm.NodeID}}"))
	importImage(t, s)
	secret := filepath.Join(s.folder, "secret")
	fatal.If(t, os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600))
	s.must(t, 1, "secret", "create", "setpoint-nodes", secret)
	file := filepath.Join(s.folder, "setpoint.yaml")
	fatal.If(t, os.WriteFile(file, onTheHost(t, s), 0o600))
	s.must(t, 1, "stack", "deploy", "--resolve-image=never", "--compose-file="+file, "setpoint")
	for _, name := range []string{"server", "agent", "node"} {
		kit.Eventually(t, patience, "healthy "+name, func() error { return s.healthy("setpoint_" + name) })
	}

	web := (&world{swarm: s, t: t}).create(t, "web", "burn:1", 1)
	web.use(t, much)
	s.counts(t, web, func(n int) bool { return n > 1 })
	shown, err := s.docker(1, "exec", s.container("setpoint_agent"), "/setpoint-swarm", "status") // as docs/guides/swarm.md says
	if err != nil || !strings.Contains(shown, "web") {
		t.Errorf("setpoint-swarm status in the agent's container: %v\n%s", err, shown)
	}
	s.must(t, 1, "service", "create", "--detach", "--no-resolve-image", "--name=misplaced", "--container-label=setpoint.enable=true", "--label=swarm.autoscaler=true", "--replicas=0", "burn:1")
	s.must(t, 1, "service", "update", "--detach", "--no-resolve-image", "--label-add=orbiter=true", "web")
	found, err := s.docker(1, "exec", s.container("setpoint_agent"), "/setpoint-swarm", "doctor")
	if err == nil {
		t.Errorf("setpoint-swarm doctor in the agent's container finds nothing:\n%s", found)
	}
	for _, want := range []string{
		"1 services have opted in", "setpoint-swarm node runs on each node; status", "web also has the label orbiter of another autoscaler",
		"misplaced has setpoint.enable as a label of its containers", "misplaced has the label swarm.autoscaler of another autoscaler",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("setpoint-swarm doctor does not say %q: %v", want, err)
		}
	}
	s.must(t, 1, "service", "rm", "misplaced")
	s.must(t, 1, "service", "update", "--detach", "--no-resolve-image", "--label-rm=orbiter", "web")
	// A second agent is told by both.
	s.must(t, 1, "service", "create", "--detach", "--no-resolve-image", "--name=second", "setpoint:dev", "agent", "swarm")
	if _, err := s.docker(1, "exec", s.container("setpoint_agent"), "/setpoint-swarm", "doctor"); err == nil || !strings.Contains(err.Error(), "2 agents run in this swarm (second, setpoint_agent)") {
		t.Errorf("setpoint-swarm doctor beside a second agent: %v", err)
	}
	s.must(t, 1, "service", "rm", "second")
	web.use(t, idle)
	s.counts(t, web, func(n int) bool { return n == 1 })

	// The server ends in order, within the time that the file gives it.
	id := s.container("setpoint_server")
	s.must(t, 1, "service", "scale", "--detach", "setpoint_server=0")
	kit.Eventually(t, patience, "end of the server", func() error {
		state, err := s.docker(1, "inspect", "--format={{.State.Running}} {{.State.ExitCode}}", id)
		if err == nil && state != "false 0" {
			err = errors.New(state)
		}
		return err
	})
	s.must(t, 1, "stack", "rm", "setpoint")
	kit.Eventually(t, patience, "end of the stack", func() error {
		left, err := s.docker(1, "ps", "--all", "--filter=label=com.docker.stack.namespace=setpoint", "--format={{.Names}} {{.State}}")
		if err == nil && left != "" {
			err = errors.New(left)
		}
		return err
	})
	// Users' objects stay: the workload and the secret.
	if n := web.replicas(t); n != 1 {
		t.Errorf("without the stack web has %d replicas", n)
	}
	s.must(t, 1, "secret", "inspect", "setpoint-nodes")
}

// counts waits until the workload has a count that is right.
func (s *swarm) counts(t *testing.T, web *workload, right func(int) bool) {
	t.Helper()
	kit.Eventually(t, patience, "right count of "+web.name, func() error {
		n := web.replicas(t)
		if right(n) {
			return nil
		}
		logs, _ := s.docker(1, "service", "logs", "--tail=5", "setpoint_agent")
		return fmt.Errorf("it has %d; the agent: %s", n, logs)
	})
}

// onTheHost is the file as docker understands it, with the host's network in place of the overlay.
func onTheHost(t *testing.T, s *swarm) []byte {
	t.Helper()
	rendered, err := s.dockerWith(1, []string{"SETPOINT_DOCKER_SOCKET=" + s.socket(1)}, "stack", "config", "--compose-file="+repository+"/deploy/swarm/stack.yaml")
	fatal.If(t, err)
	var stack map[string]any
	fatal.If(t, yaml.Unmarshal([]byte(rendered), &stack))
	stack["networks"] = map[string]any{"inner": map[string]any{"external": true, "name": "host"}}
	for _, service := range stack["services"].(map[string]any) {
		service := service.(map[string]any)
		if deploy, ok := service["deploy"].(map[string]any); ok {
			delete(deploy, "endpoint_mode")
		}
		environment := service["environment"].(map[string]any)
		for _, address := range []string{"SETPOINT_SERVER", "SETPOINT_AGENT_ADDRESS"} {
			if value, ok := environment[address].(string); ok {
				environment[address] = "127.0.0.1" + value[strings.LastIndexByte(value, ':'):]
			}
		}
	}
	text, err := yaml.Marshal(stack)
	fatal.If(t, err)
	return text
}

// importImage makes setpoint:dev from the programs, following the relevant part of
// deploy/Dockerfile.
func importImage(t *testing.T, s *swarm) {
	t.Helper()
	folder := filepath.Join(s.folder, "image")
	fatal.If(t, os.Mkdir(folder, 0o755))
	for name, build := range map[string]func() (string, error){"setpoint": service.Program, "setpoint-swarm": service.Swarm} {
		path, err := build()
		fatal.If(t, err)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), data, 0o755)
		}
		fatal.If(t, err)
	}
	s.must(t, 1, "import", `--change=ENTRYPOINT ["/setpoint"]`, "--change=USER 65532:65532",
		`--change=HEALTHCHECK --interval=1s --timeout=30s --start-period=3m CMD ["/setpoint", "health"]`, archive(t, folder), "setpoint:dev")
}

// container is the id of a service's container that runs; "": there is none.
func (s *swarm) container(service string) string {
	id, err := s.docker(1, "ps", "--quiet", "--no-trunc", "--filter=label=com.docker.swarm.service.name="+service)
	if err != nil || strings.Contains(id, "\n") {
		return ""
	}
	return id
}

// healthy returns an error unless a service's container says that it is.
func (s *swarm) healthy(service string) error {
	id := s.container(service)
	if id == "" {
		tasks, err := s.docker(1, "service", "ps", "--no-trunc", service)
		return errors.Join(errors.New("no container runs: "+tasks), err)
	}
	state, err := s.docker(1, "inspect", "--format={{.State.Health.Status}}", id)
	if err == nil && state != "healthy" {
		logs, _ := s.docker(1, "service", "logs", "--tail=5", service)
		err = fmt.Errorf("%s: %s", state, logs)
	}
	return err
}
