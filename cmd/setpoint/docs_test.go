package main

import (
	"os"
	"testing"
)

func TestGeneratedDocumentsAreUpToDate(t *testing.T) {
	t.Parallel()
	for path, args := range map[string][]string{
		"../../deploy/setpoint.yaml":           {"docs", "example-config"},
		"../../docs/reference/metrics.md":      {"docs", "metrics"},
		"../../docs/reference/check.md":        {"docs", "check"},
		"../../docs/reference/cli/setpoint.md": {"man", "--markdown"},
	} {
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, "", args...); got.Stdout != string(committed) {
			t.Errorf("%s is out of date: run make generate", path)
		}
	}
}
