package clitest

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Curated are recordings of many cases, from the folder of a package of commands.
const Curated = "../../../clients/kubernetes/recording/testdata/curated.jsonl.gz"

// FirstBytes are the beginning of the curated recordings.
func FirstBytes(n int64) string {
	f, err := os.Open(Curated)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(io.LimitReader(z, n))
	return string(text)
}

// Recorded is a recorded scenario of one step; expecting says whether it keeps its expectation.
func Recorded(t *testing.T, name string, expecting bool) string {
	t.Helper()
	line, _, _ := strings.Cut(FirstBytes(20000), "\n")
	var scenario map[string]any
	fatal.If(t, json.Unmarshal([]byte(line), &scenario))
	scenario["name"] = name
	if !expecting {
		for _, step := range scenario["steps"].([]any) {
			delete(step.(map[string]any), "expect")
		}
	}
	text, err := json.Marshal(scenario)
	fatal.If(t, err)
	return string(text) + "\n"
}

// Altered is such a scenario with one part of its text replaced.
func Altered(t *testing.T, name, old, replacement string) string {
	t.Helper()
	line := Recorded(t, name, true)
	changed := strings.Replace(line, old, replacement, 1)
	if changed == line {
		t.Fatalf("%s is not in %s", old, line)
	}
	return changed
}
