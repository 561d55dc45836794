package hpa_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The same spec in each form. In the last two a number stands for a quantity, as curl may send it.
var forms = map[string]string{
	"a manifest": `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: worker, namespace: shop}
spec:
  maxReplicas: 20
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}}}]
`,
	"an Autoscaler": `
apiVersion: autoscaling.setpoint.dev/v1
kind: Autoscaler
metadata: {name: worker, namespace: shop}
spec:
  maxReplicas: 20
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}}}]
  options: {downscaleStabilizationSeconds: 60}
`,
	"a stored spec": `
spec:
  maxReplicas: 20
  metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}}}]
options: {downscaleStabilization: 60s}
period: 10s
`,
	"a request": `{"target": "clusters/demo/namespaces/shop/targets/worker", "scale": {"specReplicas": 3},
  "spec": {"maxReplicas": 20, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": 10}}}]},
  "options": {"downscaleStabilization": "60s"}}`,
	"the spec itself": `
maxReplicas: 20
metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 10}}}]
`,
}

func TestEveryFormIsRead(t *testing.T) {
	t.Parallel()
	for form, text := range forms {
		got, err := hpa.ReadOne("some/worker.yaml", strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		a, err := got.Engine(nil)
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		wantWindow := map[bool]float64{true: 60, false: 300}[strings.Contains(text, "60")]
		if m := a.Spec.Metrics; a.Spec.MinReplicas != 1 || a.Spec.MaxReplicas != 20 || len(m) != 1 || m[0].Metric.Name != "queue" || *m[0].Target.AverageValue != 10_000 || a.Options.DownscaleStabilization.Seconds() != wantWindow {
			t.Errorf("%s: got %+v", form, a)
		}
		wantNamespace := map[bool]string{true: "shop", false: "default"}[strings.Contains(text, "shop")]
		if got.Object.Name != "worker" || got.Object.Namespace != wantNamespace || a.Namespace != wantNamespace {
			t.Errorf("%s: is %s/%s", form, got.Object.Namespace, got.Object.Name)
		}
		if got.Stored.GetSpec().GetMaxReplicas() != 20 || !proto.Equal(got.Stored.GetOptions(), got.Options()) || (got.Stored.GetPeriod() != nil) != (form == "a stored spec") {
			t.Errorf("%s: stored as %v", form, got.Stored)
		}
	}
}

// The name of a target may be short, for all commands that read specs.
func TestNamesMayBeShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"name: demo/shop/web\nspec: {maxReplicas: 20}\n", "target: demo/shop/web\nscale: {specReplicas: 3}\nspec: {maxReplicas: 20}\n"} {
		got, err := hpa.ReadOne("w.yaml", strings.NewReader(text))
		if err != nil || !got.Named() || got.Stored.GetName() != "clusters/demo/namespaces/shop/targets/web" || got.Object.Namespace != "shop" || got.Object.Name != "web" {
			t.Errorf("%v, %+v of\n%s", err, got, text)
		}
	}
}

// The time between decisions of an Autoscaler is that of its stored spec: setpoint specs set and fleet create store it.
func TestThePeriodOfAnAutoscalerIsRead(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]float64{"": 0, "  syncPeriodSeconds: 60\n": 60} {
		got, err := hpa.ReadOne("w.yaml", strings.NewReader(forms["an Autoscaler"]+more))
		if err != nil || got.Stored.GetPeriod().AsDuration().Seconds() != want {
			t.Errorf("%q: %v, %v", more, err, got.Stored.GetPeriod())
		}
	}
}

