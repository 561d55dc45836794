package hpa_test

import (
	"reflect"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// everything has each type of metric and target, selectors, and all of behavior.
const everything = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop, generation: 3}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 30
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
  - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1500Mi}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: app, target: {type: AverageValue, averageValue: 250m}}}
  - {type: Pods, pods: {metric: {name: rps, selector: {matchLabels: {b: "1", a: "2"}}}, target: {type: AverageValue, averageValue: "10"}}}
  - {type: Object, object: {metric: {name: hits}, describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}, target: {type: Value, value: 2k}}}
  - {type: External, external: {metric: {name: queue, selector: {matchExpressions: [{key: q, operator: In, values: [one, two]}]}}, target: {type: AverageValue, averageValue: "0.5"}}}
  behavior:
    scaleUp: {stabilizationWindowSeconds: 30, selectPolicy: Min, tolerance: 5m, policies: [{type: Pods, value: 3, periodSeconds: 60}, {type: Percent, value: 50, periodSeconds: 15}]}
    scaleDown: {selectPolicy: Disabled, tolerance: "0.25"}
`

func engine(t *testing.T, text string) (*hpa.Autoscaler, *simulation.Autoscaler) {
	t.Helper()
	read, err := hpa.ReadOne("f.yaml", strings.NewReader(text))
	fatal.If(t, err)
	a, err := read.Engine(nil)
	fatal.If(t, err)
	return read, a
}

// A spec of the engine is the same after it was one of autoscaling/v2.
func TestSpecsGoBack(t *testing.T) {
	t.Parallel()
	for form, text := range map[string]string{"everything": everything, "a queue": forms["a manifest"]} {
		read, a := engine(t, text)
		read.Object.Spec = hpa.Spec(&a.Spec)
		back, err := read.Engine(nil)
		if err != nil || !reflect.DeepEqual(back.Spec, a.Spec) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", form, err, back, a)
		}
		if err := hpa.Validate(a); err != nil {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// What the engine would decide without a word, Validate refuses.
func TestValidateFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(*simulation.Autoscaler)
		want  string
	}{
		{"no maximum", func(a *simulation.Autoscaler) { a.Spec.MaxReplicas = 0 }, "spec.maxReplicas: Required value"},
		{"no minimum", func(a *simulation.Autoscaler) { a.Spec.MinReplicas = 0 }, "spec.minReplicas: Invalid value: 0"},
		{"no metrics", func(a *simulation.Autoscaler) { a.Spec.Metrics = nil }, "spec.metrics: Required value"},
		{"no target", func(a *simulation.Autoscaler) { a.Spec.Metrics[0].Target = recommender.MetricTarget{} }, "spec.metrics[0].resource.target.type: Required value"},
		{"no type", func(a *simulation.Autoscaler) { a.Spec.Metrics[0].Type = "" }, "spec.metrics[0].type: Required value"},
		{"a negative window", func(a *simulation.Autoscaler) { a.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(-1)) }, "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -1"},
	} {
		_, a := engine(t, everything)
		tt.spoil(a)
		if err := hpa.Validate(a); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	_, a := engine(t, everything)
	if a.Spec.MinReplicas, a.Options.ScaleToZero = 0, true; hpa.Validate(a) != nil {
		t.Errorf("zero replicas with the option: %v", hpa.Validate(a))
	}
}

func TestInputsAreReadAsTheServiceReadsThem(t *testing.T) {
	t.Parallel()
	read, a := engine(t, everything)
	snapshot := &kubernetes.Snapshot{Scale: &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}, Status: autoscalingv1.ScaleStatus{Replicas: 4, Selector: "app=web"}}}
	in, _, err := read.Input(snapshot, nil)
	if err != nil || !reflect.DeepEqual(in.Spec, a.Spec) || in.Scale.SpecReplicas != 4 || in.Namespace != "shop" || in.Generation != 3 {
		t.Errorf("%v, got %+v", err, in)
	}
	read.Object.Spec.MaxReplicas = 0
	if _, _, err := read.Input(snapshot, nil); err == nil || !strings.HasPrefix(err.Error(), "f.yaml:8: spec.maxReplicas: Required value") {
		t.Errorf("an invalid spec: %v", err)
	}
	snapshot.Scale = nil
	if _, _, err := read.Input(snapshot, nil); err == nil {
		t.Error("without a scale there is an input")
	}
	snapshot.Autoscaler = read.Object.DeepCopy()
	if _, _, err := read.Input(snapshot, nil); err == nil || !strings.Contains(err.Error(), "another object") {
		t.Errorf("another object: %v", err)
	}
	empty := &hpa.Autoscaler{}
	if _, err := empty.Engine(nil); err == nil || err.Error() != "the autoscaler has no Object" {
		t.Errorf("no object: %v", err)
	}
	if _, _, err := empty.Input(snapshot, nil); err == nil || err.Error() != "the autoscaler has no Object" {
		t.Errorf("no object, but another one: %v", err)
	}
}

// Whatever says that tolerance and those stages, the input and the engine's autoscaler have them; odd quantities are noted.
func TestInputsHaveWhatAutoscalersHave(t *testing.T) {
	t.Parallel()
	const stored = `options: {tolerance: "0.9"}` + "\n" + `stages: {combine: {method: QUORUM, quorum: 1}}`
	annotated := strings.Replace(forms["a manifest"], "metadata: {", `metadata: {annotations: {setpoint.dev/stages: '{"combine": {"method": "QUORUM", "quorum": 1}}'}, `, 1)
	snapshot := &kubernetes.Snapshot{
		Scale:           &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}, Status: autoscalingv1.ScaleStatus{Selector: "app=web"}},
		ExternalMetrics: []kubernetes.ExternalMetric{{ExternalMetricValue: externalv1beta1.ExternalMetricValue{MetricName: "queue", Value: resource.MustParse("9Ei")}}},
	}
	for _, tt := range []struct {
		name, text string
		clientGo   bool
		tolerance  float64
		quorum     int
	}{
		{"a stored spec", "spec:" + strings.ReplaceAll("\n"+strings.TrimSpace(forms["the spec itself"]), "\n", "\n  ") + "\n" + stored, false, 0.9, 1},
		{"an annotated manifest", annotated, false, 0.1, 1},
		{"an annotated object of client-go", annotated, true, 0.1, 1},
		{"a manifest", forms["a manifest"], true, 0.1, 0},
	} {
		a, err := hpa.ReadOne("f.yaml", strings.NewReader(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.clientGo {
			a = &hpa.Autoscaler{Object: a.Object}
		}
		in, plan, err := a.Input(snapshot, nil)
		engine, wrong := a.Engine(nil)
		if err != nil || wrong != nil {
			t.Errorf("%s: %v, %v", tt.name, err, wrong)
			continue
		}
		if !reflect.DeepEqual(plan, engine.Stages) || !reflect.DeepEqual(in.Options, engine.Options) || in.Options.Tolerance != tt.tolerance ||
			(plan != nil) != (tt.quorum > 0) || plan != nil && plan.Combine.Quorum != tt.quorum {
			t.Errorf("%s: got %+v, %+v; the engine %+v", tt.name, in.Options, plan, engine)
		}
		if len(in.Notes) != 1 || !strings.Contains(in.Notes[0], "beyond the range") || in.Explain {
			t.Errorf("%s: notes %q, %t", tt.name, in.Notes, in.Explain)
		}
		a.Object.Annotations, a.Stored = map[string]string{"setpoint.dev/stages": `{"combine": {"method": "QUORUM"}}`}, nil
		if _, _, err := a.Input(snapshot, nil); err == nil || !strings.Contains(err.Error(), "stages.combine.quorum: Required value") {
			t.Errorf("%s: wrong stages: %v", tt.name, err)
		}
	}
}
