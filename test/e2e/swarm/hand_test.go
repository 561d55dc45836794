//go:build linux

package swarm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// decidedByHand compares each decision on a service, up and down again, with setpoint
// recommend's, given the recorded readings in order, at their times, by a server without the
// agent. The decisions are the counts that the swarm had.
func decidedByHand(t *testing.T, w *world) {
	const least = 1
	s := w.create(t, "byhand", "burn:1", least)
	defer s.remove(t)
	s.use(t, idle)
	s.decided(t)
	s.use(t, much)
	seen := s.watch(t, most)
	s.use(t, idle)
	seen = append(seen, s.watch(t, least)[1:]...)
	w.stopAgent() // which completes its recording
	defer w.startAgent()
	calls := recorded(t, w.recording, s.name)
	program, err := service.Program()
	if err != nil {
		t.Fatal(err)
	}
	server := service.Start(t, "--allow-evaluation-time")
	var counts, decided []int32
	for i, c := range calls {
		c.Request["evaluationTime"] = c.Time
		text, err := json.Marshal(c.Request)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "recommend", "-f", "-", "-o", "json", "--server", server.GRPCAddr(), "--target", "clusters/hand/namespaces/default/targets/byhand")
		var out, complaints bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &complaints
		if err := cmd.Run(); err != nil {
			t.Fatalf("call %d: %v\n%s", i, err, complaints.String())
		}
		var got decision
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got != c.Answer {
			t.Errorf("call %d, at %s: by hand %+v, the agent had %+v\n%s", i, c.Time, got, c.Answer, text)
		}
		counts, decided = append(counts, got.CurrentReplicas), append(decided, got.DesiredReplicas)
	}
	// The counts of the swarm are the decided ones, in order.
	want := slices.Compact(append(counts[:1:1], decided...))
	got := []int32{}
	for _, c := range seen {
		got = append(got, int32(c.to))
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the swarm had %v, decided were %v", got, want)
	}
	t.Logf("%d calls, counts %v", len(calls), want)
}

// decision is the compared part.
type decision struct {
	CurrentReplicas, DesiredReplicas int32
	Action, Reason                   string
}

type recordedCall struct {
	Time    time.Time
	Request map[string]any
	Answer  decision
}

// recorded are the calls about a service.
func recorded(t *testing.T, file, name string) (calls []recordedCall) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var scenario struct{ Calls []recordedCall }
		if err := json.Unmarshal([]byte(line), &scenario); err != nil {
			t.Fatal(err)
		}
		for _, c := range scenario.Calls {
			if target, _ := c.Request["target"].(string); strings.HasSuffix(target, "/targets/"+name) {
				calls = append(calls, c)
			}
		}
	}
	if len(calls) < 5 {
		t.Fatalf("%d calls about %s are recorded", len(calls), name)
	}
	return calls
}

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
