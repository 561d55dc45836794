package main

import (
	"strings"
	"testing"

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
