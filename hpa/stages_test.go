package hpa_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/stages"
)

const stagedSpec = `{"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 5, "metrics": [
	{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}, "stages": `

// The stages of a stored spec and of a request are the engine's, too, and what is wrong with them is told.
func TestEnginesHaveTheStagesOfFiles(t *testing.T) {
	for _, form := range []string{`{"name": "clusters/c/namespaces/n/targets/t", `, `{"target": "clusters/c/namespaces/n/targets/t", `} {
		read := func(text string) (*stages.Plan, error) {
			a, err := hpa.ReadOne("spec.json", strings.NewReader(form+stagedSpec[1:]+text+"}"))
			if err != nil {
				t.Fatal(err)
			}
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
		for _, want := range []string{"spec.json: stages.combine.quorum: Required value", "spec.json: stages.guards.reversals.count: "} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %q", err, want)
			}
		}
	}
}
