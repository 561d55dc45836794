//go:build linux

package kubernetes

import (
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Each object has its own sync period, by default the agent's; a changed spec takes effect
// without waiting for either.
func TestPaceIsEachObjectsOwn(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	native := newPlace(t, c, hpas, "pace")
	ours := &place{t: t, c: c, kind: autoscalers, namespace: native.namespace}
	places := map[string]*place{"slow": native, "annotated": native, "field": ours}
	for name, p := range places {
		c.Deployment(t, p.namespace, name, 2)
		cpu(100, 0).do(p, name)
		p.awaitReplicas(name, 2)
	}
	native.add("slow", basic("slow"))
	native.add("annotated", basic("annotated"))
	native.patch("annotated", `{"metadata":{"annotations":{"autoscaling.setpoint.dev/sync-period":"1s"}}}`)
	ours.add("field", basic("field"), "syncPeriodSeconds=1")
	// An hour: within the test only the first reconcile comes by itself.
	startAgent(t, c, native.namespace, service.Start(t), "--source=both", "--sync-period=1h")
	for name, p := range places {
		p.awaitCondition(name, "AbleToScale=True/ReadyForNewScale")
	}
	for _, load := range []struct {
		milli    int64
		replicas int32
	}{{300, 6}, {200, 4}, {500, 10}} {
		for name, p := range places {
			cpu(load.milli, 0).do(p, name)
		}
		native.awaitReplicas("annotated", load.replicas)
		ours.awaitReplicas("field", load.replicas)
	}
	if got := native.replicas("slow"); got != 2 {
		t.Errorf("the object whose reconcile is in an hour has %d replicas, want 2", got)
	}
	native.patch("slow", `{"spec":{"maxReplicas":8}}`)
	native.awaitReplicas("slow", 8)
	// From then on at the pace it names.
	native.patch("slow", `{"metadata":{"annotations":{"autoscaling.setpoint.dev/sync-period":"1s"}}}`)
	cpu(150, 0).do(native, "slow")
	native.awaitReplicas("slow", 3)
}
