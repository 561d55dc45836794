package recording_test

import (
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// readRecordings returns the scenarios of a file of testdata.
func readRecordings(t testing.TB, file string) []*recording.Scenario {
	return slices.Collect(recordingtest.Scenarios(t, filepath.Join("testdata", file)))
}

func TestEveryRecordingBecomesRequests(t *testing.T) {
	testlength.SkipUnderRace(t)
	for _, test := range []struct {
		file             string
		scenarios, steps int
	}{
		{"curated.jsonl.gz", 427, 1897},
		{"fuzz.jsonl.gz", 400, 7680},
		{"v1.28.jsonl.gz", 112, 1354},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			scenarios := readRecordings(t, test.file)
			steps := 0
			for _, scenario := range scenarios {
				player := recording.NewPlayer(scenario)
				for i := range scenario.Steps {
					steps++
					request, err := player.Request(&scenario.Steps[i], "replay")
					if err != nil {
						t.Fatalf("%s step %d: %v", scenario.Name, i, err)
					}
					if _, err := proto.Marshal(request); err != nil {
						t.Fatalf("%s step %d: %v", scenario.Name, i, err)
					}
				}
			}
			if len(scenarios) != test.scenarios || steps != test.steps {
				t.Errorf("%d scenarios with %d steps, want %d and %d", len(scenarios), steps, test.scenarios, test.steps)
			}
		})
	}
}
