//go:build linux

package kubernetes

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// percent wants a Deployment's pods at so many percent.
func percent(deployment string, percent int32) autoscalingv2.HorizontalPodAutoscalerSpec {
	return kubetest.CPU(deployment, percent, 1, 20)
}

// An Autoscaler whose workload a HorizontalPodAutoscaler has, or an older Autoscaler,
// says so and leaves it alone; it acts as soon as the other is gone.
func TestRivalsAreNotFought(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	native := newPlace(t, c, hpas, "rivals")
	ours := &place{t: t, c: c, kind: autoscalers, namespace: native.namespace}
	c.Deployment(t, native.namespace, app, 6)
	cpu(300, 0).do(native, app)
	native.awaitReplicas(app, 6)
	sizes := native.watchAll(t, deployments, wantedReplicas)
	native.add("theirs", percent(app, 50)) // wants 6
	native.awaitCondition("theirs", "AbleToScale=True/ReadyForNewScale")
	ours.add("first", percent(app, 25))   // wants 12
	ours.add("second", percent(app, 100)) // wants 3
	ours.add("theirs", percent(app, 30))  // wants 10, under the other's name
	mark := c.Mark(t)
	a := startAgent(t, c, native.namespace, service.Start(t), "--source=both")
	// Of both sources this agent would serve the HorizontalPodAutoscaler, too: the
	// native controller does here, and both decide alike.
	for name, rival := range map[string]string{"first": " scales Deployment NAMESPACE/web", "second": " scales Deployment NAMESPACE/web", "theirs": " has its name"} {
		ours.awaitCondition(name, "AbleToScale=False/ConflictingAutoscaler: HorizontalPodAutoscaler NAMESPACE/theirs"+rival)
	}
	(&world{place: ours, agent: a}).awaitRounds(t, 8)
	if n := c.Since(t, mark).Of(a.account.User).Counts()["update deployments/scale"]; n != 0 {
		t.Errorf("%d writes of the scale beside a rival", n)
	}

	c.Kubectl(t, "delete", "hpa", "theirs", "-n", native.namespace)
	c.Kubectl(t, "delete", "autoscalers.autoscaling.setpoint.dev", "theirs", "-n", native.namespace)
	ours.awaitReplicas(app, 12)
	ours.awaitCondition("first", "AbleToScale=True/")
	ours.awaitCondition("second", "AbleToScale=False/ConflictingAutoscaler: Autoscaler NAMESPACE/first, which is older, scales Deployment NAMESPACE/web")
	c.Kubectl(t, "delete", "autoscalers.autoscaling.setpoint.dev", "first", "-n", native.namespace)
	ours.awaitReplicas(app, 3)
	ours.awaitCondition("second", "AbleToScale=True/")
	if got := strings.Join(sizes.all(t, app), " "); got != "6 12 3" {
		t.Errorf("replicas over time: %s", got)
	}
}
