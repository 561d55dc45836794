//go:build linux

package swarm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// deployedAgain: docker stack deploy writes the count of its file, and 1 if the file has none,
// as docs/guides/swarm.md warns; with that page's variable the count stays.
func deployedAgain(t *testing.T, w *world) {
	file := filepath.Join(w.folder, "stack.yaml")
	deploy := func(replicas string, env ...string) {
		t.Helper()
		stack := fmt.Sprintf(`
version: "3.8"
services:
  web:
    image: burn:1
    networks: [host]
    volumes: ["%s:/load:ro"]
    deploy:
      labels: {setpoint.enable: "true", setpoint.max: "%d", setpoint.min: "3", setpoint.cpu: "50"}
      resources: {reservations: {cpus: "0.02"}}
      %s
networks:
  host: {external: true, name: host}
`, filepath.Join(w.folder, "load-stack"), most, replicas)
		fatal.If(t, os.WriteFile(file, []byte(stack), 0o600))
		w.mustWith(t, env, "stack", "deploy", "--resolve-image=never", "-c", file, "demo")
	}
	load := &workload{world: w, name: "demo_web", load: filepath.Join(w.folder, "load-stack")}
	fatal.If(t, os.MkdirAll(load.load, 0o755))
	load.use(t, idle)
	const keeps = "replicas: ${WEB_REPLICAS:-2}"
	deploy(keeps)
	defer w.must(t, 1, "stack", "rm", "demo")
	load.becomes(t, 3)
	load.decided(t)
	load.use(t, much)
	load.becomes(t, most)
	// No agent is needed for the count to stay.
	w.agent.Stop()
	deploy(keeps, "WEB_REPLICAS="+w.must(t, 1, "service", "inspect", "--format={{.Spec.Mode.Replicated.Replicas}}", "demo_web"))
	if n := load.replicas(t); n != most {
		t.Errorf("%d replicas after it was deployed with the count that there was", n)
	}
	w.must(t, 1, "service", "update", "--quiet", "--detach", "--no-resolve-image", "--image=checked:1", "demo_web")
	if n := load.replicas(t); n != most {
		t.Errorf("%d replicas after the image was changed", n)
	}
	deploy("")
	if n := load.replicas(t); n != 1 {
		t.Errorf("%d replicas after it was deployed without a count, want 1 as the page says", n)
	}
	w.startAgent()
	load.becomes(t, most)
}

// tasksThatEnd: status says that tasks end by themselves, and no longer once a spec is in force of which they go on;
// and what docs/guides/swarm.md says of a rollback after a new count: it takes back the count and keeps the image.
func tasksThatEnd(t *testing.T, w *world) {
	s := w.createLabelled(t, "ends", "burn:1 check", 2, fmt.Sprintf("setpoint.max=%d", most), "setpoint.cpu=50", "setpoint.shadow=true")
	defer s.remove(t)
	s.use(t, idle)
	says := func(want string) {
		t.Helper()
		kit.Eventually(t, patience, "the notice "+want, func() error {
			o, err := s.agent.Object(s.name)
			if err == nil && (o.Decision == nil || !strings.Contains(o.Decision.Notice, want) || want == "" && o.Decision.Notice != "") {
				err = fmt.Errorf("the agent says %+v", o.Decision)
			}
			return err
		})
	}
	says("end by themselves with code 0")
	change := []string{"service", "update", "--quiet", "--detach", "--no-resolve-image", "--update-delay=0s", "--update-monitor=1s"}
	s.must(t, 1, append(change, "--args=/load/milli", s.name)...)
	says("")

	s.must(t, 1, append(change, "--image=checked:1", s.name)...)
	kit.Eventually(t, patience, "the end of the update", func() error { return s.isIn("completed") })
	s.must(t, 1, "service", "scale", "--detach", s.name+"=3")
	s.must(t, 1, "service", "rollback", "--quiet", "--detach", s.name)
	if is := s.must(t, 1, "service", "inspect", "--format={{.Spec.TaskTemplate.ContainerSpec.Image}} {{.Spec.Mode.Replicated.Replicas}}", s.name); is != "checked:1 2" {
		t.Errorf("after a rollback there is %s, want the new image and the old count", is)
	}
}
