// Package recordingtest reads recordings for tests.
package recordingtest

import (
	"iter"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Scenarios returns the scenarios of a file of recordings, which must be readable.
func Scenarios(tb testing.TB, path string) iter.Seq[*recording.Scenario] {
	return func(yield func(*recording.Scenario) bool) {
		file, err := os.Open(path)
		fatal.If(tb, err)
		defer func() { _ = file.Close() }()
		for scenario, err := range recording.NewReader(path, file).All() {
			fatal.If(tb, err)
			if !yield(scenario) {
				return
			}
		}
	}
}