// Services once wrote an empty list of policies for rules without any. Their backups can be stored; elsewhere such a list
// is refused, as Kubernetes does.
func TestBackupsOfEarlierVersionsAreRead(t *testing.T) {
	t.Parallel()
	const rules = `{scaleUp: {policies: [], stabilizationWindowSeconds: 30}, scaleDown: {policies: [], selectPolicy: Min}}`
	const spec = `{maxReplicas: 20, metrics: [], behavior: ` + rules + `}`
	for _, tt := range []struct {
		text string
		read bool
	}{
		{"{name: clusters/demo/namespaces/shop/targets/web, period: 10s, shadows: [{name: other, spec: " + spec + "}], spec: " + spec + "}", true},
		{"{name: clusters/demo/namespaces/shop/targets/web, spec: {maxReplicas: 20, behavior: {scaleUp: {policies: [], tolerance: 0.2}}}}", true}, // a number
		{spec, false},
		{"{target: clusters/demo/namespaces/shop/targets/web, scale: {specReplicas: 3}, spec: " + spec + "}", false},
		{"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {maxReplicas: 20, scaleTargetRef: {kind: Deployment, name: web}, behavior: " + rules + "}}", false},
	} {
		got, err := hpa.ReadOne("backup.yaml", strings.NewReader(tt.text))
		if err == nil {
			_, err = got.Engine(nil)
		}
		if refused := err != nil && strings.Contains(err.Error(), "must specify at least one Policy"); refused == tt.read || tt.read && err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
	}
}

// An error says what the document looks like, and all that is wrong with it.
func TestErrorsNameTheForm(t *testing.T) {
	t.Parallel()
	replace := func(form, old, new string) string {
		if !strings.Contains(forms[form], old) {
			t.Fatalf("%s has no %s", form, old)
		}
		return strings.Replace(forms[form], old, new, 1)
	}
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"a misspelled field of a spec", replace("the spec itself", "maxReplicas", "maxReplica"), []string{`looks like the spec itself: maxReplica: unknown field, did you mean "maxReplicas"?`}},
		{"a misspelled field of a stored spec", replace("a stored spec", "period", "perod"), []string{`looks like a stored spec: perod: unknown field, did you mean "period"?`}},
		{"a misspelled field of a request", replace("a request", "specReplicas", "replicas"), []string{"looks like a request: scale.replicas: unknown field"}},
		{"several values", replace("the spec itself", "20", "-1") + "behavior: {scaleDown: {stabilizationWindowSeconds: -1}}\n", []string{
			"looks like the spec itself: maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
			"looks like the spec itself: behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -1",
		}},
		{"a value of a stored spec", replace("a stored spec", `"10"`, "ten"), []string{`looks like a stored spec: spec.metrics[0].external.target.averageValue: Invalid value: "ten"`}},
		{"values of a spec, its stages and its shadows", `spec: {minReplicas: 5, maxReplicas: 3}
stages: {schedules: [{name: "A B", timeZone: Mars/Base, cron: "99 * * * *", duration: 60s, minReplicas: 900}]}
options: {tolerance: much}
shadows: [{name: b, spec: {maxReplicas: 2}, stages: {zeroGuards: [{metric: "External:nope", confirm: 0s}]}}]
period: 0s
`, []string{
			"f.yaml:1: looks like a stored spec: spec.maxReplicas: ", "f.yaml:3: looks like a stored spec: options.tolerance: ",
			"f.yaml:2: looks like a stored spec: stages.schedules[0].name: does not match", "f.yaml:2: looks like a stored spec: stages.schedules[0].timeZone: ", "f.yaml:2: looks like a stored spec: stages.schedules[0].cron: ",
			"f.yaml:4: looks like a stored spec: shadows[0].stages.zeroGuards[0].confirm: ", "f.yaml:4: looks like a stored spec: shadows[0].stages.zeroGuards[0].metric: ",
			"f.yaml:5: looks like a stored spec: period: ",
		}},
		{"no spec", "period: 10s", []string{"looks like a stored spec: spec: Required value"}},
		{"a scenario", "duration: 1h\nload: []\nworkload: {}", []string{`is not an autoscaler: neither a manifest (with apiVersion and kind) nor a stored spec or a request (with spec) nor the spec itself (with maxReplicas); its keys are "duration", "load", "workload"`}},
		{"an empty object", "{}", []string{"its keys are none"}},
		{"another kind", "apiVersion: v1\nkind: Service", []string{"expected HorizontalPodAutoscaler (autoscaling/v2), found Service (v1)"}},
		{"a list", "- maxReplicas: 3", []string{"expected a Kubernetes object, found"}},
		{"two", forms["the spec itself"] + "---\n" + forms["a manifest"], []string{"holds 2 autoscalers, not one: default/f, shop/worker"}},
		{"the second document", forms["the spec itself"] + "---\nperiod: 1s", []string{"document 2: looks like a stored spec: spec: Required value"}},
	} {
		_, err := hpa.ReadOne("f.yaml", strings.NewReader(tt.text))
		if err == nil {
			t.Errorf("%s: is read", tt.name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("%s: got %v\nwant %s", tt.name, err, want)
			}
		}
	}
}

