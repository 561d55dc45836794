package conversion_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// decide decides on a request of JSON for a target without a history.
func decide(tb testing.TB, text string) recommender.Decision {
	tb.Helper()
	in := input(tb, request(tb, text))
	in.ID = recommender.ID{1}
	decision, _ := recommender.Recommend(decided, in, nil)
	return decision
}

// total is a request with a metric of that total and target.
func total(value, target string) string {
	return fmt.Sprintf(`{"explain": true, "scale": {"specReplicas": 3}, "spec": {"maxReplicas": 10, "metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": %q}}}]},
		"externalMetrics": [{"metric": {"name": "q"}, "value": %q}]}`, target, value)
}

// JSON has no number for them.
func TestRatiosWithoutANumberArePrintedAsTheLargest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value, target string
		want          *float64
	}{
		{"60", "10", new(2.0)},
		{"0", "10", new(0.0)},
		{"60", "0", new(math.MaxFloat64)},
		{"0", "0", nil},
	} {
		d := decide(t, total(tt.value, tt.target))
		got := conversion.Response(&d).GetExplanation().GetMetrics()[0].UsageRatio
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s of %s: the ratio is %v, want %v", tt.value, tt.target, got, tt.want)
		}
	}
}

func TestAnExplanationIsKeptAsFarAsItFits(t *testing.T) {
	t.Parallel()
	var pods, samples, strays []string
	for i := range 20 {
		pods = append(pods, fmt.Sprintf(`{"name": "pod-%d", "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "ready": {"status": "True"}, "containers": [{"requests": {"cpu": "1"}}]}`, i))
		samples = append(samples, fmt.Sprintf(`{"pod": "pod-%d", "containers": [{"usage": {"cpu": "1"}}]}`, i))
		strays = append(strays, `{"metric": {"name": "stray"}, "value": "1"}`)
	}
	d := decide(t, fmt.Sprintf(`{"explain": true, "scale": {"specReplicas": 3}, "spec": {"maxReplicas": 10}, "pods": [%s], "podMetrics": [%s], "externalMetrics": [%s]}`,
		strings.Join(pods, ","), strings.Join(samples, ","), strings.Join(strays, ",")))
	full := conversion.Response(&d).GetExplanation()
	if len(full.GetMetrics()[0].GetPods()) != 20 || len(full.GetWarnings()) != 20 {
		t.Fatalf("the explanation lacks pods or warnings: %v", full)
	}
	size := proto.Size(full)
	// Parts that are removed as the limit shrinks, and parts that never are.
	previous := 0
	for limit := size; limit > 0; limit -= 100 {
		raw, err := conversion.EncodeExplanation(&d, limit)
		fatal.If(t, err)
		kept := &setpointv1.Explanation{}
		fatal.If(t, proto.Unmarshal(raw, kept))
		left := 0
		for _, there := range []bool{len(kept.GetMetrics()) > 0 && len(kept.GetMetrics()[0].GetPods()) > 0, len(kept.GetWarnings()) > 0, len(kept.GetMetrics()) > 0} {
			if !there {
				left++
			}
		}
		if left < 3 && len(raw) > limit {
			t.Errorf("within %d bytes it takes %d", limit, len(raw))
		}
		if left < previous {
			t.Errorf("within %d bytes less is left out than within more", limit)
		}
		if previous = left; kept.GetTruncated() != (left > 0) {
			t.Errorf("within %d bytes %d parts are left out, truncated is %t", limit, left, kept.GetTruncated())
		}
		if kept.GetDesiredReplicas() != full.GetDesiredReplicas() || !proto.Equal(kept.GetBounds(), full.GetBounds()) {
			t.Errorf("within %d bytes the decision is lost: %v", limit, kept)
		}
	}
	if previous != 3 {
		t.Errorf("the tightest limit left out %d parts of 3", previous)
	}
	if again := conversion.Response(&d).GetExplanation(); !proto.Equal(again, full) {
		t.Error("keeping less of it changed the decision's own explanation")
	}
}

func TestADecisionWithoutAnExplanationKeepsNone(t *testing.T) {
	t.Parallel()
	d := decide(t, strings.Replace(total("60", "10"), `"explain": true`, `"explain": false`, 1))
	if raw, err := conversion.EncodeExplanation(&d, 1<<20); raw != nil || err != nil {
		t.Errorf("kept are %d bytes, %v", len(raw), err)
	}
	if conversion.Response(&d).GetExplanation() != nil {
		t.Error("the answer has an explanation")
	}
}

func TestAnswersShareNoMemoryWithTheDecision(t *testing.T) {
	t.Parallel()
	d := decide(t, total("60", "10"))
	first := conversion.Response(&d)
	want := proto.Clone(first)
	for i := range d.Status.Conditions {
		d.Status.Conditions[i].Reason = "changed"
	}
	for i := range d.Status.CurrentMetrics {
		d.Status.CurrentMetrics[i].Current.AverageUtilization++
		d.Status.CurrentMetrics[i].Metric.Name = "changed"
	}
	if !proto.Equal(first, want) {
		t.Errorf("the answer became %v", first)
	}
}

func TestActionsAreDirections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from, to int32
		want     string
	}{{3, 5, "SCALE_UP"}, {5, 3, "SCALE_DOWN"}, {3, 3, "NONE"}, {0, 1, "SCALE_UP"}, {1, 0, "SCALE_DOWN"}, {0, 0, "NONE"}} {
		if got := conversion.Action(tt.from, tt.to); got != tt.want {
			t.Errorf("from %d to %d is %s, want %s", tt.from, tt.to, got, tt.want)
		}
	}
}
