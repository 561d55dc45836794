package v137

import (
	"regexp"
	"runtime"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/controller"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// recordings were made of v1.36 by a driver of its own, so they say whether this one
// is right.
const recordings = "../../clients/kubernetes/recording/testdata/[cf]u*.jsonl.gz"

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
	if runtime.GOARCH != "amd64" {
		t.Skip("recorded on amd64; numbers out of range come out otherwise here")
	}
	got := oracle.Replay(t, controller.NewDriver(), recordings, reworded)
	if want := (oracle.Recorded{Scenarios: 827, Steps: 9577}); got != want {
		t.Errorf("%+v came out as recorded, want %+v", got, want)
	}
}

// The recordings of this version come out as they were recorded.
func TestOwnRecordings(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("recorded on amd64; numbers out of range come out otherwise here")
	}
	got := oracle.Replay(t, controller.NewDriver(), "../../clients/kubernetes/recording/testdata/v1.37.jsonl.gz", nil)
	if want := (oracle.Recorded{Scenarios: 120, Steps: 1467}); got != want {
		t.Errorf("%+v came out as recorded, want %+v", got, want)
	}
}
