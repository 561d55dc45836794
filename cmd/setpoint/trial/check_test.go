package trial

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

const flightOfExamples = "../../../examples/simulation/flight.jsonl.gz"

// What is wrong with the command line or a file is told, with exit code 2.
func TestChecksThatCannotBe(t *testing.T) {
	t.Parallel()
	hpa := "../../../examples/simulation/hpa.yaml"
	rules := clitest.File(t, "rules.yaml", "rules: {replicaHour: 5}\nlint: {failOn: x}\n")
	commands := clitest.File(t, "commands.jsonl", `{"name":"x\n::error::y\u001b","hpa":{"metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":3}},"steps":[{}]}`)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "give --git BASE...HEAD, or --old and --new"},
		{"both", []string{"--git=a..b", "--new", hpa}, "--git replaces --old and --new"},
		{"no new one", []string{"--old", hpa}, "--new is missing"},
		{"standard input twice", []string{"--old=-", "--new=-"}, "standard input, -, can be one of"},
		{"standard output twice", []string{"--new", hpa, "--sarif=-", "--junit=-"}, "standard output, -, can be one of"},
		{"standard output and JSON", []string{"--new", hpa, "--sarif=-", "-o=json"}, "standard output, -, can be one of"},
		{"rules", []string{"--new", hpa, "--rules", rules}, "did you mean replicaHours?"},
		{"rules, all problems", []string{"--new", hpa, "--rules", rules}, "lint.failOn"},
		{"no such file", []string{"--new=nowhere.yaml"}, "no such file"},
		{"no manifest", []string{"--new", rules}, "is not an autoscaler"},
		{"no such recording", []string{"--new", hpa, "--recording=nowhere"}, "--recording: stat nowhere"},
		{"no such recording of the rules", []string{"--new", hpa, "--rules", clitest.File(t, "here.yaml", "recordings: [nowhere]\n")}, "recordings, from where the command runs: stat nowhere"},
		{"a recording that is none", []string{"--new", hpa, "--recording", rules}, "can't be read"},
		{"an empty recording", []string{"--new", hpa, "--recording", clitest.File(t, "empty.jsonl", "")}, "empty.jsonl is empty: what should have written this recording may have failed"},
		{"nothing on standard input", []string{"--new", hpa, "--recording=-"}, "setpoint: - is empty"},
		{"a recording with commands of a runner", []string{"--new", hpa, "--recording", commands}, "commands.jsonl:1: x; ::error::y�: steps[0].time: must be set\n"},
		{"a report that can't be written", []string{"--new", hpa, "--markdown=/no/such"}, "writing the report: open /no/such"},
		{"reports in one file", []string{"--new", hpa, "--markdown=q", "--junit=./q"}, "need a file each"},
		{"no time", []string{"--new", hpa, "--time-limit=0s"}, "--time-limit must be more"},
		{"too much", []string{"--new", hpa, "--recording", flightOfExamples, "--time-limit=1ms"}, "took longer than 1ms, its --time-limit, and comes to no verdict"},
		{"too much, of a range", []string{"--git=HEAD..HEAD", "--time-limit=1ns"}, "took longer than 1ns, its --time-limit"},
		{"a quantity", []string{"--new", hpa, "--cpu-limit=x"}, "--cpu-limit"},
		{"a range", []string{"--git=main"}, "must be BASE..HEAD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"check"}, tt.args...)...)
			if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, tt.want) || got.Stdout != "" {
				t.Errorf("exit code %d, want %q\n%s%s", got.Code, tt.want, got.Stderr, got.Stdout)
			}
		})
	}
}

// Specs come as kubectl and Helm write them, on standard input too, beside objects of other kinds.
func TestSpecsFromAnywhere(t *testing.T) {
	t.Parallel()
	hpa := testpages.Read(t, "../../../examples/simulation/hpa.yaml")
	helm := "---\n# Source: shop/templates/service.yaml\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\n# Source: shop/templates/hpa.yaml\n" + strings.Replace(hpa, "maxReplicas: 50", "maxReplicas: 40", 1)
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(hpa), "\n", "\n  ") + "\n  status: {currentReplicas: 3, desiredReplicas: 3, currentMetrics: null}\n"
	got := run(t, helm, "check", "--old", clitest.File(t, "list.yaml", list), "--new=-", "-o=json")
	var report check.Report
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil || got.Code != 0 {
		t.Fatalf("%v, exit code %d\n%s%s", err, got.Code, got.Stdout, got.Stderr)
	}
	if len(report.Specs) != 1 || report.Specs[0].What != check.Changed || report.Specs[0].Object != "shop/web" || report.Specs[0].Line == 0 || strings.Contains(got.Stdout, "null") {
		t.Errorf("%s", got.Stdout)
	}
}

// Items of a typed list, as of kubectl get --raw, say no kind; wherever the list says its own.
func TestItemsOfATypedListHaveItsKind(t *testing.T) {
	t.Parallel()
	items := "items:\n- metadata: {name: web, namespace: shop}\n  spec: {maxReplicas: %d, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n- metadata: {name: api, namespace: shop}\n  spec:\n    maxReplicas: 5\n    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}\n"
	kind := "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscalerList\n"
	for name, form := range map[string]string{"first": kind + items, "last": items + kind} {
		got := run(t, fmt.Sprintf(form, 8), "check", "--old", clitest.File(t, "old.yaml", fmt.Sprintf(form, 9)), "--new=-", "-o=json")
		var report check.Report
		if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil || len(report.Specs) != 2 {
			t.Fatalf("%s: %v, exit code %d\n%s%s", name, err, got.Code, got.Stdout, got.Stderr)
		}
		line := 1 + strings.Count(form[:strings.Index(form, "  spec:")], "\n")
		if s := report.Specs[0]; s.Kind != "HorizontalPodAutoscaler" || s.Object != "shop/web" || s.Line != line {
			t.Errorf("%s: %s %s, line %d, want %d", name, s.Kind, s.Object, s.Line, line)
		}
	}
}

// A failing change exits with 1, and one form may replace the text.
func TestCheckTellsItsVerdict(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	folder := t.TempDir()
	name := filepath.Join(folder, "a.jsonl.gz.1") // that an agent has left
	if err := os.Link(flightOfExamples, name); err != nil {
		data := testpages.Read(t, flightOfExamples)
		fatal.If(t, os.WriteFile(name, []byte(data), 0o600))
	}
	args := []string{"check", "--old=../../../examples/simulation/hpa.yaml", "--new=../../../examples/simulation/careful.yaml", "--recording", folder, "--cpu-limit=1", "--idle=cpu=20m"}
	got := run(t, "", args...)
	if got.Code != cli.ExitFailed || got.Stderr != "" {
		t.Errorf("exit code %d\n%s", got.Code, got.Stderr)
	}
	// The replica hours are those of setpoint backtest, docs/guides/simulation.md.
	says(t, got.Stdout, []string{
		"failed   at most 5 % more replica hours than the old spec", "45.1 → 61.68 (+36.7 %)", "  old      ▂", "open loop: ", "closed loop: ",
		"asked to reproduce what really happened", "not whether the load follows the count", "failed: 1 autoscaler changes; 1 failed\n",
	})
	if summary := run(t, "", append(args, "--markdown=-")...); summary.Code != cli.ExitFailed || !strings.HasPrefix(summary.Stdout, "## ❌ setpoint check: failed") {
		t.Errorf("exit code %d\n%s", summary.Code, summary.Stdout)
	}
}
