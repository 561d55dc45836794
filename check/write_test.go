package check_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/check"
)

// The address of the rules is that of the check's, not that of lint's.
func TestTheRunHasItsOwnPage(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := new(check.Report).WriteSARIF(&out, "v1"); err != nil || !strings.Contains(out.String(), `"informationUri": "`+check.Page+`"`) {
		t.Errorf("%v\n%.400s", err, out.String())
	}
}

// Runners of GitHub trim blanks before they look for a command.
func TestNoLineIsACommandOfTheRunner(t *testing.T) {
	t.Parallel()
	const evil = "::error title=Build::run this.yaml"
	var out strings.Builder
	r := &check.Report{Specs: []*check.SpecReport{{File: evil}}, Files: []check.Result{{File: evil}, {File: "  " + evil}}}
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("a command: %q", line)
		}
	}
	if strings.Count(out.String(), "./"+evil) != 3 {
		t.Errorf("%q", out.String())
	}
}
