package replay

import (
	"iter"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// scenarios returns the scenarios of a file of recordings, which must be readable.
func scenarios(tb testing.TB, name string) iter.Seq[*recording.Scenario] {
	path := "../clients/kubernetes/recording/testdata/" + name + ".jsonl.gz"
	file, err := os.Open(path)
	fatal.If(tb, err)
	tb.Cleanup(func() { _ = file.Close() })
	return func(yield func(*recording.Scenario) bool) {
		for scenario, err := range recording.NewReader(path, file).All() {
			fatal.If(tb, err)
			if !yield(scenario) {
				return
			}
		}
	}
}

// backtest makes a back-test, which must succeed.
func backtest(tb testing.TB, scenario *recording.Scenario, q *Question) *Backtest {
	tb.Helper()
	got, err := RunBacktest(tb.Context(), scenario, q)
	fatal.If(tb, err)
	return got
}
