package serve

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// Everything named on the operators' page exists.
func TestThePageForOperatorsIsUpToDate(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../../docs/operate/observability.md")
	families, err := allMetrics()
	fatal.If(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, name := range regexp.MustCompile(`setpoint_[a-z_]+`).FindAllString(page, -1) {
		if !slices.Contains(names, name) {
			t.Errorf("there is no metric %s", name)
		}
	}
	flags := New().Flags()
	for _, flag := range regexp.MustCompile("--([a-z][a-z-]+)").FindAllStringSubmatch(page, -1) {
		if flags.Lookup(flag[1]) == nil {
			t.Errorf("there is no flag --%s", flag[1])
		}
	}
	for _, p := range adminPages(nil, newRegistry()) {
		if strings.Count(p.Path, "/") < 3 || strings.HasSuffix(p.Path, "/") { // each of pprof's is too much
			if !strings.Contains(page, "`"+p.Path+"`") {
				t.Errorf("nothing is said of %s", p.Path)
			}
		}
	}
}
