package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, args, want string
	}{
		{"nothing", "", ""},
		{"some", "-scenario unary -runs 3 -duration 100ms", ""},
		{"a rest", "unary", `unexpected argument "unary"`},
		{"no runs", "-runs 0", "must be positive"},
		{"few targets", "-targets 9", "at least 1024"},
		{"bad pattern", "-scenario [", "-scenario: "},
		{"some into the document", "-scenario unary -update x.md", "-update replaces all tables"},
	} {
		_, err := parse(strings.Fields(tc.args))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestReportsAreWritten(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	o := &options{json: filepath.Join(folder, "r.json"), markdown: filepath.Join(folder, "r.md")}
	fatal.If(t, o.write(&report.Report{Scenarios: []report.Scenario{{Name: "x", Title: "A title"}}}))
	for file, want := range map[string]string{o.json: `"name": "x"`, o.markdown: "### A title"} {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s holds %q (%v), want %q", file, text, err, want)
		}
	}
}
