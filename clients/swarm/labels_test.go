package swarm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

func labelsOf(pairs ...string) map[string]string {
	out := map[string]string{swarm.EnableLabel: "true"}
	for _, pair := range pairs {
		label, value, _ := strings.Cut(pair, "=")
		out[label] = value
	}
	return out
}

func TestLabelsSayWhatAServiceWants(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   string // the spec, but for its target
	}{
		{"without a metric it is cpu at 80 % as with the HorizontalPodAutoscaler", labelsOf("setpoint.max=5"),
			`{"minReplicas": 1, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}`},
		{"cpu and memory are percent, with or without the sign", labelsOf("setpoint.min=2", "setpoint.max=5", "setpoint.cpu=60", "setpoint.memory=75%"),
			`{"minReplicas": 2, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
			  {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 75}}}]}`},
		{"a metric is for each replica", labelsOf("setpoint.max=5", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.query=up", "setpoint.metric.queue.average=500m"),
			`{"minReplicas": 1, "maxReplicas": 5, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "500m"}}}]}`},
		{"a metric is for all replicas with value", labelsOf("setpoint.max=5", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.query=up", "setpoint.metric.queue.value=3"),
			`{"minReplicas": 1, "maxReplicas": 5, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "3"}}}]}`},
		{"a metric of tasks is an average", labelsOf("setpoint.max=5", "setpoint.metric.rps.source=prom", "setpoint.metric.rps.query=up", "setpoint.metric.rps.podLabel=task", "setpoint.metric.rps.average=20"),
			`{"minReplicas": 1, "maxReplicas": 5, "metrics": [{"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "20"}}}]}`},
		{"behavior is that of autoscaling/v2", labelsOf("setpoint.max=5", "setpoint.behavior=scaleDown:\n  stabilizationWindowSeconds: 60\n  tolerance: 0.05\n  policies: [{type: Pods, value: 1, periodSeconds: 30}]"),
			`{"minReplicas": 1, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
			  "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "tolerance": "0.05", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}]}}}`},
		{"a spec is taken as it is", labelsOf(`setpoint.spec={"maxReplicas": 7, "metrics": [{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": 10}}}]}`,
			"setpoint.metric.queue.source=prom", "setpoint.metric.queue.query=up"),
			`{"maxReplicas": 7, "metrics": [{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := swarm.ParseLabels("web", tt.labels)
			if err != nil {
				t.Fatal(err)
			}
			want := &setpointv1.HorizontalPodAutoscalerSpec{}
			if err := protojson.Unmarshal([]byte(tt.want), want); err != nil {
				t.Fatal(err)
			}
			want.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{ApiVersion: "docker.com/v1", Kind: "Service", Name: "web"}
			if !proto.Equal(got.Spec, want) {
				t.Errorf("got  %v\nwant %v", got.Spec, want)
			}
			if len(got.Warnings) > 0 {
				t.Errorf("warnings: %q", got.Warnings)
			}
		})
	}
}

func TestLabelsSayHow(t *testing.T) {
	t.Parallel()
	got, err := swarm.ParseLabels("web", labelsOf("setpoint.max=5", "setpoint.period=30s", "setpoint.shadow=true",
		"setpoint.metric.queue.source=prom", "setpoint.metric.queue.query=up", "setpoint.metric.queue.emptyIsZero=true", "setpoint.metric.queue.average=1", "com.example.other=x"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Period != 30*time.Second || !got.Shadow {
		t.Errorf("period %s, shadow %t", got.Period, got.Shadow)
	}
	if want := (samples.Query{Source: "prom", Query: "up", EmptyIsZero: true}); got.Metrics[0].Query != want {
		t.Errorf("query %+v, want %+v", got.Metrics[0].Query, want)
	}
}

func TestEachWrongLabelIsReported(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   []string // label: a part of the message
	}{
		{"a bound that is missing", labelsOf(), []string{"setpoint.max: is required"}},
		{"a value that is no truth value", labelsOf("setpoint.enable=yes", "setpoint.max=3", "setpoint.shadow=1"), []string{`setpoint.enable: must be true or false, not "yes"`, "setpoint.shadow: must be true or false"}},
		{"numbers that are none, zero or beyond", labelsOf("setpoint.min=0", "setpoint.max=3000000000", "setpoint.cpu=+60", "setpoint.memory=0.6"),
			[]string{"setpoint.cpu: must be", "setpoint.max: must be", "setpoint.memory: must be", "setpoint.min: must be"}},
		{"bounds the wrong way round", labelsOf("setpoint.min=4", "setpoint.max=3"), []string{"setpoint.min: 4 is above setpoint.max, which is 3"}},
		{"a word that is misspelt", labelsOf("setpoint.max=3", "setpoint.meemory=80", "setpoint.metric.queue.sourc=prom", "setpoint.metric.queue.average=1"),
			[]string{"setpoint.meemory: there is no such key; did you mean memory?", "setpoint.metric.queue.sourc: there is no such key; did you mean source?"}},
		{"a metric without a target", labelsOf("setpoint.max=3", "setpoint.metric.queue.source=prom"), []string{"setpoint.metric.queue.average: is required"}},
		{"two targets", labelsOf("setpoint.max=3", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.average=1", "setpoint.metric.queue.value=1"), []string{"setpoint.metric.queue.value: can't be set beside average"}},
		{"a target of all for values of tasks", labelsOf("setpoint.max=3", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.podLabel=task", "setpoint.metric.queue.value=1"), []string{"setpoint.metric.queue.value: has no meaning"}},
		{"a target that is no quantity", labelsOf("setpoint.max=3", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.average=many"), []string{"setpoint.metric.queue.average: must be a quantity"}},
		{"a name or key that can't be one", labelsOf("setpoint.max=3", "setpoint.metric. queue.source=prom", "setpoint.metric.queue=prom", "setpoint.metric.queue.average=1"), []string{"setpoint.metric. queue: the name of a metric", "setpoint.metric.queue: there is no such key; the keys are average, value, source"}},
		{"a period out of range", labelsOf("setpoint.max=3", "setpoint.period=100ms"), []string{"setpoint.period: must be a duration from 1s to 1h"}},
		{"all that is wrong in a document", labelsOf("setpoint.max=3", "setpoint.behavior={scaleUpp: {}, scaleDown: {policies: [{type: 3, value: x, periodSeconds: 1.5}]}}"),
			[]string{"setpoint.behavior.scaleDown.policies[0].periodSeconds: must be a whole number", "setpoint.behavior.scaleDown.policies[0].type: must be a text", "setpoint.behavior.scaleDown.policies[0].value: must be a whole number", "setpoint.behavior.scaleUpp: there is no such key; did you mean scaleUp?"}},
		{"a document that is none", labelsOf("setpoint.spec={"), []string{"setpoint.spec: is neither YAML nor JSON"}},
		{"a key that is given twice", labelsOf("setpoint.spec={maxReplicas: 3, maxReplicas: 4}"), []string{"setpoint.spec: line 1: maxReplicas: is a duplicate key, first in line 1"}},
		{"a target that takes minutes to parse", labelsOf("setpoint.max=3", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.average=12345678901234567890e999999999"), []string{"setpoint.metric.queue.average: must be a quantity"}},
		{"aliases, of which few bytes are gigabytes", labelsOf("setpoint.spec={maxReplicas: &a 3, minReplicas: *a}"), []string{"setpoint.spec: line 1: maxReplicas: YAML anchors and aliases (&name, *name, <<) are not allowed here"}},
		{"a document that is a list", labelsOf("setpoint.spec=[]"), []string{"setpoint.spec: must be a mapping of keys to values"}},
		{"a document that is too long", labelsOf("setpoint.spec=" + strings.Repeat(" ", 1<<17)), []string{"setpoint.spec: is longer than 65536 bytes"}},
		{"metrics that nobody can read", labelsOf("setpoint.spec={maxReplicas: 3, metrics: [{type: External, external: {metric: {name: queue}}}, {type: ContainerResource, containerResource: {name: cpu}}, {type: Resource, resource: {name: gpu}}]}"),
			[]string{`setpoint.spec.metrics[0]: "queue" has no source: set setpoint.metric.queue.source`, "setpoint.spec.metrics[1]: a replica has one container", `setpoint.spec.metrics[2]: usage of "gpu" is not available, only of cpu and memory`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := swarm.ParseLabels("web", tt.labels)
			var wrong *typed.Error
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v", err)
			}
			if len(wrong.Problems) != len(tt.want) {
				t.Fatalf("%d problems, want %d: %v", len(wrong.Problems), len(tt.want), err)
			}
			for i, p := range wrong.Problems {
				if text := p.String(); !strings.HasPrefix(text, tt.want[i]) {
					t.Errorf("got  %s\nwant %s", text, tt.want[i])
				}
			}
		})
	}
}

func TestLabelsWithoutEffectAreReported(t *testing.T) {
	t.Parallel()
	got, err := swarm.ParseLabels("web", labelsOf("setpoint.spec={maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}, metrics: [{type: External, external: {metric: {name: queue}, target: {type: Value, value: 1}}}]}",
		"setpoint.min=2", "setpoint.behavior=x", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.average=1", "swarm.autoscaler=true", "orbiter=false"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"setpoint.behavior has no effect beside setpoint.spec",
		"setpoint.metric.queue: average and value have no effect beside setpoint.spec",
		"setpoint.min has no effect beside setpoint.spec",
		"setpoint.spec.scaleTargetRef has no effect: the workload itself is scaled",
		"swarm.autoscaler opts in to another autoscaler: where that runs, each undoes the counts of the other",
	}
	if strings.Join(got.Warnings, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got.Warnings)
	}
	if got.Spec.GetScaleTargetRef().GetName() != "web" || got.Spec.GetScaleTargetRef().GetKind() != "Service" {
		t.Errorf("scaled is %v", got.Spec.GetScaleTargetRef())
	}
}

func TestAServiceOptsIn(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "false": false, "yes": true, "": true} {
		if got := swarm.Enabled(map[string]string{swarm.EnableLabel: value}); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
	if swarm.Enabled(labelsOf()) != true || swarm.Enabled(map[string]string{"setpoint.max": "3"}) {
		t.Error("a service that has not opted in is in")
	}
}

func TestLabelsWithoutAChoice(t *testing.T) {
	t.Parallel()
	for want, labels := range map[string]map[string]string{
		"setpoint.enabled": {"setpoint.enabled": "true", "setpoint.max": "3"}, "setpoint.max": {"setpoint.max": "3", "a": "b"},
		"": {"setpoint.max": "3", swarm.EnableLabel: "false"},
	} {
		if got := swarm.Idle(labels); got != want {
			t.Errorf("%v: got %q, want %q", labels, got, want)
		}
	}
}

// Every documented label is parsed: an invalid value is reported.
func TestLabelsAreThoseThatAreDescribed(t *testing.T) {
	t.Parallel()
	for _, l := range swarm.Rows() {
		name := strings.NewReplacer("NAME.KEY", "queue.window", "NAME", "queue").Replace(l.Key)
		labels := labelsOf("setpoint.max=3", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.average=1", name+"={")
		if strings.HasSuffix(name, ".value") {
			delete(labels, "setpoint.metric.queue.average")
		}
		_, err := swarm.ParseLabels("web", labels)
		if err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: a wrong value says %v", name, err)
		}
	}
}

func FuzzParseLabels(f *testing.F) {
	f.Add("setpoint.max", "3", "setpoint.spec", "{maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}")
	f.Add("setpoint.metric.queue.source", "prom", "setpoint.behavior", "scaleDown: {tolerance: 0.1, policies: [{type: Pods, value: 1, periodSeconds: 15}]}")
	f.Add("setpoint.metric.queue.average", "1e3", "setpoint.period", "15s")
	f.Fuzz(func(t *testing.T, label1, value1, label2, value2 string) {
		labels := map[string]string{swarm.EnableLabel: "true", label1: value1, label2: value2}
		wants, err := swarm.ParseLabels("web", labels)
		var wrong *typed.Error
		switch {
		case err == nil && wants.Spec == nil:
			t.Fatal("neither a spec nor an error")
		case err != nil && !errors.As(err, &wrong):
			t.Fatalf("an error of another kind: %v", err)
		case err != nil:
			for _, p := range wrong.Problems {
				if _, there := labels[p.Field]; !there && !strings.HasPrefix(p.Field, "setpoint.") {
					t.Fatalf("a problem of %q, which is no label", p.Field)
				}
			}
		}
	})
}

func TestTheMetricsOfAServiceAreBounded(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"setpoint.max": "3"}
	for i := range 101 {
		labels[fmt.Sprintf("setpoint.metric.m%d.source", i)] = "prom"
	}
	_, err := swarm.ParseLabels("web", labels)
	if err == nil || !strings.Contains(err.Error(), "there are 101 metrics; at most 100 are allowed") || strings.Count(err.Error(), "\n") > 20 {
		t.Errorf("got %v", err)
	}
}

// A parser's error quotes the user's document, so it is bounded.
func TestErrorsOfParsersAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"{maxReplicas: 3, " + strings.Repeat("k", 20_000) + ": 1, " + strings.Repeat("k", 20_000) + ": 2}",
		"a: 1\n" + strings.Repeat("b", 20_000) + "\nc: [",
	} {
		if _, err := swarm.ParseLabels("web", map[string]string{"setpoint.spec": text}); err == nil || len(err.Error()) > 600 {
			t.Errorf("%v", err)
		}
	}
}

// The fleet is a label, and a service with a wrong one is not decided alone.
func TestFleetOfLabels(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	w.label("web", "setpoint.fleet", "clusters/f/namespaces/shop/targets/web")
	if o := object(t, p, key); o.Fleet != "clusters/f/namespaces/shop/targets/web" || o.Hold != nil {
		t.Errorf("the object has the fleet %q, and is held: %v", o.Fleet, o.Hold)
	}
	w.label("web", "setpoint.fleet", "web")
	if o := object(t, p, key); o.Hold == nil || !strings.HasPrefix(o.Hold.Message, "setpoint.fleet: must be the whole name of a fleet") {
		t.Errorf("held: %+v", o.Hold)
	}
}

// Stages are one label, and what is wrong in it is told with its path.
func TestStagesOfLabels(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"setpoint.enable": "true", "setpoint.max": "5", "setpoint.stages": `{"schedules": [{"name": "office", "timeZone": "Europe/Berlin", "cron": "0 8 * * 1-5", "duration": "43200s", "minReplicas": 3}]}`}
	got, err := swarm.ParseLabels("web", labels)
	if err != nil || got.Stages.GetSchedules()[0].GetMinReplicas() != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	labels["setpoint.stages"] = `{"schedules": [{"name": "office", "timezone": "Europe/Berlin"}]}`
	if _, err := swarm.ParseLabels("web", labels); err == nil || err.Error() != "setpoint.stages.schedules[0].timezone: there is no such key; did you mean timeZone?" {
		t.Errorf("got %v", err)
	}
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	w.label("web", "setpoint.stages", "windowThroughFailures: true")
	if o := object(t, p, key); !o.Stages.GetWindowThroughFailures() {
		t.Errorf("the object has the stages %v", o.Stages)
	}
}
