//go:build linux

package kubernetes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// byQueue scales by a pod for each ten in the queue of the workload's name: up by so many pods in five seconds, down at once
// after a window.
func byQueue(least, up int32, window time.Duration) func(string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := bounded(least, 20, metric(external(averageValue("10"))))(name)
		none, held := int32(0), int32(window/time.Second)
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &none, Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: up, PeriodSeconds: 5}}},
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &held},
		}
		return spec
	}
}

// plugin is kubectl with the program as its plugin, as somebody types it for a service.
type plugin struct {
	c      *kubetest.Cluster
	s      *service.Instance
	folder string
}

func newPlugin(t *testing.T, c *kubetest.Cluster, s *service.Instance) *plugin {
	t.Helper()
	program, err := service.Kubernetes()
	must(t, err)
	p := &plugin{c: c, s: s, folder: t.TempDir()}
	must(t, os.Symlink(program, filepath.Join(p.folder, "kubectl-setpoint")))
	return p
}

// override types kubectl setpoint override.
func (p *plugin) override(t *testing.T, args ...string) string {
	t.Helper()
	return p.command(t, append([]string{"override"}, args...)...)
}

// command types kubectl setpoint.
func (p *plugin) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := p.c.KubectlCommand(append([]string{"setpoint"}, args...)...)
	cmd.Env = append(os.Environ(), "SETPOINT_SERVER="+p.s.GRPCAddr(), "PATH="+p.folder+":"+os.Getenv("PATH"))
	var output, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl setpoint %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return output.String()
}

// annotate sets the stages of a HorizontalPodAutoscaler.
func (p *place) annotate(name, stages string) {
	p.t.Helper()
	p.c.Kubectl(p.t, "annotate", "hpa", name, "-n", p.namespace, "--overwrite", "setpoint.dev/stages="+stages)
}

// tells waits for an event or a condition of an autoscaler with a text.
func (p *place) tells(name, text string) {
	p.t.Helper()
	await(p.t, name+" tells "+text, func() string {
		told := p.events(name)
		for _, condition := range p.status(name).Conditions {
			told = append(told, p.words(condition))
		}
		if !slices.ContainsFunc(told, func(one string) bool { return strings.Contains(one, text) }) {
			return strings.Join(told, "\n")
		}
		return ""
	})
}

// An override that somebody types holds a ramp of an HPA, also over a restart of the agent and of the
// service. Then the ramp goes on in its steps, and the window is as it would be: it knows what was recommended
// below the hold, and it passes below a hold. One that ended while no agent was there does nothing.
func TestAnOverrideHoldsARamp(t *testing.T) {
	t.Parallel()
	s := service.Start(t, "--redis", redistest.Start(t, persistent).URL())
	c := kubetest.SharedWithoutNative(t)
	p := newPlace(t, c, hpas, "override")
	typed := newPlugin(t, c, s)
	namespace := "clusters/test/namespaces/" + p.namespace
	c.Deployment(t, p.namespace, app, 2)
	queue("20", 2).do(p, app)
	p.awaitReplicas(app, 2)
	w := &world{place: p, sizes: p.watchAll(t, deployments, wantedReplicas)}
	courses := p.watchAll(t, hpas.resource, p.course)
	p.add(app, byQueue(1, 2, 20*time.Second)(app))
	w.agent = startAgent(t, c, p.namespace, s, "--source=hpa", "--sync-period=1s")
	p.awaitCondition(app, "ScalingActive=True")

	queue("90", 9).do(p, app)
	await(t, "the first step", func() string {
		if got := p.replicas(app); got == 2 {
			return "there are two"
		}
		return ""
	})
	typed.override(t, "create", namespace+"/targets/"+app, "--hold", "--for=30m", "--reason=a migration", "--id=freeze")
	p.awaitCondition(app, "Overridden=True/Held")
	held := p.replicas(app)
	if held >= 9 {
		t.Fatal("the ramp was over before it was held")
	}
	p.tells(app, fmt.Sprintf("Normal Adjusted: held at %d by somebody until ", held))
	w.agent.kill()
	s.Kill()
	s.Restart()
	w.agent.start()
	w.agent.awaitReady()
	w.awaitReconciles(t, 6)
	if said := p.condition(app, "Overridden"); p.replicas(app) != held || !strings.Contains(said, `: "a migration" (override freeze of the target)`) {
		t.Fatalf("%d replicas, held at %d: %s", p.replicas(app), held, said)
	}
	if list := typed.override(t, "list", namespace+"/targets/"+app); !regexp.MustCompile(`/overrides/freeze +hold +\S+Z +\d+s +\S+Z `).MatchString(list) {
		t.Errorf("the list has no override in force:\n%s", list)
	}
	// The load falls right before the end: the window keeps the count by what was recommended below the hold.
	queue("20", 2).do(p, app)
	await(t, "the fall is known", func() string {
		if said := p.condition(app, "Overridden"); !strings.HasSuffix(said, "; as is the recommendation") {
			return said
		}
		return ""
	})
	typed.override(t, "delete", namespace+"/targets/"+app+"/overrides/freeze")
	w.awaitReconciles(t, 3)
	if got := p.replicas(app); got != held {
		t.Errorf("%d replicas right after the end, want still %d", got, held)
	}
	queue("90", 9).do(p, app)
	p.awaitReplicas(app, 9)
	w.went(t, "2", "4", "6", "8", "9")

	typed.override(t, "create", namespace, "--no-scale-down", "--for=30m", "--reason=a sale", "--id=sale")
	queue("20", 2).do(p, app)
	p.awaitCondition(app, "Overridden=True/NoScaleDown")
	if got := p.replicas(app); got != 9 {
		t.Errorf("%d replicas, though it may not scale down", got)
	}
	before := len(courses.all(t, app))
	typed.override(t, "delete", namespace+"/overrides/sale")
	p.awaitReplicas(app, 2)
	for _, course := range courses.all(t, app)[before:] {
		if strings.Contains(course, "ScaleDownStabilized") && !strings.Contains(course, "Overridden=True") {
			t.Errorf("the window began anew with the end of the override: %s", course)
		}
	}

	w.agent.stop()
	typed.override(t, "create", namespace+"/targets/"+app, "--pin=7", "--for=5s", "--reason=a load test", "--id=late")
	await(t, "the end of the override", func() string {
		if strings.Contains(typed.override(t, "list", namespace+"/targets/"+app), "late") {
			return "it is there"
		}
		return ""
	})
	w.agent.start()
	w.agent.awaitReady()
	w.awaitReconciles(t, 4)
	w.went(t, "2", "4", "6", "8", "9", "2")
	t.Logf("held at %d", held)
}

// Of an Autoscaler's stages the API server refuses a key that there is not.
func TestTheAPIServerKnowsStages(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	manifest := fmt.Sprintf(`{"apiVersion": "autoscaling.setpoint.dev/v1", "kind": "Autoscaler", "metadata": {"name": "own", "namespace": %q},
		"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "own"}, "maxReplicas": 20, "stages": {"windowTroughFailures": true}}}`, c.Namespace(t, "wrong"))
	if _, err := c.TryKubectl(manifest, "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), `unknown field "spec.stages.windowTroughFailures"`) {
		t.Errorf("the API server says %v", err)
	}
}
