//go:build linux

package kubernetes

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// With an empty queue a workload goes to zero, and comes back with the first work; a workload
// that a user scaled to zero stays there.
func TestZeroIsLeftAndReachedWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	p := newPlace(t, c, autoscalers, "zero")
	for _, name := range []string{"worker", "stopped"} {
		replicas := int32(2)
		if name == "stopped" {
			replicas = 0
		}
		c.Deployment(t, p.namespace, name, replicas)
		queue("20", replicas).do(p, name)
	}
	startAgent(t, c, p.namespace, service.Start(t), "--source=autoscaler")
	none, window := int32(0), int32(0)
	for _, name := range []string{"worker", "stopped"} {
		spec := metric(external(averageValue("10")))(name)
		spec.MinReplicas = &none
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window}}
		p.add(name, spec, `options={"scaleToZero":true}`)
	}
	p.awaitCondition("worker", "ScalingActive=True/ValidMetricFound")
	for range 2 {
		queue("0", 0).do(p, "worker")
		p.awaitReplicas("worker", 0)
		queue("30", 3).do(p, "worker")
		p.awaitReplicas("worker", 3)
	}
	p.awaitCondition("stopped", "ScalingActive=False/ScalingDisabled")
	if got := p.replicas("stopped"); got != 0 {
		t.Errorf("what somebody stopped has %d replicas", got)
	}
}
