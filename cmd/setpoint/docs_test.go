package main

import (
	"os"
	"testing"
)

func TestGeneratedDocumentsAreUpToDate(t *testing.T) {
	t.Parallel()
	for document, path := range map[string]string{
		"configuration":  "../../docs/reference/configuration.md",
		"example-config": "../../deploy/setpoint.yaml",
		"metrics":        "../../docs/reference/metrics.md",
	} {
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, "", "docs", document); got.Stdout != string(committed) {
			t.Errorf("%s is out of date: run make generate", path)
		}
	}
}
