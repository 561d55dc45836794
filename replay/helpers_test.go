package replay

import (
	"iter"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// scenarios returns the scenarios of a file of recordings, which must be readable.
func scenarios(tb testing.TB, name string) iter.Seq[*recording.Scenario] {
	path := "../clients/kubernetes/recording/testdata/" + name + ".jsonl.gz"
	file, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	return func(yield func(*recording.Scenario) bool) {
		for scenario, err := range recording.NewReader(path, file).All() {
			if err != nil {
				tb.Fatal(err)
			}
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
	if err != nil {
		tb.Fatal(err)
	}
	return got
}
