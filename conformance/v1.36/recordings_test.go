package v136

import (
	"runtime"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/controller"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// recordings were made by a driver of its own, so they say whether this one is right.
const recordings = "../../clients/kubernetes/recording/testdata/[cf]u*.jsonl.gz"

func TestRecordings(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("recorded on amd64; numbers out of range come out otherwise here")
	}
	got := oracle.Replay(t, controller.NewDriver(), recordings, nil)
	if want := (oracle.Recorded{Scenarios: 827, Steps: 9577}); got != want {
		t.Errorf("%+v came out as recorded, want %+v", got, want)
	}
}
