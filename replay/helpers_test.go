package replay

import (
	"iter"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// scenarios returns the scenarios of a file of recordings.
func scenarios(tb testing.TB, name string) iter.Seq2[*recording.Scenario, error] {
	path := "../clients/kubernetes/recording/testdata/" + name + ".jsonl.gz"
	file, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	return recording.NewReader(path, file).All()
}
