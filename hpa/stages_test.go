package hpa_test

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/stages"
)

const stagedSpec = `{"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 5, "metrics": [
	{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}, "stages": `

// The stages of a stored spec and of a request are the engine's, too, and what is wrong with them is told.
func TestEnginesHaveTheStagesOfFiles(t *testing.T) {
	for _, form := range []string{`{"name": "clusters/c/namespaces/n/targets/t", `, `{"target": "clusters/c/namespaces/n/targets/t", `} {
		read := func(text string) (*stages.Plan, error) {
			a, err := hpa.ReadOne("spec.json", strings.NewReader(form+stagedSpec[1:]+text+"}"))
			fatal.If(t, err)
			engine, err := a.Engine(nil)
			if err != nil {
				return nil, err
			}
			return engine.Stages, nil
		}
		plan, err := read(`{"combine": {"method": "QUORUM", "quorum": 1}}`)
		if err != nil || plan == nil || plan.Combine == nil || plan.Combine.Quorum != 1 {
			t.Errorf("%+v, %v", plan, err)
		}
		_, err = read(`{"combine": {"method": "QUORUM"}, "guards": {"reversals": {"count": 99, "period": "60s"}}}`)
		for _, want := range []string{"spec.json:2: stages.combine.quorum: Required value", "spec.json:2: stages.guards.reversals.count: "} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %q", err, want)
			}
		}
	}
}

// A fallback of a metric of the spec is a stage in every form.
func TestEnginesHaveTheFallbacksOfSpecs(t *testing.T) {
	t.Parallel()
	with := func(text string) string {
		for _, value := range []string{`averageValue: "10"}`, `averageValue: 10}`} {
			text = strings.ReplaceAll(text, value, value+`, fallback: {replicas: 6, failureDurationSeconds: 240}`)
		}
		return strings.ReplaceAll(text, `"averageValue": 10}`, `"averageValue": 10}, "fallback": {"replicas": 6, "failureDurationSeconds": 240}`)
	}
	for form, text := range forms {
		a, err := hpa.ReadOne("f.yaml", strings.NewReader(with(text)))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		engine, err := a.Engine(nil)
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		want := stages.Fallback{Metric: 0, After: 4 * time.Minute, Replicas: 6}
		if p := engine.Stages; p == nil || len(p.Fallbacks) != 1 || p.Fallbacks[0].Metric != want.Metric || p.Fallbacks[0].After != want.After || p.Fallbacks[0].Replicas != want.Replicas {
			t.Errorf("%s: %+v", form, p)
		}
		if f := a.Stages().GetFallbacks(); len(f) != 1 || f[0].GetMetric() != "External:queue" || f[0].GetReplicas() != 6 {
			t.Errorf("%s: stages %v", form, f)
		}
	}
	a, err := hpa.ReadOne("f.yaml", strings.NewReader(with(forms["a stored spec"])+`stages: {fallbacks: [{metric: "External:queue", ignore: true}]}`))
	fatal.If(t, err)
	if _, err = a.Engine(nil); err == nil || !strings.Contains(err.Error(), "spec.metrics[0].external.fallback: Forbidden: stages.fallbacks has one for External:queue, too") {
		t.Errorf("both: %v", err)
	}
}
