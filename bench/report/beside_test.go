package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestTwoBuildsBesideEachOther(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name string, figures ...Figure) string {
		text, err := json.Marshal(Report{Scenarios: []Scenario{{Title: "REST", Figures: figures}}})
		fatal.If(t, err)
		file := filepath.Join(folder, name)
		fatal.If(t, os.WriteFile(file, text, 0o600))
		return file
	}
	rate := func(runs ...float64) Figure { return Figure{Name: "rate", Unit: "%", Goal: AtLeast(50), Runs: runs} }
	older := []string{write("1", rate(70), Figure{Name: "no goal", Runs: []float64{1}}), write("2", rate(90)), write("3", rate(80))}
	newer := []string{write("4", rate(60, 100), Figure{Name: "new", Unit: "ms", Goal: AtMost(5), Runs: []float64{2}}), write("5", rate(88))}
	var out bytes.Buffer
	fatal.If(t, RunBeside(append(append(older, "--"), newer...), &out))
	want := `| What | Goal | Old | New | New of old |
|---|---:|---:|---:|---:|
| REST: rate | ≥ 50.0 % | 80.0 % (70.0 % … 90.0 %) | 88.0 % (60.0 % … 100 %) | 1.100 |
| REST: new | ≤ 5.00 ms | – | 2.00 ms (2.00 ms … 2.00 ms) | – |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for name, args := range map[string][]string{"none": nil, "one side": {older[0], "--"}, "no file": {filepath.Join(folder, "none"), "--", older[0]}} {
		if err := RunBeside(args, &out); err == nil || strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%s: no error", name)
		}
	}
}
