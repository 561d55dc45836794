//go:build linux

package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
	"github.com/setpoint-dev/setpoint/test/e2e/ui"
)

// onPage is a workload of the page's test, with its autoscaler.
type onPage struct {
	name     string
	replicas int32
	spec     func(name string) autoscalingv2.HorizontalPodAutoscalerSpec
	// load sets its metrics at the start, and then those that make it what it is; nil: it stays.
	load, then func(p *place, name string)
	fields     []string // of an Autoscaler
	has        string   // its state; "": any
}

func together(all ...step) func(p *place, name string) {
	return func(p *place, name string) {
		for _, s := range all {
			s.do(p, name)
		}
	}
}

// slowly scales by CPU: up and down by so many pods in so many seconds, down after a window.
func slowly(up, down, period, window int32) func(string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := limited(up, down, period)(name)
		spec.Behavior.ScaleDown.StabilizationWindowSeconds = &window
		return spec
	}
}

var (
	resourceMemory = metric(autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceMemory, Target: averageValue("32Mi")},
	})
	containerCPU = metric(autoscalingv2.MetricSpec{
		Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: "main", Target: utilization(50)},
	})
	cpuAndQueue = func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := basic(name)
		spec.Metrics = append(spec.Metrics, metric(external(averageValue("10")))(name).Metrics...)
		return spec
	}
)

// asHPAs are those of HorizontalPodAutoscalers, asOurs those of Autoscalers.
var (
	asHPAs = []onPage{
		{name: "cpu", replicas: 4, spec: basic, load: cpu(200, 0).do, has: "Steady"},
		{name: "tolerated", replicas: 4, spec: basic, load: cpu(215, 0).do, has: "Steady"},
		{name: "memory", replicas: 2, spec: resourceMemory, load: memory(64 << 20), has: "Steady"},
		{name: "container", replicas: 2, spec: containerCPU, load: cpu(100, 0).do, has: "Steady"},
		{name: "requests", replicas: 2, spec: metric(podsMetric), load: pods(20_000, 0).do, has: "Steady"},
		{name: "front-value", replicas: 3, spec: bounded(3, 6, metric(object(value("10")))), load: front("10", 0).do, has: "Steady"},
		{name: "front-average", replicas: 2, spec: metric(object(averageValue("10"))), load: front("20", 0).do, has: "Steady"},
		{name: "queue-value", replicas: 3, spec: bounded(3, 6, metric(external(value("1500")))), load: queue("1500", 0).do, has: "Steady"},
		{name: "queue-average", replicas: 3, spec: metric(external(averageValue("1250k"))), load: queue("3700k", 0).do, has: "Steady"},
		{name: "fraction", replicas: 3, spec: metric(external(averageValue("250m"))), load: queue("740m", 0).do, has: "Steady"},
		{name: "two", replicas: 4, spec: cpuAndQueue, load: together(cpu(200, 0), queue("30", 0)), has: "Steady"},
		{name: "rises", replicas: 2, spec: basic, load: cpu(100, 0).do, then: cpu(350, 0).do},
		{name: "falls", replicas: 6, spec: basic, load: cpu(300, 0).do, then: cpu(100, 0).do},
		{name: "at-maximum", replicas: 2, spec: bounded(1, 4, basic), load: cpu(100, 0).do, then: cpu(900, 0).do, has: "At max"},
		{name: "at-minimum", replicas: 4, spec: bounded(3, 6, basic), load: cpu(200, 0).do, then: cpu(20, 0).do, has: "At min"},
		{name: "at-zero-load", replicas: 2, spec: basic, load: cpu(100, 0).do, then: cpu(0, 0).do, has: "At min"},
		{name: "unmeasured", replicas: 2, spec: basic, has: "Failing"},
		{name: "one-of-two", replicas: 4, spec: cpuAndQueue, load: cpu(300, 0).do, has: "Failing"},
		{name: "no-container", replicas: 2, spec: metric(autoscalingv2.MetricSpec{
			Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceCPU, Container: "sidecar", Target: utilization(50)},
		}), load: cpu(300, 0).do, has: "Failing"},
		{name: unready, replicas: 2, spec: basic, load: cpu(300, 0).do, has: "Failing"},
		{name: "no-target", replicas: 1, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
			return kubetest.CPU(name+"-is-not-there", 50, 1, 20)
		}, has: "No scale"},
		{name: "no-kind", replicas: 1, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
			spec := basic(name)
			spec.ScaleTargetRef.Kind = "Deploiment"
			return spec
		}, has: "No scale"},
		{name: "disabled", replicas: 0, spec: basic, load: cpu(300, 0).do, has: "Disabled"},
		{name: "held-by-window", replicas: 6, spec: slowly(20, 20, 5, 300), load: cpu(300, 0).do, then: cpu(150, 0).do, has: "Held"},
		{name: "released", replicas: 6, spec: slowly(20, 20, 5, 45), load: cpu(300, 0).do, then: cpu(150, 0).do},
		{name: "ramps", replicas: 2, spec: slowly(1, 1, 15, 0), load: cpu(100, 0).do, then: cpu(900, 0).do, has: "Limited"},
		{name: "descends", replicas: 12, spec: slowly(1, 1, 15, 0), load: cpu(600, 0).do, then: cpu(150, 0).do, has: "Limited"},
		{name: "stored", replicas: 4, spec: basic, load: cpu(200, 0).do},
		{name: "flaps", replicas: 2, spec: basic, load: cpu(100, 0).do, has: "Flapping"},
	}
	asOurs = []onPage{
		{name: "own", replicas: 2, spec: basic, load: cpu(100, 0).do, has: "Steady"},
		{name: "pinned", replicas: 2, spec: basic, load: cpu(100, 0).do, has: "Overridden"},
		{name: "held", replicas: 2, spec: slowly(20, 20, 5, 0), load: cpu(100, 0).do, then: cpu(300, 0).do, has: "Overridden"},
		{name: "floor", replicas: 2, spec: basic, load: cpu(100, 0).do, has: "Overridden"},
		{name: "scheduled", replicas: 2, spec: basic, load: cpu(100, 0).do, fields: []string{`stages={"schedules": [{"name": "office", "timeZone": "Europe/Berlin", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 3}, {"name": "now", "timeZone": "UTC", "at": "BEGAN", "duration": "3600s", "minReplicas": 5}]}`}},
		{name: "zero", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
			spec := byQueue(1, 20, 0)(name)
			spec.MinReplicas = new(int32(0))
			return spec
		}, load: queue("20", 0).do, then: queue("0", 0).do, fields: []string{`options={"scaleToZero": true}`}},
		{name: "guarded", replicas: 4, spec: byQueue(1, 20, 0), load: queue("40", 0).do, then: queue("0", 0).do, fields: []string{`stages={"zeroGuards": [{"metric": "External:guarded", "confirm": "600s"}]}`}},
		{name: "reversals", replicas: 2, spec: basic, load: cpu(100, 0).do, fields: []string{`stages={"windowThroughFailures": true}`}, has: "Steady"},
		{name: "legacy", replicas: 2, spec: basic, load: cpu(100, 0).do, then: cpu(400, 0).do, fields: []string{`options={"tolerance": "0.2"}`}},
	}
)

