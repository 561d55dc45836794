package v128

import (
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

func TestRecordings(t *testing.T) { oracle.AnswerRecordings(t, newDriver()) }

// The recordings of this version come out as they were recorded.
func TestOwnRecordings(t *testing.T) {
	oracle.Replay(t, newDriver(), oracle.Recordings+"v1.28.jsonl.gz", nil, oracle.Recorded{Scenarios: 112, Steps: 1354})
}
