//go:build linux

package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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
	w.agent.Kill()
	s.Kill()
	s.Restart()
	w.agent.Start()
	w.agent.AwaitReady()
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

	w.agent.Stop()
	typed.override(t, "create", namespace+"/targets/"+app, "--pin=7", "--for=5s", "--reason=a load test", "--id=late")
	await(t, "the end of the override", func() string {
		if strings.Contains(typed.override(t, "list", namespace+"/targets/"+app), "late") {
			return "it is there"
		}
		return ""
	})
	w.agent.Start()
	w.agent.AwaitReady()
	w.awaitReconciles(t, 4)
	w.went(t, "2", "4", "6", "8", "9", "2")
	t.Logf("held at %d", held)
}

// An outage of the metric that is longer than the window, and ends in zeros: the native controller obeys the
// zeros, and so do we without stages; with windowThroughFailures or a zero guard nothing is lost.
func TestAnOutageThatEndsInZeros(t *testing.T) {
	t.Parallel()
	const window = 15 * time.Second
	c := withAutoscalers(t, kubetest.Shared(t))
	native, ours := newPlace(t, c, hpas, "zeros"), newPlace(t, c, autoscalers, "zeros")
	workloads := []struct {
		p            *place
		name, stages string
	}{
		{native, "plain", ""},
		{ours, "plain", ""},
		{ours, "window", `stages={"windowThroughFailures":true}`},
		{ours, "guard", `stages={"zeroGuards":[{"metric":"External:guard","confirm":"600s"}]}`},
	}
	all := func(do func(p *place, name string)) {
		t.Helper()
		for _, w := range workloads {
			do(w.p, w.name)
		}
	}
	sizes := ours.watchAll(t, deployments, wantedReplicas)
	for _, w := range workloads {
		c.Deployment(t, w.p.namespace, w.name, 8)
		queue("80", 8).do(w.p, w.name)
	}
	all(func(p *place, name string) { p.awaitReplicas(name, 8) })
	startAgent(t, c, ours.namespace, service.Start(t), "--source=autoscaler")
	for _, w := range workloads {
		var fields []string
		if w.stages != "" {
			fields = append(fields, w.stages)
		}
		w.p.add(w.name, byQueue(1, 20, window)(w.name), fields...)
	}
	all(func(p *place, name string) { p.awaitCondition(name, "ScalingActive=True") })
	for _, p := range []*place{native, ours} {
		fails(kubetest.ExternalMetrics, 503, 8, "").do(p, "")
	}
	all(func(p *place, name string) { p.awaitCondition(name, "ScalingActive=False/FailedGetExternalMetric") })
	time.Sleep(window) // nothing in a window is young enough after that
	all(func(p *place, name string) { queue("0", 1).do(p, name) })
	ended := time.Now()
	for _, p := range []*place{native, ours} {
		fails(kubetest.ExternalMetrics, 0, 8, "").do(p, "")
	}
	native.awaitReplicas("plain", 1)
	ours.awaitReplicas("plain", 1)
	ours.awaitCondition("guard", "MetricSuspect=True")
	ours.tells("guard", "External:guard fell from 80 to 0 at ")
	all(func(p *place, name string) { queue("80", 8).do(p, name) })
	zeros := time.Since(ended)
	native.awaitReplicas("plain", 8)
	ours.awaitReplicas("plain", 8)
	ours.awaitCondition("guard", "MetricSuspect=False")
	for _, name := range []string{"window", "guard"} {
		if went := sizes.all(t, name); len(went) != 1 && (name == "guard" || zeros < window) {
			t.Errorf("%s went %v in %s of zeros", name, went, zeros)
		}
	}
	t.Logf("%s of zeros: the native controller and the plain Autoscaler fell to 1, those with stages stayed", zeros.Round(100*time.Millisecond))
}

// floor is a minimum from an instant on.
type floor struct {
	at    time.Time
	least int32
}

