//go:build linux

package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The agent follows users' changes of running autoscalers and workloads as the native
// controller does.
func TestSideBySideWhatPeopleChange(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	play(t, newPair(t, c, service.Start(t)), changingScenes)
}

// patched is a step that changes the autoscaler.
func patched(patch string, replicas int32) step {
	return step{do: func(p *place, name string) { p.patch(name, patch) }, replicas: replicas}
}

// kubectl is a step that changes the workload.
func kubectl(replicas int32, args ...string) step {
	return step{do: func(p *place, name string) {
		args := append([]string{"-n", p.namespace}, args...)
		for i, arg := range args {
			if arg == "NAME" {
				args[i] = "deployment/" + name
			}
		}
		p.c.Kubectl(p.t, args...)
	}, replicas: replicas}
}

// held waits for 5 min before it scales down.
func held(of func(string) autoscalingv2.HorizontalPodAutoscalerSpec) func(string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec, window := of(name), int32(300)
		spec.Behavior.ScaleDown.StabilizationWindowSeconds = &window
		return spec
	}
}

// vanishes has an external metric without series.
func vanishes(replicas int32) step {
	return step{do: func(p *place, name string) { p.c.Metrics.SetExternal(p.namespace, name) }, replicas: replicas}
}

var changingScenes = []scene{
	{name: "another-target", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6),
		{do: func(p *place, name string) {
			p.c.Deployment(p.t, p.namespace, name+"-b", 3)
			p.awaitReplicas(name+"-b", 3)
			p.c.Metrics.SetCPU(p.namespace, name+"-b", 400)
			p.patch(name, `{"spec":{"scaleTargetRef":{"name":"`+name+`-b"}}}`)
			p.awaitReplicas(name+"-b", 8)
		}, replicas: 6},
		patched(`{"spec":{"scaleTargetRef":{"name":"nobody"}}}`, 6).with("AbleToScale=False/FailedGetScale"),
		{do: func(p *place, name string) {
			cpu(100, 0).do(p, name)
			p.patch(name, `{"spec":{"scaleTargetRef":{"name":"`+name+`"}}}`)
		}, replicas: 2},
	}},
	{name: "metric-vanishes-in-window", replicas: 2, spec: held(metric(external(averageValue("10")))), steps: []step{
		queue("85", 9), queue("12", 9).with("AbleToScale=True/ScaleDownStabilized"),
		vanishes(9).with("ScalingActive=False/FailedGetExternalMetric"), queue("12", 9).with("AbleToScale=True/ScaleDownStabilized"),
		vanishes(9).with("ScalingActive=False/FailedGetExternalMetric"), queue("115", 12).with("ScalingActive=True"),
	}},
	{name: "metric-is-another-one", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6),
		{do: func(p *place, name string) {
			queue("85", 0).do(p, name)
			p.patch(name, `{"spec":{"metrics":[{"type":"External","external":{"metric":{"name":"`+name+`","selector":{"matchLabels":{"q":"a"}}},"target":{"type":"AverageValue","averageValue":"10"}}}]}}`)
		}, replicas: 9},
		patched(`{"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":20}}}]}}`, 15),
	}},
	{name: "paused", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6), kubectl(6, "rollout", "pause", "NAME"), kubectl(6, "set", "env", "NAME", "A=b"), cpu(500, 10), cpu(100, 2),
	}},
	{name: "bounds-over-policies", replicas: 2, spec: limited(1, 1, 600), steps: []step{
		cpu(100, 2),
		patched(`{"spec":{"minReplicas":9}}`, 9), patched(`{"spec":{"minReplicas":2,"maxReplicas":4}}`, 4),
		// Replicas added within the window may be removed within it.
		patched(`{"spec":{"maxReplicas":30}}`, 2),
	}},
	{name: "policies-come-and-go", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6),
		{do: func(p *place, name string) {
			p.patch(name, `{"spec":{"behavior":{"scaleUp":{"selectPolicy":"Disabled"}}}}`)
			time.Sleep(readingAge) // a reconcile that had begun has ended
			cpu(600, 0).do(p, name)
		}, replicas: 6, condition: "ScalingLimited=True/ScaleUpLimit"},
		patched(`{"spec":{"behavior":{"scaleUp":{"selectPolicy":"Max"}}}}`, 12),
		{do: func(p *place, name string) {
			p.patch(name, `{"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}}}}`)
			time.Sleep(readingAge) // a reconcile that had begun has ended
			cpu(100, 0).do(p, name)
		}, replicas: 12, condition: "ScalingLimited=True/ScaleDownLimit"},
		// A new window has only what was kept for the previous one.
		patched(`{"spec":{"behavior":null}}`, 2),
	}},
	{name: "made-again", replicas: 2, spec: basic, steps: []step{
		cpu(300, 6),
		{do: func(p *place, name string) {
			must(p.t, p.c.Client().AppsV1().Deployments(p.namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
			p.awaitCondition(name, "AbleToScale=False/FailedGetScale")
			p.c.Deployment(p.t, p.namespace, name, 3)
		}, replicas: 6},
		{do: func(p *place, name string) {
			p.c.Kubectl(p.t, "scale", "deployment", name, "--replicas=0", "-n", p.namespace)
		}, replicas: 0, condition: "ScalingActive=False/ScalingDisabled"},
		kubectl(6, "scale", "NAME", "--replicas=1"),
	}},
	{name: "no-metrics-at-all", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := basic(name)
		spec.Metrics = nil // the default one: cpu at 80 %
		return spec
	}, steps: []step{cpu(480, 6), cpu(160, 2)}},
}

// A spec that is edited all the time makes no steps of its own: without behavior each reconcile
// may double the count, and a reconcile comes with each edit but right after a step. In which
// reconcile a status loses against an edit is chance, with either controller.
func TestSideBySideEditedAllTheTime(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	both := newPair(t, c, service.Start(t))
	edited := scene{name: "edited", replicas: 3, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := bounded(3, 20, metric(object(value("10"))))(name)
		spec.Behavior = nil
		return spec
	}}
	both.prepare([]scene{edited})
	for _, p := range both.places {
		front("10", 3).do(p, edited.name)
		p.add(edited.name, edited.spec(edited.name))
	}
	for i, p := range both.places {
		p.awaitCondition(edited.name, "AbleToScale=True/ReadyForNewScale")
		// Twenty times the target: as much as is allowed is wanted, however many of the pods are ready
		// by then. Twice the target wants 10 if a reconcile finds 5 of 6 ready.
		front("200", 20).do(p, edited.name)
		await(t, "20 replicas under "+p.kind.name, func() string {
			p.patch(edited.name, fmt.Sprintf(`{"spec":{"minReplicas":%d}}`, 2+time.Now().UnixNano()%2))
			if n := p.replicas(edited.name); n != 20 {
				return fmt.Sprint(n)
			}
			return ""
		})
		await(t, "3, 6, 12 and 20 replicas under "+p.kind.name, func() string { // the watch may be behind
			if got := strings.Join(both.sizes[i].all(t, edited.name), " "); got != "3 6 12 20" {
				return got
			}
			return ""
		})
	}
	await(t, "the same status in the end", func() string {
		return difference(both.places[0].settled(edited.name), both.places[1].settled(edited.name))
	})
}
