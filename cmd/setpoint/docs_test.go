package main

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

func TestGeneratedDocumentsAreUpToDate(t *testing.T) {
	t.Parallel()
	for path, args := range map[string][]string{
		"../../deploy/setpoint.yaml":           {"docs", "example-config"},
		"../../docs/reference/metrics.md":      {"docs", "metrics"},
		"../../docs/reference/check.md":        {"docs", "check"},
		"../../docs/reference/cli/setpoint.md": {"man", "--markdown"},
	} {
		committed := testpages.Read(t, path)
		if got := run(t, "", args...); got.Stdout != committed {
			t.Errorf("%s is out of date: run make generate", path)
		}
	}
}

func TestLintPageIsUpToDate(t *testing.T) {
	t.Chdir("../..")
	committed := testpages.Read(t, "docs/reference/lint.md")
	if got := run(t, "", "docs", "lint"); got.Stdout != committed {
		t.Error("docs/reference/lint.md is out of date: run make generate")
	}
	got := run(t, "", "lint", lintedExample)
	if got.Code != cli.ExitFailed || got.Stderr != "" || !strings.Contains(committed, "```\n"+got.Stdout+"```") {
		t.Errorf("exit code %d; docs/reference/lint.md does not show what the command prints:\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}
