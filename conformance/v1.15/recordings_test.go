package v115

import (
	"runtime"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

const recordings = "../../clients/kubernetes/recording/testdata/"

// The recordings of a later version have answers. What those are was not recorded.
func TestRecordings(t *testing.T) {
	got := oracle.AnswerRecordings(t, newDriver(), recordings+"[cf]u*.jsonl.gz")
	if want := (oracle.Recorded{Scenarios: 827, Steps: 9577}); got != want {
		t.Errorf("%+v have answers, want %+v", got, want)
	}
}

// The recordings of this version come out as they were recorded.
func TestOwnRecordings(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("recorded on amd64; numbers out of range come out otherwise here")
	}
	got := oracle.Replay(t, newDriver(), recordings+"v1.15.jsonl.gz", nil)
	if want := (oracle.Recorded{Scenarios: 113, Steps: 1484}); got != want {
		t.Errorf("%+v came out as recorded, want %+v", got, want)
	}
}
