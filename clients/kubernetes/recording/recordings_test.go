package recording_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// files are the recordings of testdata, each read at its first use.
var files = map[string]func() ([]*recording.Scenario, error){
	"curated.jsonl.gz": sync.OnceValues(func() ([]*recording.Scenario, error) { return readFile("curated.jsonl.gz") }),
	"fuzz.jsonl.gz":    sync.OnceValues(func() ([]*recording.Scenario, error) { return readFile("fuzz.jsonl.gz") }),
	"v1.28.jsonl.gz":   sync.OnceValues(func() ([]*recording.Scenario, error) { return readFile("v1.28.jsonl.gz") }),
}

func readFile(file string) ([]*recording.Scenario, error) {
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []*recording.Scenario
	for scenario, err := range recording.NewReader(file, f).All() {
		if err != nil {
			return nil, err
		}
		out = append(out, scenario)
	}
	return out, nil
}

// readRecordings returns the scenarios of a file of testdata, which all tests share.
func readRecordings(t testing.TB, file string) []*recording.Scenario {
	t.Helper()
	scenarios, err := files[file]()
	fatal.If(t, err)
	return scenarios
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
