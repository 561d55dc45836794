package main

import (
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
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

func TestLintPageIsUpToDate(t *testing.T) {
	t.Chdir("../..")
	committed, err := os.ReadFile("docs/reference/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, "", "docs", "lint"); got.Stdout != string(committed) {
		t.Error("docs/reference/lint.md is out of date: run make generate")
	}
	got := run(t, "", "lint", lintedExample)
	if got.Code != cli.ExitFailed || got.Stderr != "" || !strings.Contains(string(committed), "```\n"+got.Stdout+"```") {
		t.Errorf("exit code %d; docs/reference/lint.md does not show what the command prints:\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}
