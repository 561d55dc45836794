package swarm_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/internal/fatal"
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
		{"cpu and memory are percent, with or without the sign", labelsOf("setpoint.min=2", "setpoint.max=5", "setpoint.cpu=60", "setpoint.memory=75%"),
			`{"minReplicas": 2, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
			  {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 75}}}]}`},
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
			fatal.If(t, err)
			want := &setpointv1.HorizontalPodAutoscalerSpec{}
			fatal.If(t, protojson.Unmarshal([]byte(tt.want), want))
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

func TestAnotherAutoscalersLabelIsReported(t *testing.T) {
	t.Parallel()
	got, err := swarm.ParseLabels("web", labelsOf("setpoint.max=3", "swarm.autoscaler=true", "orbiter=false"))
	fatal.If(t, err)
	if want := "swarm.autoscaler opts in to another autoscaler: where that runs, each undoes the counts of the other"; strings.Join(got.Warnings, "\n") != want {
		t.Errorf("got %q", got.Warnings)
	}
	if _, err := swarm.ParseLabels("web", labelsOf("setpoint.enable=yes", "setpoint.max=3")); err == nil || !strings.HasPrefix(err.Error(), `setpoint.enable: must be true or false, not "yes"`) {
		t.Errorf("got %v", err)
	}
	if _, err := swarm.ParseLabels("web", labelsOf("setpoint.min=0", "setpoint.max=3")); err == nil || err.Error() != "setpoint.min: must be a whole number of replicas from 1: 0 needs a whole spec, setpoint.spec, with minReplicas 0, and a service with --scale-to-zero" {
		t.Errorf("got %v", err)
	}
	if _, err := swarm.ParseLabels("web", labelsOf("setpoint.min=-1", "setpoint.max=3")); err == nil || strings.Count(err.Error(), "setpoint.min") != 1 {
		t.Errorf("one wrong value: %v", err)
	}
	zero, err := swarm.ParseLabels("web", labelsOf("setpoint.spec={minReplicas: 0, maxReplicas: 3}"))
	if err != nil || zero.Spec == nil || zero.Spec.MinReplicas == nil || zero.Spec.GetMinReplicas() != 0 { //nolint:protogetter // absent is not 0
		t.Errorf("a spec from 0: %v, %v", zero, err)
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

// The fleet is a label, and a service with a wrong one is not decided alone.
func TestFleetOfLabels(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	w.label("web", "setpoint.fleet", "clusters/f/namespaces/shop/targets/web")
	if o := agenttest.Object(t, p, key); o.Fleet != "clusters/f/namespaces/shop/targets/web" || o.Hold != nil {
		t.Errorf("the object has the fleet %q, and is held: %v", o.Fleet, o.Hold)
	}
	w.label("web", "setpoint.fleet", "web")
	if o := agenttest.Object(t, p, key); o.Hold == nil || !strings.HasPrefix(o.Hold.Message, "setpoint.fleet: must be the whole name of a fleet") {
		t.Errorf("held: %+v", o.Hold)
	}
}

// Stages are one label.
func TestStagesOfLabels(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	w.label("web", "setpoint.stages", "windowThroughFailures: true")
	if o := agenttest.Object(t, p, key); !o.Stages.GetWindowThroughFailures() {
		t.Errorf("the object has the stages %v", o.Stages)
	}
}

// No label of Setpoint's is ignored in silence, not even one that is part of others' names.
func TestNoLabelIsIgnored(t *testing.T) {
	t.Parallel()
	for _, label := range []string{"setpoint.metric", "setpoint.metric.", "setpoint.metric.queue", "setpoint.metric.queue.", "setpoint.", "setpoint.max.", "setpoint.metric..source", "Setpoint.min"} {
		if _, err := swarm.ParseLabels("web", labelsOf("setpoint.max=3", "setpoint.metric.queue.source=prom", "setpoint.metric.queue.query=up", "setpoint.metric.queue.average=1", label+"=x")); err == nil {
			t.Errorf("%s is ignored", label)
		}
	}
}

// A label in another case does not opt a service in: that is told, too.
func TestALabelOfAnotherCaseIsNotIdle(t *testing.T) {
	t.Parallel()
	if got := swarm.Idle(map[string]string{"Setpoint.enable": "true"}); got != "Setpoint.enable" {
		t.Errorf("got %q", got)
	}
}
