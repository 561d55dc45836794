package explain

import (
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

func TestAWithheldScaleDownIsExplainedFirst(t *testing.T) {
	t.Parallel()
	got := Summary(&setpointv1.RecommendResponse{CurrentReplicas: 5, DesiredReplicas: 5, Explanation: &setpointv1.Explanation{
		Path: pathMetrics, DesiredReplicas: 5, Withheld: &setpointv1.WithheldExplanation{Replicas: 3, Reason: "All metrics below target"},
	}})
	if want := "stays at 5 replicas: a scale-down to 3 replicas is withheld: the history store can't be reached"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
}
