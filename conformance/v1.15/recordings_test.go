package v115

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// TestRecordings answers for all recordings. They are of a later version, so only
// that there are answers says something.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("../../clients/kubernetes/recording/testdata/[cf]u*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	scenarios, steps := 0, 0
	for _, file := range files {
		for _, line := range lines(t, file) {
			scenarios++
			steps += len(answer(t, json.RawMessage(line)).Steps)
		}
	}
	if scenarios != 827 || steps != 9577 {
		t.Errorf("%d scenarios with %d steps, want 827 with 9577", scenarios, steps)
	}
}

// lines of a gzip-compressed file.
func lines(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.Close() }()
	unzipped, err := gzip.NewReader(data)
	if err != nil {
		t.Fatal(err)
	}
	var found [][]byte
	scanner := bufio.NewScanner(unzipped)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		found = append(found, bytes.Clone(scanner.Bytes()))
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// The recordings of this version come out as they were recorded.
func TestOwnRecordings(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("recorded on amd64; numbers out of range come out otherwise here")
	}
	got := oracle.Replay(t, newDriver(), "../../clients/kubernetes/recording/testdata/v1.15.jsonl.gz", nil)
	if want := (oracle.Recorded{Scenarios: 113, Steps: 1484}); got != want {
		t.Errorf("%+v came out as recorded, want %+v", got, want)
	}
}
