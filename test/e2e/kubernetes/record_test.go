//go:build linux

package kubernetes

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// recorded are workloads that see much in a few reconciles.
var recorded = []scene{
	{name: "several", replicas: 2, spec: severalMetrics, steps: []step{dropIns[0].steps[0], cpu(500, 10), cpu(100, 3)}},
	{name: "limited", replicas: 2, spec: limited(5, 5, 4), steps: []step{cpu(600, 12), cpu(100, 2)}},
	{name: "no-metric", replicas: 2, spec: metric(external(value("10"))), steps: []step{
		cpu(100, 2).with("ScalingActive=False/FailedGetExternalMetric"), queue("15", 3),
	}},
	{name: unready, replicas: 2, spec: basic, steps: []step{cpu(300, 2).with("ScalingActive=False/FailedGetResourceMetric")}},
}

// An agent's recording of a cluster replays with the same outcome of each step.
func TestRecordingsReplay(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	p := newPlace(t, c, autoscalers, "record")
	c.Kubelet.Decide(p.namespace, fate)
	recording := filepath.Join(t.TempDir(), "flight.jsonl.gz")
	a := startAgent(t, c, p.namespace, service.Start(t), "--source=autoscaler", "--sync-period=1s", "--record="+recording)
	t.Run("scenes", func(t *testing.T) {
		for _, one := range recorded {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				p := p.in(t)
				c.Deployment(t, p.namespace, one.name, one.replicas)
				p.awaitPods(one.name, one.replicas, readyOf(one))
				for i, step := range one.steps {
					step.do(p, one.name)
					if i == 0 {
						p.add(one.name, one.spec(one.name))
					}
					p.awaitStep(one, step, "a step")
				}
			})
		}
	})
	(&world{place: p, agent: a}).awaitReconciles(t, float64(10*len(recorded)))
	reconciles := a.value("setpoint_agent_reconciles_total")
	a.stop()
	program, err := service.Program()
	must(t, err)
	output, err := exec.Command(program, "replay", "-o=json", recording).CombinedOutput()
	if err != nil {
		t.Fatalf("replay: %v\n%s", err, output)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	var summary struct{ Scenarios, Steps, MismatchedSteps int }
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &summary))
	t.Logf("%v reconciles; replayed: %s", reconciles, lines[len(lines)-1])
	// It has no first reconcile of an object, without a history to begin with, and no change
	// that was unsettled at the end.
	if summary.Scenarios < len(recorded) || summary.Steps < int(reconciles)/2 || summary.MismatchedSteps != 0 {
		t.Errorf("%+v of %v reconciles of %d objects", summary, reconciles, len(recorded))
	}
}
