//go:build linux

package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// If the built-in controller is still on, an agent for the same objects notices that when it
// writes a status, reports it, and gives way unless told otherwise. Then only the other one
// changes the count.
func TestRivalsTheBuiltInControllerIsStillOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		flags  []string
		keepOn bool
		says   string
	}{
		{"the agent gives way", nil, false, "Setpoint gives way, and acts again when no other controller has written it for 5m0s"},
		// It is quicker than the other, so that it is the one that scales at times.
		{"the agent keeps on", []string{"--on-rival=keep-on", "--sync-period=1s"}, true, "Setpoint acts nevertheless, as --on-rival says"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := kubetest.Shared(t)
			p := newPlace(t, c, hpas, "still-on")
			c.Deployment(t, p.namespace, app, 6)
			cpu(300, 0).do(p, app)
			p.awaitReplicas(app, 6)
			w := &world{place: p}
			p.add(app, basic(app))
			p.awaitCondition(app, "AbleToScale=True/ReadyForNewScale")
			w.agent = startAgent(t, c, p.namespace, service.Start(t), append([]string{"--source=hpa"}, tt.flags...)...)
			w.awaitReconciles(t, 1)

			const noticed = `ConflictingController=True/StatusWrittenByAnother: "kube-controller-manager" writes the status of this object, too`
			has := func() string { return p.condition(app, "ConflictingController") }
			loads := []int32{10, 4, 16, 2, 9, 5, 12, 3}
			changes, began := 0, time.Now()
			// On a busy machine the other one writes seldom.
			for ; has() == "" && (changes < len(loads) || time.Since(began) < within); changes++ {
				// Two active controllers may take a step twice, and back: the final count is
				// undefined.
				cpu(milli(loads[changes%len(loads)]), 0).do(p, app)
				w.awaitReconciles(t, 2)
			}
			if got := has(); !strings.HasPrefix(got, noticed) || !strings.Contains(got, tt.says) {
				t.Fatalf("after %d changes of the count there is %q, want %q and %q", changes, got, noticed, tt.says)
			}
			t.Logf("noticed after %d changes", changes)
			w.awaitReconciles(t, 1)
			w.tellsOfRival(t, tt.keepOn)

			if tt.keepOn {
				mark, began := c.Mark(t), time.Now()
				for i := 0; w.scaleWrites(t, w.agent, mark) == 0; i++ {
					if i >= len(loads) && time.Since(began) > within {
						t.Fatalf("it wrote no scale while the load changed %d times; who did: %v", i, writers(c.Since(t, mark), p.namespace))
					}
					cpu(milli(loads[i%len(loads)]), 0).do(p, app)
					w.awaitReconciles(t, 3)
				}
				if got := has(); !strings.HasPrefix(got, noticed) {
					t.Errorf("in the end there is %q, want %q", got, noticed)
				}
				return
			}
			mark := c.Mark(t)
			want := []int32{15, 6, 14} // counts for none of the loads at which it noticed
			for _, replicas := range want {
				cpu(milli(replicas), 0).do(p, app)
				p.awaitReplicas(app, replicas)
				w.awaitReconciles(t, 1)
			}
			requests := c.Since(t, mark)
			if n := w.scaleWrites(t, w.agent, mark); n != 0 {
				t.Errorf("the agent wrote %d scales although it gives way; who wrote: %v", n, writers(requests, p.namespace))
			}
			if n := requests.Of(w.agent.account.User).Counts()["update horizontalpodautoscalers/status"]; n != 0 {
				t.Errorf("the agent wrote %d statuses although it gives way", n)
			}
			if n := writers(requests, p.namespace)[kubetest.NativeUser]; n < len(want) {
				t.Errorf("the built-in controller wrote %d scales, want %d", n, len(want))
			}
			if got := has(); !strings.HasPrefix(got, noticed) {
				t.Errorf("in the end there is %q, want %q", got, noticed)
			}
		})
	}
}

// tellsOfRival checks an agent's metrics and log about the rival of its object.
func (w *world) tellsOfRival(t *testing.T, keepOn bool) {
	t.Helper()
	if n := w.agent.Metric("setpoint_agent_rival_objects"); n != 1 {
		t.Errorf("%v objects have rivals, want 1", n)
	}
	if n := w.agent.Metric("setpoint_agent_rival_status_writes_total"); n < 1 {
		t.Errorf("%v writes of the rival are counted", n)
	}
	if n := w.agent.Metric("setpoint_agent_reconciles_total", "outcome=conflicting_controller"); n > 0 == keepOn {
		t.Errorf("it gave way in %v reconciles", n)
	}
	log := w.agent.Log()
	const warning = "another controller writes the status of HorizontalPodAutoscalers that this agent acts on"
	if n := strings.Count(log, warning); n != 1 || !strings.Contains(log, fmt.Sprintf(`"givesWay": %t`, !keepOn)) {
		t.Errorf("it warned %d times, want once, with what it does:\n%s", n, log)
	}
}

// milli is the load that wants so many pods.
func milli(replicas int32) int64 { return int64(replicas) * 50 }

// writers returns the users that wrote scales of a namespace, and how often.
func writers(requests kubetest.Requests, namespace string) map[string]int {
	all := make(map[string]int)
	for _, r := range requests {
		if r.Namespace == namespace && r.Subresource == "scale" && r.Verb != "get" && r.Code < 400 {
			all[r.User]++
		}
	}
	return all
}