// A schedule moves the floor of an Autoscaler, with a ramp, while the native HPA beside it follows a minReplicas
// that is edited at the same instants: the same counts, in the same order, and the same status.
func TestAScheduleIsAnEditedMinimum(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	s := service.Start(t)
	var d string
	for n := range attempts { // with little processor time a controller may pass a step over
		if d = schedule(t, c, s); d == "" {
			return
		}
		t.Logf("attempt %d: %s", n+1, d)
	}
	t.Error(d)
}

func schedule(t *testing.T, c *kubetest.Cluster, s *service.Instance) (differs string) {
	native, ours := newPlace(t, c, hpas, "native"), newPlace(t, c, autoscalers, "schedule")
	both := []*place{native, ours}
	var sizes [2]*history
	var seen [2]*instants
	for i, p := range both {
		c.Deployment(t, p.namespace, app, 4)
		queue("20", 2).do(p, app)
		sizes[i], seen[i] = p.watchAll(t, deployments, wantedReplicas), new(instants)
		p.watchAll(t, deployments, seen[i].note)
	}
	for _, p := range both {
		p.awaitReplicas(app, 4)
	}
	startAgent(t, c, ours.namespace, s, "--source=autoscaler", "--sync-period=1s")

	// The night is a minimum of 4 until it ends; a ramp of 3 steps leads to the day's 5.
	const step = 6 * time.Second
	ends := time.Now().Add(15 * time.Second).Truncate(time.Second) // as times of the API are
	starts := ends.Add(5 * step)
	floors := []floor{{time.Now(), 4}, {ends, 2}, {starts.Add(-3 * step), 3}, {starts.Add(-2 * step), 4}, {starts.Add(-step), 5}}
	spec := byQueue(2, 20, 0)(app)
	ours.add(app, spec, fmt.Sprintf(`stages={"schedules": [
		{"name": "night", "timeZone": "America/New_York", "at": %q, "duration": "60s", "minReplicas": 4},
		{"name": "day", "timeZone": "America/New_York", "at": %q, "duration": "3600s", "minReplicas": 5, "rampUp": "%ds"}]}`,
		ends.Add(-time.Minute).Format(time.RFC3339Nano), starts.Format(time.RFC3339Nano), 3*step/time.Second))
	spec.MinReplicas = &floors[0].least
	native.add(app, spec)
	for _, f := range floors[1:] {
		time.Sleep(time.Until(f.at))
		patch := fmt.Sprintf(`{"spec":{"minReplicas":%d}}`, f.least)
		_, err := c.Client().AutoscalingV2().HorizontalPodAutoscalers(native.namespace).Patch(context.Background(), app, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
	}
	for _, p := range both {
		p.awaitReplicas(app, 5)
		p.awaitCondition(app, "ScalingLimited=True/TooFewReplicas")
	}
	ours.tells(app, `Adjusted: schedule "night" raises minReplicas from 2 to 4`)
	if early := seen[1].early(floors); early != "" {
		t.Error(early)
	}
	want := []string{"4", "2", "3", "4", "5"}
	if d := difference(sizes[0].all(t, app), sizes[1].all(t, app)); d != "" {
		return "replicas over time " + d
	}
	if d := difference(want, sizes[1].all(t, app)); d != "" {
		return "replicas over time, beside the schedule's, " + d
	}
	t.Logf("after their instants: native %s, ours %s", seen[0].after(floors), seen[1].after(floors))
	return awaitNone(within, func() string { return difference(native.settled(app), ours.settled(app)) })
}

// instants are when the counts of a Deployment were seen first.
type instants struct {
	mu  sync.Mutex
	all []floor
}

func (i *instants) note(object *unstructured.Unstructured) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if n := len(i.all); n == 0 || i.all[n-1].least != int32(replicas) {
		i.all = append(i.all, floor{time.Now(), int32(replicas)})
	}
	return ""
}

func (i *instants) early(floors []floor) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, seen := range i.all {
		if n < len(floors) && n > 0 && seen.at.Before(floors[n].at) {
			return fmt.Sprintf("%d replicas %s before the schedule has them", seen.least, floors[n].at.Sub(seen.at))
		}
	}
	return ""
}