// Names of files are no names of objects.
func TestObjectsAreNamedAfterTheirFile(t *testing.T) {
	t.Parallel()
	spec := forms["the spec itself"]
	for file, want := range map[string]string{"-": "spec", "my worker.yaml": "my-worker", "..": "spec", "a/b.c.yaml": "b.c", strings.Repeat("x", 300): strings.Repeat("x", 253)} {
		got, err := hpa.Read(file, strings.NewReader(spec))
		if err != nil || got[0].Object.Name != want {
			t.Errorf("%s: %v, %v", file, got, err)
		}
	}
	got, err := hpa.Read("f.yaml", strings.NewReader(spec+"---\n"+spec))
	if err != nil || len(got) != 2 || got[1].Object.Name != "f-2" {
		t.Errorf("%v, %v", got, err)
	}
}

// Whether 0 replicas are allowed depends on options that are known later.
func TestZeroReplicasAreJudgedWithTheOptions(t *testing.T) {
	t.Parallel()
	got, err := hpa.ReadOne("f.yaml", strings.NewReader("minReplicas: 0\n"+forms["the spec itself"]))
	fatal.If(t, err)
	if _, err := got.Engine(nil); err == nil || !strings.HasPrefix(err.Error(), "f.yaml:1: spec.minReplicas: ") {
		t.Errorf("without the option: %v", err)
	}
	got.Stored.Options = scaleToZero()
	if _, err := got.Engine(nil); err != nil {
		t.Errorf("with the option: %v", err)
	}
}

func scaleToZero() *setpointv1.RecommendOptions {
	return &setpointv1.RecommendOptions{ScaleToZero: new(true)}
}

// Stages come from the spec of an Autoscaler, from the annotation of a HorizontalPodAutoscaler, and
// from a stored spec.
func TestStagesAreRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an Autoscaler": `{apiVersion: autoscaling.setpoint.dev/v1, kind: Autoscaler, metadata: {name: web, annotations: {setpoint.dev/stages: "no"}},
			spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 5, stages: {windowThroughFailures: true}}}`,
		"a HorizontalPodAutoscaler": `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, annotations: {setpoint.dev/stages: '{"windowThroughFailures": true}'}},
			spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 5}}`,
		"a stored spec": `{spec: {maxReplicas: 5}, stages: {windowThroughFailures: true}}`,
	} {
		got, err := hpa.ReadOne("web.yaml", strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !got.Stored.GetStages().GetWindowThroughFailures() {
			t.Errorf("%s: got %v", name, got.Stored.GetStages())
		}
	}
	_, err := hpa.ReadOne("web.yaml", strings.NewReader(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: shop, annotations: {setpoint.dev/stages: '{"idel": {}}'}},
		spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 5}}`))
	if err == nil || err.Error() != "web.yaml: shop/web: annotation setpoint.dev/stages: idel: there is no such key; did you mean idle?" {
		t.Errorf("got %v", err)
	}
}
