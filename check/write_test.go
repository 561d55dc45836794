package check_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The address of the rules is that of the check's, not that of lint's.
func TestTheRunHasItsOwnPage(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := new(check.Report).WriteSARIF(&out, "v1"); err != nil || !strings.Contains(out.String(), `"informationUri": "`+check.Page+`"`) {
		t.Errorf("%v\n%.400s", err, out.String())
	}
}

// Of a target in two clusters it is told which one a result is about.
func TestResultsHaveTheirCluster(t *testing.T) {
	t.Parallel()
	of := func(cluster string) *check.Report {
		return &check.Report{Specs: []*check.SpecReport{{Object: "shop/web", Cluster: cluster, File: "web.yaml", Results: []check.Result{{Rule: "bounds", Status: check.Failed}}}}}
	}
	for name, write := range map[string]func(*check.Report, io.Writer) error{
		"text": (*check.Report).WriteText, "Markdown": (*check.Report).WriteMarkdown, "JUnit": (*check.Report).WriteJUnit, "JSON": (*check.Report).WriteJSON,
		"SARIF": func(r *check.Report, w io.Writer) error { return r.WriteSARIF(w, "v1") },
	} {
		var east, west strings.Builder
		fatal.If(t, errors.Join(write(of("east"), &east), write(of("west"), &west)))
		if east.String() == west.String() || !strings.Contains(east.String(), "east") {
			t.Errorf("%s: %s", name, east.String())
		}
	}
}

// Runners of GitHub trim blanks before they look for a command.
func TestNoLineIsACommandOfTheRunner(t *testing.T) {
	t.Parallel()
	const evil = "::error title=Build::run this.yaml"
	var out strings.Builder
	r := &check.Report{Specs: []*check.SpecReport{{File: evil}}, Files: []check.Result{{File: evil}, {File: "  " + evil}}}
	fatal.If(t, r.WriteText(&out))
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("a command: %q", line)
		}
	}
	if strings.Count(out.String(), "./"+evil) != 3 {
		t.Errorf("%q", out.String())
	}
}
