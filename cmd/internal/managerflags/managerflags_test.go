package managerflags

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// docs/reference/profiles.md has the flags and what they stand for.
func TestFlagsOfTheControllerManagerAreDocumented(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../../docs/reference/profiles.md")
	rows := map[string][]string{}
	for line := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if name, ok := strings.CutPrefix(cells[0], "`--"); ok && strings.Contains(name, "horizontal-pod-autoscaler") {
			rows[strings.TrimSuffix(name, "`")] = cells
		}
	}
	if len(rows) != len(All) {
		t.Errorf("the table has %d flags, there are %d", len(rows), len(All))
	}
	for _, f := range All {
		cells := rows[f.Name]
		if len(cells) != 4 {
			t.Errorf("%s: %q", f.Name, cells)
			continue
		}
		for i, own := range []string{f.Serve, f.Agent} {
			want := "–"
			if own != "" {
				want = "`--" + own + "`"
			}
			if cells[2+i] != want {
				t.Errorf("%s: the table says %s, want %s", f.Name, cells[2+i], want)
			}
		}
	}
}
