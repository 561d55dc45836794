package replay

import (
	"iter"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// scenarios returns the scenarios of a file of recordings, which must be readable.
func scenarios(tb testing.TB, name string) iter.Seq[*recording.Scenario] {
	return recordingtest.Scenarios(tb, "../clients/kubernetes/recording/testdata/"+name+".jsonl.gz")
}

// backtest makes a back-test, which must succeed.
func backtest(tb testing.TB, scenario *recording.Scenario, q *Question) *Backtest {
	tb.Helper()
	got, err := RunBacktest(tb.Context(), scenario, q)
	fatal.If(tb, err)
	return got
}
