package explain

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// TestWhatIsBesideADecision is what is written of shadows and of a forecast, which a name can't break out of.
func TestWhatIsBesideADecision(t *testing.T) {
	differs := &setpointv1.ShadowState{Name: "next", DesiredReplicas: 12, LiveReplicas: 14, ComparedDecisions: 40, DifferentDecisions: 3,
		LargestDifference: -2, LiveReplicaSeconds: 1000, ShadowReplicaSeconds: 860, ObservedDuration: durationpb.New(10 * time.Minute)}
	for want, shadows := range map[string][]*setpointv1.ShadowState{
		"": nil,
		"\nShadows\n  next: 12 beside 14, 3 of 40 decisions differ (7.5 %), by up to -2; 86 % of the replicas over 10m\n": {differs},
		"\nShadows\n  a: off: no metric\n  b: nothing is decided yet\n":                                                   {{Name: "a", Problem: "no\x1b metric"}, {Name: "b"}},
	} {
		var out strings.Builder
		if err := WriteShadows(&out, shadows); err != nil || out.String() != want {
			t.Errorf("got %q, %v, want %q", out.String(), err, want)
		}
	}
	told := &setpointv1.Adjustment{Stage: "FORECAST", Rule: "only", Message: "forecast 14 for 08:15"}
	for want, all := range map[string][]*setpointv1.Adjustment{
		"": {{Stage: "BOUNDS"}},
		"\nForecast at the last decision\n  FORECAST only: forecast 14 for 08:15\n": {{Stage: "BOUNDS"}, told},
	} {
		var out strings.Builder
		if err := WriteForecast(&out, all); err != nil || out.String() != want {
			t.Errorf("got %q, %v, want %q", out.String(), err, want)
		}
	}
}
