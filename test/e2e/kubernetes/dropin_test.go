//go:build linux

package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// In place of the native controller, for HorizontalPodAutoscalers: kubectl shows what users
// know.
func TestDropInKubectlShowsWhatTheNativeControllerWouldHaveItShow(t *testing.T) {
	t.Parallel()
	s := service.Start(t)
	native := newPlace(t, kubetest.Shared(t), hpas, "native")
	ours := newPlace(t, kubetest.SharedWithoutNative(t), hpas, "setpoint")
	for _, p := range []*place{native, ours} {
		p.c.Kubelet.Decide(p.namespace, fate)
	}
	startAgent(t, ours.c, ours.namespace, s, "--source=hpa")
	for _, one := range dropIns {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			compareShown(t, native.in(t), ours.in(t), one)
		})
	}
}

var dropIns = []scene{
	{name: "scaled", replicas: 2, spec: severalMetrics, steps: []step{
		{do: func(p *place, name string) {
			cpu(300, 0).do(p, name)
			memory(64<<20)(p, name)
			pods(20_000, 0).do(p, name)
			front("10", 0).do(p, name)
			queue("30", 0).do(p, name)
		}, replicas: 6},
	}},
	{name: "at-the-limit", replicas: 2, spec: bounded(2, 4, basic), steps: []step{cpu(900, 4)}},
	{name: "no-metric", replicas: 2, spec: metric(external(value("10"))), steps: []step{{do: func(*place, string) {}, replicas: 2}}},
	{name: "no-target", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec { return basic("missing") }, steps: []step{cpu(1, 2)}},
	{name: "disabled", replicas: 0, spec: basic, steps: []step{cpu(1, 0)}},
}

// severalMetrics has one of each kind.
func severalMetrics(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := basic(name)
	for _, one := range []autoscalingv2.MetricSpec{
		{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "memory", Target: averageValue("32Mi")}},
		{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "requests"}, Target: averageValue("10")}},
		object(averageValue("5")), external(averageValue("10")),
	} {
		spec.Metrics = append(spec.Metrics, metric(one)(name).Metrics...)
	}
	return spec
}

func compareShown(t *testing.T, native, ours *place, scene scene) {
	for _, p := range []*place{native, ours} {
		p.c.Deployment(t, p.namespace, scene.name, scene.replicas)
		p.awaitReplicas(scene.name, scene.replicas)
		scene.steps[0].do(p, scene.name)
	}
	time.Sleep(readingAge)
	for _, p := range []*place{native, ours} {
		p.add(scene.name, scene.spec(scene.name))
	}
	for _, p := range []*place{native, ours} {
		await(t, "under "+p.c.URL(), func() string { return p.not(scene, scene.steps[0]) })
	}
	for _, command := range [][]string{{"get", "hpa", scene.name}, {"describe", "hpa", scene.name}} {
		await(t, strings.Join(command, " "), func() string {
			was, is := native.shown(command...), ours.shown(command...)
			if strings.Contains(strings.Join(was, " "), "SucceededRescale") || strings.Contains(strings.Join(was, " "), "<unknown>/<unknown>") {
				return "not settled"
			}
			return difference(was, is)
		})
		t.Logf("kubectl %s:\n%s", strings.Join(command, " "), ours.c.Kubectl(t, append(command, "-n", ours.namespace)...))
	}
}

var (
	times  = regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`)
	ages   = regexp.MustCompile(`\s+(\d+[smh])+( \(x\d+ over (\d+[smh])+\))?`)
	spaces = regexp.MustCompile(` {2,}|\t`)
	dashes = regexp.MustCompile(`-{3,}`)
)

// shown is kubectl's output, without times, counts and senders of events, and widths of
// columns. Events are sorted.
func (p *place) shown(args ...string) []string {
	p.t.Helper()
	output := p.neutral(p.c.Kubectl(p.t, append(args, "-n", p.namespace)...))
	output = times.ReplaceAllString(output, "TIME")
	output = strings.NewReplacer("horizontal-pod-autoscaler", "CONTROLLER", "setpoint-agent", "CONTROLLER").Replace(output)
	var lines, events []string
	inEvents := false
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(dashes.ReplaceAllString(spaces.ReplaceAllString(ages.ReplaceAllString(line, "  AGE"), " | "), "---"))
		inEvents = inEvents || strings.HasPrefix(line, "Events:")
		if inEvents {
			events = append(events, line)
		} else {
			lines = append(lines, line)
		}
	}
	slices.Sort(events)
	return append(lines, events...)
}

// TestDropInTakesOverFromTheNativeControllerAndBack hands objects from the native controller to
// the agent and back: nothing is scaled because of that, and no condition flips.
func TestDropInTakesOverFromTheNativeControllerAndBack(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t, kubetest.Config{Native: true})
	p := newPlace(t, c, hpas, "handover")
	s := service.Start(t)
	const name = "web"
	c.Deployment(t, p.namespace, name, 2)
	cpu(300, 6).do(p, name)
	sizes := p.watchAll(t, deployments, wantedReplicas)
	p.add(name, basic(name))
	p.awaitReplicas(name, 6)
	p.awaitCondition(name, "AbleToScale=True/ReadyForNewScale")
	settled := p.settled(name)

	c.StopControllers()
	must(t, c.StartControllers(kubetest.Config{}))
	a := startAgent(t, c, p.namespace, s, "--source=hpa")
	reconciles := func(least float64) {
		await(t, fmt.Sprintf("%v reconciles of the agent", least), func() string {
			if n := a.Metric("setpoint_agent_reconciles_total"); n < least {
				return fmt.Sprint(n)
			}
			return ""
		})
	}
	reconciles(3)
	if d := difference(settled, p.settled(name)); d != "" {
		t.Errorf("the status after the agent took over: %s", d)
	}
	cpu(500, 10).do(p, name)
	p.awaitReplicas(name, 10)
	p.awaitCondition(name, "AbleToScale=True/ReadyForNewScale")
	settled = p.settled(name)

	a.Stop()
	c.StopControllers()
	must(t, c.StartControllers(kubetest.Config{Native: true}))
	mark := c.Mark(t)
	await(t, "three reconciles of the native controller", func() string {
		if n := c.Since(t, mark).Of(kubetest.NativeUser).Counts()["list pods"]; n < 3 {
			return fmt.Sprint(n)
		}
		return ""
	})
	if d := difference(settled, p.settled(name)); d != "" {
		t.Errorf("the status after the native controller took over: %s", d)
	}
	if got := strings.Join(sizes.all(t, name), " "); got != "2 6 10" {
		t.Errorf("replicas over time: %s", got)
	}
}
