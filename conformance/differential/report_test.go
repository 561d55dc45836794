package differential

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The report says how each step and each text was compared, and which were not.
func TestTheReportSaysWhatWasForgiven(t *testing.T) {
	step := recording.Step{}
	scenario := &recording.Scenario{HPA: &autoscalingv2.HorizontalPodAutoscaler{}, Steps: []recording.Step{step, step, step, step}}
	expects := make([]recording.Expect, 4)
	expects[0].Error = recording.Text{Value: "known"}
	expects[1].Error = recording.Text{Undetermined: true}
	expects[2].Error = recording.Text{Value: `values[0][a]: Invalid value: "-": no`}
	version := Versions()[2]
	census := NewCensus()
	census.add(&comparison{expects: expects, saturated: 3, at: 4}, version)
	// Of one that differs only the steps before that count.
	census.add(&comparison{expects: expects, saturated: 4, at: 1, differences: []recording.Difference{{Field: "error"}}}, version)
	census.refused()
	merged := NewCensus()
	merged.Merge(census)
	var b strings.Builder
	r := Report{
		Results: []*Result{{Plan: Plan{Version: version}, Census: merged, Findings: []*Finding{{Scenario: scenario}}}},
		Sources: map[string]*Source{},
	}
	fatal.If(t, r.Markdown(&b, "test"))
	for _, want := range []string{
		"| `v1.28` | 4 | 1 | 2 | 1 | 1 | 1 | 0 |\n", // the table of comparisons
		"| `v1.28` | v1.28.15 | none | 2 | 5 | 0 | 4 | **1** |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
