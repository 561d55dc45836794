package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheMetricsOfAgentsAreUpToDate(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../docs/reference/metrics-agents.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := metricsDocument()
	if err != nil {
		t.Fatal(err)
	}
	if text != string(committed) {
		t.Error("docs/reference/metrics-agents.md is out of date: run make generate")
	}
}

// Whatever metric of an agent a page names is in the reference.
func TestPagesNameMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	text, err := metricsDocument()
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`setpoint_(?:agent|samples)_[a-z_]+[a-z]`)
	for _, page := range []string{"guides/kubernetes", "operate/observability", "guides/metric-sources"} {
		content, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(content), -1) {
			base := name
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				base = strings.TrimSuffix(base, part)
			}
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+base+"`") {
				t.Errorf("docs/%s.md names %s, which docs/reference/metrics-agents.md does not", page, name)
			}
		}
	}
}
