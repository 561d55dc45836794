package trial

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/simulation/report"
)

// The table of docs/concepts/fleets.md has what the simulation says today.
func TestThePageOfFleetsHasTodaysFigures(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../../docs/concepts/fleets.md")
	text := testpages.Read(t, clusters)
	const fault = "cluster: down"
	if strings.Count(text, fault) != 1 {
		t.Fatalf("%s has no %q", clusters, fault)
	}
	for _, other := range []string{fault, "calls: gone", "calls: late, by: 2m", "writes: late, by: 2m"} {
		file := clitest.File(t, strings.NewReplacer(" ", "", ":", "", ",", "").Replace(other)+".yaml", strings.Replace(text, fault, other, 1))
		got := run(t, "", "simulate", "-f", file, clustersBy, "-o", "json")
		if got.Code != 0 {
			t.Fatalf("%s: exit code %d, %s", other, got.Code, got.Stderr)
		}
		row := "| `" + other + "` |"
		for line := range strings.Lines(got.Stdout) {
			var of struct {
				Figures *struct {
					ShortSeconds, ReplicaHours, Lost, Offered float64
					MovedReplicas                             int
				}
			}
			fatal.If(t, json.Unmarshal([]byte(line), &of))
			if f := of.Figures; f != nil {
				short := report.Span(time.Duration(f.ShortSeconds * float64(time.Second)))
				if f.Lost > 0 {
					short += fmt.Sprintf(" (%.2f %%)", 100*f.Lost/f.Offered)
				}
				row += fmt.Sprintf(" %s, %d, %.1f |", short, f.MovedReplicas, f.ReplicaHours)
			}
		}
		if !strings.Contains(page, row) {
			t.Errorf("docs/concepts/fleets.md lacks\n%s", row)
		}
	}
}