// asComing are those whose load changes right before the page is read: their changes come in steps of ten seconds, or after a
// window, so that some come while the test looks.
var asComing = []onPage{
	{name: "comes-up", replicas: 2, spec: steps(1, 2, 10, 0), load: queue("20", 0).do, then: queue("120", 0).do},
	{name: "comes-down", replicas: 12, spec: steps(2, 1, 10, 5), load: queue("120", 0).do, then: queue("30", 0).do},
	{name: "comes-free", replicas: 8, spec: steps(4, 20, 5, 40), load: queue("80", 0).do, then: queue("30", 0).do},
}

// steps scales by a queue as slowly does by CPU: what it asks for does not depend on pods that start.
func steps(up, down, period, window int32) func(string) autoscalingv2.HorizontalPodAutoscalerSpec {
	return func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec := slowly(up, down, period, window)(name)
		spec.Metrics = metric(external(averageValue("10")))(name).Metrics
		return spec
	}
}

// The page shows what the service knows of an API server's objects in all states, as agents have them decided about: each number
// is the service's at that instant, and what it says will come does.
func TestThePageShowsWhatAgentsHaveDecided(t *testing.T) {
	t.Parallel()
	ui.Require(t)
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	s := service.Start(t, "--ui-links=Grafana=https://grafana.example/d/hpa?var-target={target}")
	has := make(map[string]string)
	hpa, own := newPlace(t, c, hpas, "page-hpa"), newPlace(t, c, autoscalers, "page-own")
	put := func(p *place, w onPage) {
		c.Deployment(t, p.namespace, w.name, w.replicas)
		if w.load != nil {
			w.load(p, w.name)
		}
	}
	add := func(p *place, w onPage, name string) {
		var fields []string
		for _, field := range w.fields {
			fields = append(fields, strings.Replace(field, "BEGAN", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), 1))
		}
		p.add(w.name, w.spec(w.name), fields...)
		has[name] = w.has
	}
	c.Kubelet.Decide(hpa.namespace, fate)
	lone := onPage{name: "lone", replicas: 2, spec: basic, load: cpu(100, 0).do}
	gone, watched := newPlace(t, c, hpas, "page-gone"), newPlace(t, c, hpas, "page-shadow")
	for _, p := range []*place{gone, watched} {
		put(p, lone)
	}
	queued := onPage{name: app, replicas: 2, spec: byQueue(1, 20, 0), load: queue("20", 0).do}
	east, west := newPlace(t, c, autoscalers, "page-east"), newPlace(t, c, hpas, "page-west")
	put(east, queued)
	put(west, queued)
	all := map[*place][]onPage{hpa: slices.Concat(asHPAs, asComing), own: asOurs}
	for p, those := range all {
		for _, w := range those {
			put(p, w)
		}
	}
	for p, those := range all {
		for _, w := range those {
			if w.name != unready {
				p.awaitReplicas(w.name, w.replicas)
			}
			add(p, w, w.name)
		}
	}
	const fleet = "clusters/all/namespaces/page/targets/" + app
	member := func(cluster string, p *place) *setpointv1.FleetMember {
		return &setpointv1.FleetMember{Target: "clusters/" + cluster + "/namespaces/" + p.namespace + "/targets/" + app}
	}
	store := func(name string, spec *setpointv1.TargetSpec) {
		t.Helper()
		_, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: spec})
		must(t, err)
	}
	store(fleet, &setpointv1.TargetSpec{
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(2)), MaxReplicas: 20, Metrics: []*setpointv1.MetricSpec{{
			Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: app, Selector: &setpointv1.LabelSelector{MatchLabels: map[string]string{"q": "a"}}},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			},
		}}},
		Period: durationpb.New(time.Second),
		Fleet:  &setpointv1.FleetSpec{Members: []*setpointv1.FleetMember{member("east", east), member("west", west)}, Scopes: map[string]string{"External:" + app: "PER_MEMBER"}},
	})
	east.add(app, queued.spec(app), `fleet="`+fleet+`"`)
	west.add(app, queued.spec(app))
	c.Kubectl(t, "annotate", "hpa", app, "-n", west.namespace, "setpoint.dev/fleet="+fleet)
	for _, p := range []*place{gone, watched} {
		p.add(lone.name, lone.spec(lone.name))
	}
	target := func(p *place, name string) string {
		return "clusters/test/namespaces/" + p.namespace + "/targets/" + name
	}
	store(target(hpa, "stored"), &setpointv1.TargetSpec{Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 7}})

	const often = "--sync-period=1s"
	stopped := startAgent(t, c, gone.namespace, s, "--source=hpa", often)
	startAgent(t, c, watched.namespace, s, "--source=hpa", "--shadow", often)
	startAgent(t, c, hpa.namespace, s, "--source=hpa", often)
	startAgent(t, c, own.namespace, s, "--source=autoscaler", often)
	startAgent(t, c, east.namespace, s, "--source=autoscaler", "--cluster=east", often)
	startAgent(t, c, west.namespace, s, "--source=hpa", "--cluster=west", often)
	decided := func(name string) func() string {
		return func() string {
			got, err := s.Targets().GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: name})
			if err != nil {
				return err.Error()
			}
			if got.GetTarget().GetInterval() == nil {
				return "its interval is not known"
			}
			return ""
		}
	}
	await(t, "what will be asked for no more", decided(target(gone, lone.name)))
	stopped.stop()
	has[lone.name], has[lone.name+".-shadow"] = "Not asked", ""
	for p, those := range all {
		for _, w := range those {
			await(t, w.name, decided(target(p, w.name)))
		}
	}
	overrides := setpointv1.NewOverrideServiceClient(s.Conn())
	for name, o := range map[string]*setpointv1.Override{"pinned": {Pin: new(int32(5))}, "held": {Hold: true}, "floor": {Floor: new(int32(4))}} {
		o.Reason, o.ExpireTime = "a test of the page", timestamppb.New(time.Now().Add(time.Hour))
		_, err := overrides.CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: target(own, name), OverrideId: name, Override: o})
		must(t, err)
	}
	own.awaitReplicas("pinned", 5)
	own.awaitReplicas("floor", 4)
	for n := range 5 { // rises and falls
		cpu([]int64{300, 100}[n%2], 0).do(hpa, "flaps")
		hpa.awaitReplicas("flaps", []int32{6, 2}[n%2])
	}
	comes := make(map[string]func())
	for p, those := range all {
		for _, w := range those {
			switch name := target(p, w.name); {
			case w.then == nil:
			case strings.HasPrefix(w.name, "comes-"):
				comes[name] = func() { w.then(p, w.name) }
			default:
				w.then(p, w.name)
			}
		}
	}
	hpa.awaitCondition("descends", "ScalingLimited=True/ScaleDownLimit")
	hpa.awaitCondition("held-by-window", "AbleToScale=True/ScaleDownStabilized")
	// A dry run is nowhere, and what has just begun is there.
	ctx := t.Context()
	_, err := s.Recommendations().Recommend(ctx, &setpointv1.RecommendRequest{
		Target: target(hpa, "dry"), DryRun: true, Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 3}, Scale: &setpointv1.Scale{SpecReplicas: 1},
	})
	must(t, err)
	has["dry"] = ui.Absent
	c.Deployment(t, hpa.namespace, "begins", 1)
	cpu(50, 0).do(hpa, "begins")
	hpa.add("begins", basic("begins"))
	has["begins"] = ""
	ui.Compare(t, ui.Live{Instance: s, Has: has, Fleets: []string{fleet}, Comes: comes, Picture: "kubernetes"})
}