func (i *instants) after(floors []floor) (late []time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := 1; n < min(len(i.all), len(floors)); n++ {
		late = append(late, i.all[n].at.Sub(floors[n].at).Round(10*time.Millisecond))
	}
	return late
}

// What is wrong with stages holds the workload, in the agent's words where it is the shape, else in the service's, until it
// is mended. Of an Autoscaler the API server refuses the shape.
func TestStagesThatAreWrong(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	p := newPlace(t, c, hpas, "wrong")
	own := &place{t: t, c: c, kind: autoscalers, namespace: p.namespace}
	const scheduled = `{"schedules": [{"name": "night", "timeZone": %q, "cron": %q, "duration": "60s", "minReplicas": 9}]}`
	wrong := []struct{ name, stages, says string }{
		{"unknown", `{"windowTroughFailures": true}`, "AbleToScale=False/InvalidObject: annotation setpoint.dev/stages: windowTroughFailures: there is no such key; did you mean windowThroughFailures?"},
		{"zone", fmt.Sprintf(scheduled, "Mars/Olympus", "0 8 * * *"), "AbleToScale=False/RecommendationRefused: the recommender refused to decide: stages.schedules[0].timeZone: "},
		{"never", fmt.Sprintf(scheduled, "UTC", "0 0 30 2 *"), "AbleToScale=False/RecommendationRefused: the recommender refused to decide: stages.schedules[0].cron: "},
		{"own", fmt.Sprintf(scheduled, "UTC", "0 0 30 2 *"), "AbleToScale=False/RecommendationRefused: the recommender refused to decide: stages.schedules[0].cron: "},
	}
	of := map[string]*place{"unknown": p, "zone": p, "never": p, "own": own}
	for _, w := range wrong {
		c.Deployment(t, p.namespace, w.name, 2)
		queue("50", 5).do(p, w.name)
	}
	startAgent(t, c, p.namespace, service.Start(t), "--source=both", "--sync-period=1s")
	for _, w := range wrong {
		p.awaitReplicas(w.name, 2)
		if w.name == "own" {
			own.add(w.name, byQueue(1, 20, 0)(w.name), "stages="+w.stages)
			continue
		}
		spec := byQueue(1, 20, 0)(w.name)
		_, err := c.Client().AutoscalingV2().HorizontalPodAutoscalers(p.namespace).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: w.name, Annotations: map[string]string{"setpoint.dev/stages": w.stages}}, Spec: spec,
		}, metav1.CreateOptions{})
		must(t, err)
	}
	for _, w := range wrong {
		of[w.name].awaitCondition(w.name, w.says)
		t.Log(of[w.name].condition(w.name, "AbleToScale"))
		if got := p.replicas(w.name); got != 2 {
			t.Errorf("%s: %d replicas", w.name, got)
		}
	}
	manifest := fmt.Sprintf(`{"apiVersion": "autoscaling.setpoint.dev/v1", "kind": "Autoscaler", "metadata": {"name": "own", "namespace": %q},
		"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "own"}, "maxReplicas": 20, "stages": {"windowTroughFailures": true}}}`, p.namespace)
	if _, err := c.TryKubectl(manifest, "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), `unknown field "spec.stages.windowTroughFailures"`) {
		t.Errorf("the API server says %v", err)
	}
	p.annotate("unknown", `{"windowThroughFailures": true}`)
	p.annotate("zone", fmt.Sprintf(`{"schedules": [{"name": "night", "timeZone": "Europe/Berlin", "at": %q, "duration": "3600s", "minReplicas": 9}]}`, time.Now().UTC().Format(time.RFC3339)))
	p.annotate("never", "{}")
	own.patch("own", `{"spec":{"stages":null}}`)
	p.awaitReplicas("unknown", 5)
	p.awaitReplicas("zone", 9)
	p.awaitReplicas("never", 5)
	p.awaitReplicas("own", 5)
	p.tells("zone", `Normal Adjusted: schedule "night" raises minReplicas from 1 to 9`)
}
