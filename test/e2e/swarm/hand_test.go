//go:build linux

package swarm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
		if err := os.WriteFile(file, []byte(stack), 0o600); err != nil {
			t.Fatal(err)
		}
		w.mustWith(t, env, "stack", "deploy", "--resolve-image=never", "-c", file, "demo")
	}
	load := &workload{world: w, name: "demo_web", load: filepath.Join(w.folder, "load-stack")}
	if err := os.MkdirAll(load.load, 0o755); err != nil {
		t.Fatal(err)
	}
	load.use(t, idle)
	const keeps = "replicas: ${WEB_REPLICAS:-2}"
	deploy(keeps)
	defer w.must(t, 1, "stack", "rm", "demo")
	load.becomes(t, 3)
	load.decided(t)
	load.use(t, much)
	load.becomes(t, most)
	// No agent is needed for the count to stay.
	w.stopAgent()
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
