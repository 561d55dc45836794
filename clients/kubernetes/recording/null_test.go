package recording_test

import (
	"bytes"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A time or generation that is known to be unset is written as null; a null one of a stored
// status is omitted.
func TestWhatIsKnownNotToBeSetIsWritten(t *testing.T) {
	const recorded = `{"hpa":{"metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":2,"scaleTargetRef":{"kind":"Deployment","name":"web"}}},` +
		`"name":"n","steps":[{"expect":{"conditions":[{"lastTransitionTime":null,"message":"m","reason":"R","status":"True","type":"AbleToScale"}],` +
		`"currentMetrics":[],"currentReplicas":1,"desiredReplicas":1,"events":[],"lastScaleTime":null,"observedGeneration":null,"scaled":false},` +
		`"scale":{"spec":{"replicas":1}},"time":"2026-01-01T00:00:00Z"}]}`
	scenario, err := recording.NewReader("r", strings.NewReader(recorded)).Next()
	fatal.If(t, err)
	scenario.HPA.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", Status: "True"}}
	var out bytes.Buffer
	fatal.If(t, recording.NewWriter(&out).Write(scenario))
	for _, want := range []string{`"lastTransitionTime":null,"message":"m"`, `"lastScaleTime":null`, `"observedGeneration":null`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	if strings.Count(out.String(), "lastTransitionTime") != 1 {
		t.Errorf("the stored condition has a time: %s", out.String())
	}
}
