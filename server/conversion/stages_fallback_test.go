package conversion_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/stages"
)

// requestOf is a request with a spec whose metrics are given, and with stages.
func requestOf(t *testing.T, metrics, stages string) (*setpointv1.RecommendRequest, *recommender.Input) {
	t.Helper()
	req := &setpointv1.RecommendRequest{}
	text := `{"target": "clusters/c/namespaces/n/targets/t", "scale": {}, "spec": {"maxReplicas": 9, "metrics": [` + metrics + `]}`
	if stages != "" {
		text += `, "stages": ` + stages
	}
	fatal.If(t, protojson.Unmarshal([]byte(text+"}"), req))
	in, violations := conversion.Input(req, recommender.DefaultOptions())
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	return req, in
}

func external(name, fallback string) string {
	if fallback != "" {
		fallback = `, "fallback": ` + fallback
	}
	return `{"type": "External", "external": {"metric": {"name": "` + name + `"}, "target": {"type": "AverageValue", "averageValue": "10"}` + fallback + `}}`
}

// KEP-5679's field is the stage of fallbacks, also where metrics have the same name.
func TestFallbacksOfSpecs(t *testing.T) {
	queue := external("queue", `{"replicas": 5, "failureDurationSeconds": 200}`)
	for _, c := range []struct {
		name, metrics, stages string
		want                  []stages.Fallback
		violations            []string
	}{
		{"none", external("queue", ""), "", nil, nil},
		{"its duration, and the default", queue + "," + external("load", `{"replicas": 7}`), "",
			[]stages.Fallback{{Metric: 0, After: 200 * time.Second, Replicas: 5, OfSpec: true}, {Metric: 1, After: 3 * time.Minute, Replicas: 7, OfSpec: true}}, nil},
		{"two of one name", external("queue", "") + "," + queue + "," + external("queue", `{"replicas": 1}`), "",
			[]stages.Fallback{{Metric: 1, After: 200 * time.Second, Replicas: 5, OfSpec: true}, {Metric: 2, After: 3 * time.Minute, Replicas: 1, OfSpec: true}}, nil},
		{"beside one of another metric", queue + "," + external("load", ""), `{"fallbacks": [{"metric": "External:load", "ignore": true}]}`,
			[]stages.Fallback{{Metric: 1, After: 3 * time.Minute}, {Metric: 0, After: 200 * time.Second, Replicas: 5, OfSpec: true}}, nil},
		{"beside one of the same", external("load", "") + "," + queue, `{"fallbacks": [{"metric": "External:queue", "ignore": true}]}`,
			[]stages.Fallback{{Metric: 1, After: 3 * time.Minute}},
			[]string{"spec.metrics[1].external.fallback: Forbidden: stages.fallbacks has one for External:queue, too: keep one of the two"}},
	} {
		req, in := requestOf(t, c.metrics, c.stages)
		around, violations := conversion.Around(req, in, time.Time{})
		var got []string
		for _, v := range violations {
			got = append(got, v.String())
		}
		if !slices.Equal(got, c.violations) {
			t.Errorf("%s: violations %q, want %q", c.name, got, c.violations)
		}
		if conversion.Staged(req) != (around.Plan != nil) || (around.Plan == nil) != (c.want == nil) {
			t.Errorf("%s: staged %t, plan %+v", c.name, conversion.Staged(req), around.Plan)
		} else if around.Plan != nil && !slices.Equal(around.Plan.Fallbacks, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, around.Plan.Fallbacks, c.want)
		}
		stored, more := conversion.Stages(req.GetSpec(), req.GetStages(), in)
		if len(more) != len(violations) || (stored == nil) != (around.Plan == nil) {
			t.Errorf("%s: stored as %+v, %v", c.name, stored, more)
		}
		if len(violations) > 0 {
			continue
		}
		moved := conversion.WithFallbacks(req.GetSpec(), req.GetStages())
		if n := len(moved.GetFallbacks()); n != len(c.want) {
			t.Errorf("%s: %d are moved to stages, want %d", c.name, n, len(c.want))
		}
	}
}

func TestFallbacksOfSpecsAreBounded(t *testing.T) {
	metrics := external("m", `{"replicas": 1}`)
	for range 16 {
		metrics += "," + external("m", `{"replicas": 1}`)
	}
	req, in := requestOf(t, metrics, "")
	_, violations := conversion.Around(req, in, time.Time{})
	if len(violations) != 1 || violations[0].String() != "spec.metrics[16].external.fallback: Forbidden: at most 16 metrics may have a fallback, with those of stages.fallbacks" {
		t.Error(violations)
	}
}

// Profiles without stages have no fallbacks of specs, either, and the refusal names the field.
func TestFallbacksOfSpecsNeedAProfileWithStages(t *testing.T) {
	req, in := requestOf(t, external("load", "")+","+external("queue", `{"replicas": 1}`), "")
	in.Options.Profile, _ = recommender.ProfileByName("cooldown")
	_, violations := conversion.Around(req, in, time.Time{})
	if len(violations) != 1 || violations[0].Field != "spec.metrics[1].external.fallback" {
		t.Error(violations)
	}
}
