package explain

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// recorded are the steps of curated recordings that have a golden file each.
var recorded = []struct {
	file, scenario string
	step           int
}{
	{"memory-odd-bytes", "resource/memory-average-value/odd-bytes", 1},
	{"container-resource", "container-resource/cpu-utilization/scale-up", 1},
	{"missing-pods-scale-down", "resource/target-above-100/scale-down-with-missing", 2},
	{"missing-pods-into-tolerance", "pods/dampening/missing-into-tolerance", 1},
	{"missing-pods-reverse", "pods/dampening/missing-reverses-down", 1},
	{"unready-pods-reverse", "pods/dampening/unready-reverses-up", 1},
	{"unready-and-missing-pods", "pods/dampening/unready-and-missing-up", 1},
	{"against-the-ratio", "pods/dampening/count-would-fall-on-scale-up", 1},
	{"exactly-on-target-with-missing", "pods/ratio-exactly-one-with-missing", 1},
	{"fewer-pods-than-replicas", "pods/scale-up-ratio-with-fewer-pods-than-replicas-scales-down", 2},
	{"sample-too-early", "pods/starting-ready-metric-too-old/up", 1},
	{"never-ready", "pods/unready-never-ready/down", 2},
	{"all-pods-unready", "pods/all-unready", 1},
	{"request-missing", "requests/missing-in-a-failed-pod-still-fails", 1},
	{"unlisted-samples", "resource/metrics-of-unknown-pods/average-value", 1},
	{"pods-metric", "pods-metric/one-missing-down", 2},
	{"observed-replicas", "object-average-value/in-tolerance-of-status-replicas-proposes-them", 1},
	{"no-observed-replicas", "external-average-value/status-replicas-zero", 1},
	{"object-value", "object-value/counts-running-ready-pods-only", 1},
	{"object-without-ready-pods", "object-value/no-ready-pods", 2},
	{"external-series", "external-value/summed-over-series", 1},
	{"external-negative", "external-average-value/negative-counts-as-the-largest", 1},
	{"several-metrics", "multi/highest-wins", 1},
	{"failed-metric-blocks", "multi/one-invalid-first/down-blocked", 1},
	{"failed-metric-does-not-matter", "multi/one-invalid-last/up-allowed", 1},
	{"all-metrics-failed", "metrics/api-errors-of-each-kind", 1},
	{"scale-down-window-without-behavior", "life/ramp/no-behavior", 30},
	{"unready-pods-into-tolerance", "life/spike/slow-start", 10},
	{"scale-up-window", "stabilization/up-window-rising", 5},
	{"window-beyond-the-current-count", "life/spike/careful", 22},
	{"window-then-policy", "stabilization/window-then-policy", 9},
	{"window-raises", "no-behavior/person-scales-down-window-pushes-up", 4},
	{"window-at-minimum", "bounds/at-min-still-below", 1},
	{"policies-up", "behavior/up-three-policies-differing-periods", 12},
	{"policies-down-no-room", "behavior/down-max-of-two", 4},
	{"policies-of-both-directions", "behavior/up-and-down-share-the-accounting", 8},
	{"policy-too-large", "behavior/huge-policy-values", 1},
	{"scale-up-disabled", "behavior/both-disabled", 2},
	{"at-maximum", "bounds/at-max-still-above", 1},
	{"above-maximum", "bounds/above-max-jumps-past-scale-down-rules", 1},
	{"below-minimum", "bounds/below-min", 1},
	{"scaling-disabled", "zero/disabled", 1},
	{"down-to-zero", "zero/down-to-zero-limited-by-policies", 5},
	{"from-zero", "zero/from-zero-ignores-tolerance", 1},
	{"from-zero-to-minimum", "zero/from-zero-with-min-raised-behavior-little-load", 1},
	{"scale-unavailable", "target/scale-cannot-be-read", 2},
	{"selector-ambiguous", "selector/ambiguous", 1},
	{"saturated", "overflow/pods-metric-above-int32", 1},
	{"warnings", "overflow/quantity-beyond-milli-range", 1},
}

func TestGoldenRecordings(t *testing.T) {
	seen := make(map[string]bool)
	for _, g := range recorded {
		if seen[g.file] {
			t.Errorf("%s is there twice", g.file)
		}
		seen[g.file] = true
		t.Run(g.file, func(t *testing.T) {
			found := false
			play(t, curated(t, g.scenario), func(step int, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse) {
				if step == g.step {
					found = true
					golden(t, g.file, req, resp, Options{})
				}
			})
			if !found {
				t.Errorf("%s has no step %d", g.scenario, g.step)
			}
		})
	}
}

// golden compares the summary and the text with a file of testdata.
func golden(t *testing.T, name string, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse, opts Options) {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("# " + Summary(resp) + "\n\n")
	fatal.If(t, Write(&out, req, resp, opts))
	path := filepath.Join("testdata", name+".txt")
	if *update {
		fatal.If(t, os.WriteFile(path, out.Bytes(), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if got := out.String(); got != string(want) {
		t.Errorf("%s is not as in the file (run with -update to rewrite it):\n%s", path, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			text := "got  " + g[i]
			if i < len(w) {
				text += "\nwant " + w[i]
			}
			return text
		}
	}
	return "got ends early"
}
