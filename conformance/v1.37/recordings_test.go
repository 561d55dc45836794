package v137

import (
	"regexp"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/controller"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// misplaced is how v1.36 words the failure of an object metric: with the parts in
// the wrong places.
var misplaced = regexp.MustCompile(`unable to get metric (\S+): (\S+) on (\S+) ([^/ ]+)/(unable to fetch metrics from custom metrics API: )`)

// reworded gives the words of v1.37 for a text of v1.36. The text about an ambiguous
// selector, too, has other words; it is undetermined in both.
func reworded(text string) string {
	return misplaced.ReplaceAllString(text, "unable to get metric $1 on $2 $3/$4: $5")
}

// All else is as it was in v1.36.
func TestRecordings(t *testing.T) {
	oracle.Replay(t, controller.NewDriver(), oracle.CommonRecordings, reworded, oracle.InCommonRecordings)
}

// The recordings of this version come out as they were recorded.
func TestOwnRecordings(t *testing.T) {
	oracle.Replay(t, controller.NewDriver(), oracle.Recordings+"v1.37.jsonl.gz", nil, oracle.Recorded{Scenarios: 120, Steps: 1467})
}
