package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// Every command that takes a spec takes it in each form in which users have it.
func TestSpecsAreReadInEveryForm(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	const spec = `{minReplicas: 5, maxReplicas: 5, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}`
	address := clitest.StartServer(t)
	for form, text := range map[string]string{
		"manifest":   "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n" + indented("  ", spec),
		"autoscaler": "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nmetadata: {name: web}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n" + indented("  ", spec),
		"stored":     "period: 10s\nassumeApplied: true\nspec:\n" + indented("  ", spec),
		"request":    "scale: {specReplicas: 3}\npods: []\nspec: " + spec,
		"spec":       indented("", spec),
	} {
		file := clitest.File(t, form+".yaml", text)
		line := 1 + strings.Count(text[:strings.Index(text, "maxReplicas")], "\n")
		commands := map[string]struct {
			args []string
			want string
		}{
			"lint":     {[]string{file, "-o", "json", "--fail-on=never"}, `"rule":"min-equals-max"`},
			"simulate": {[]string{"-f", simulated, file}, "5 to 5"},
			"tune":     {[]string{"-f", simulated, file, "--candidates=1", "--max-short=100", "--max-reversals=1000"}, "maxReplicas: 5"},
			"replay":   {[]string{"--spec", file, "../../examples/simulation/flight.jsonl.gz"}, "0 compared"},
			"backtest": {[]string{"--spec", file, "../../examples/simulation/flight.jsonl.gz"}, "this spec"},
			"specs":    {[]string{"set", demoTarget, "-f", file, "--server", address}, "Replicas   5 to 5"},
		}
		for command, tt := range commands {
			// All read a file with the same function.
			if command != "lint" && command != "simulate" && form != "spec" {
				continue
			}
			got := run(t, "", append([]string{command}, tt.args...)...)
			if got.Code != 0 || !strings.Contains(got.Stdout, tt.want) || strings.Contains(got.Stdout, "no matches for /") {
				t.Errorf("%s %s: exit code %d, no %q in\n%.2000s%s", command, form, got.Code, tt.want, got.Stdout, got.Stderr)
			}
			if want := `"line":` + string(rune('0'+line)); command == "lint" && !strings.Contains(got.Stdout, want) {
				t.Errorf("lint %s: no %s in\n%s", form, want, got.Stdout)
			}
		}
	}
}

// indented is a spec's flow mapping as lines of a block.
func indented(by, spec string) string {
	return by + strings.ReplaceAll(strings.Trim(spec, "{}"), "5, m", "5\n"+by+"m") + "\n"
}

// Options of a spec count where it is tried on recordings, in place of the recorded ones; a change that takes one away brings the
// default back.
func TestOptionsOfSpecsCountOnRecordings(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	const flight, body = "../../examples/simulation/flight.jsonl.gz", "spec:\n  minReplicas: 2\n  maxReplicas: 50\n  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n"
	plain, own := clitest.File(t, "plain.yaml", body), clitest.File(t, "own.yaml", "options: {tolerance: \"0.5\"}\n"+body)
	checked := func(old, now string) *check.History {
		got := run(t, "", "check", "--old", old, "--new", now, "--recording", flight, "-o", "json")
		var report check.Report
		if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil || len(report.Specs) != 1 || report.Specs[0].History == nil {
			t.Fatalf("%v, exit code %d\n%s%s", err, got.Code, got.Stdout, got.Stderr)
		}
		return report.Specs[0].History
	}
	there, back := checked(plain, own), checked(own, plain)
	if there.DifferentSteps == 0 || there.DifferentSteps != back.DifferentSteps || there.Old.ReplicaHours != back.New.ReplicaHours || there.New.ReplicaHours != back.Old.ReplicaHours || there.New.ReplicaHours == there.Old.ReplicaHours {
		t.Errorf("check: %d steps differ, and %d; replica-hours %g → %g, and %g → %g", there.DifferentSteps, back.DifferentSteps,
			there.Old.ReplicaHours, there.New.ReplicaHours, back.Old.ReplicaHours, back.New.ReplicaHours)
	}
	for command, args := range map[string][]string{"backtest": {"-o", "json"}, "replay": {}} {
		decided := func(spec string) string {
			got := run(t, "", append([]string{command, "--spec", spec, flight}, args...)...)
			if got.Code != 0 {
				t.Fatalf("%s: exit code %d\n%s", command, got.Code, got.Stderr)
			}
			return got.Stdout
		}
		if decided(plain) == decided(own) {
			t.Errorf("%s: the options make no difference", command)
		}
	}
}
