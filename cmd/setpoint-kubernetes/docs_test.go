package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

func TestTheMetricsOfAgentsAreUpToDate(t *testing.T) {
	t.Parallel()
	committed := testpages.Read(t, "../../docs/reference/metrics-agents.md")
	text, err := metricsDocument()
	fatal.If(t, err)
	if text != committed {
		t.Error("docs/reference/metrics-agents.md is out of date: run make generate")
	}
}

// Whatever metric of an agent a page names is in the reference.
func TestPagesNameMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	text, err := metricsDocument()
	fatal.If(t, err)
	named := regexp.MustCompile(`setpoint_(?:agent|samples)_[a-z_]+[a-z]`)
	for _, page := range []string{"guides/kubernetes", "operate/observability", "guides/metric-sources"} {
		content := testpages.Read(t, "../../docs/"+page+".md")
		for _, name := range named.FindAllString(content, -1) {
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
