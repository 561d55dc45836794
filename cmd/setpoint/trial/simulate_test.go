package trial

import (
	"encoding/json"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

const (
	simulated   = "../../../examples/simulation/web.yaml"
	simulatedBy = "../../../examples/simulation/hpa.yaml"
	careful     = "../../../examples/simulation/careful.yaml"
)

func TestSimulateWritesEachForm(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"table": "\nreplica-hours ", "csv": "spec,time,offset_seconds,load,", "svg": `<svg xmlns="http://www.w3.org/2000/svg"`, "html": "<!doctype html>",
	} {
		got := run(t, "", "simulate", "-f", simulated, simulatedBy, "-o", form)
		if got.Code != 0 || got.Stderr != "" || !strings.Contains(got.Stdout, want) {
			t.Errorf("%s: exit code %d, %s, no %q in the output", form, got.Code, got.Stderr, want)
		}
	}
}

// A page shows what was simulated: the scenario as it was written, and of each file the spec alone, with its stages.
func TestThePageHasItsInputs(t *testing.T) {
	t.Parallel()
	spec := clitest.File(t, "both.yaml", `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, annotations: {password: hunter2, setpoint.dev/stages: '{"windowThroughFailures": true}'}}
spec: {maxReplicas: 37, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`)
	text := testpages.Read(t, simulated)
	got := run(t, "", "simulate", "-f", simulated, "--compare", spec, careful, "-o", "html")
	page := html.UnescapeString(got.Stdout)
	if got.Code != 0 || strings.Contains(page, "hunter2") {
		t.Errorf("exit code %d, %s; what is beside the spec is shown: %t", got.Code, got.Stderr, strings.Contains(page, "hunter2"))
	}
	for _, want := range []string{"<summary>" + spec + "</summary>", "<summary>" + careful + "</summary>", "<pre>" + text, "maxReplicas: 37\n", "windowThroughFailures: true"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// The load becomes a script of k6: lines between points, jumps, and nothing after the end.
func TestTheLoadIsExported(t *testing.T) {
	t.Parallel()
	scenario := clitest.File(t, "s.yaml", `duration: 10m
load:
  - points: [{at: 0s, value: 10}, {at: 2m, value: 40}, {at: 2m, value: 5}, {at: 4m, value: 5}, {at: 24m, value: 25}]
workload: {usage: [{metric: cpu, perLoad: 10m}]}
`)
	got := run(t, "", "simulate", "-f", scenario, "--export=k6")
	const want = `      startRate: 600,
      preAllocatedVUs: 10,
      maxVUs: Number(__ENV.VUS || 1000),
      stages: [
        { duration: '2m0s', target: 2400 },
        { duration: '0s', target: 300 },
        { duration: '2m0s', target: 300 },
        { duration: '6m0s', target: 660 },
      ],
`
	if got.Code != 0 || got.Stderr != "" || !strings.Contains(got.Stdout, want) {
		t.Errorf("exit code %d, %s\n%s\nwant\n%s", got.Code, got.Stderr, got.Stdout, want)
	}
	noise := clitest.File(t, "n.yaml", "duration: 400h\nload: [{constant: 10}]\nnoise: {variation: 0.1, every: 1m}\nworkload: {usage: [{metric: cpu, perLoad: 10m}]}\n")
	for want, args := range map[string][]string{
		`"jmeter" is not k6`:     {"--export=jmeter"},
		"without SPEC":           {"--export=k6", simulatedBy},
		"--compare and --output": {"--export=k6", "-o", "csv"},
		"more than 20000 stages": {"--export=k6", "-f", noise},
		"an argument is missing": {},
	} {
		if got := run(t, "", append([]string{"simulate", "-f", scenario}, args...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%v: exit code %d, %s", args, got.Code, got.Stderr)
		}
	}
}

// Each autoscaler has 5,760 evaluations and its figures after them.
func TestSimulateComparesSpecs(t *testing.T) {
	t.Parallel()
	got := run(t, "", "simulate", "-f", simulated, "--compare", simulatedBy, careful, "-o", "json")
	lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
	if got.Code != 0 || len(lines) != 2*5761 {
		t.Fatalf("exit code %d, %d lines\n%s", got.Code, len(lines), got.Stderr)
	}
	hours := map[string]float64{}
	for _, i := range []int{5760, 11521} {
		var last struct {
			Spec    string
			Figures struct {
				Steps        int
				ReplicaHours float64
			}
		}
		if err := json.Unmarshal([]byte(lines[i]), &last); err != nil || last.Figures.Steps != 5760 {
			t.Fatalf("line %d: %v\n%s", i+1, err, lines[i])
		}
		hours[last.Spec] = last.Figures.ReplicaHours
	}
	if hours[careful] <= hours[simulatedBy] {
		t.Errorf("a lower target takes no more: %v", hours)
	}
}

func TestSimulateIsRepeatableAndDependsOnTheSeed(t *testing.T) {
	t.Parallel()
	of := func(args ...string) string {
		return run(t, "", append([]string{"simulate", "-f", simulated, simulatedBy, "-o", "csv"}, args...)...).Stdout
	}
	first := of()
	if first != of("--seed", "1") {
		t.Error("two runs with the file's seed differ")
	}
	if first == of("--seed", "2") {
		t.Error("another seed makes no difference")
	}
}

func TestSimulateUsesTheProfile(t *testing.T) {
	t.Parallel()
	got := run(t, "", "simulate", "-f", simulated, simulatedBy, "--profile", "cooldown")
	if got.Code != 0 || !strings.Contains(got.Stdout, "2880 evaluations") {
		t.Errorf("exit code %d, want the 30 s that v1.6 waited\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// Specs of versions with different periods have one only if the scenario gives it: their order does not matter.
func TestSimulatePacesSpecsOfSeveralProfiles(t *testing.T) {
	t.Parallel()
	const load = "duration: 1h\nload: [{constant: 5}]\nworkload: {requests: {cpu: 500m}, usage: [{metric: cpu, perLoad: 10m}]}\n"
	old := clitest.File(t, "old.yaml", "options: {profile: cooldown}\nspec:\n  maxReplicas: 9\n  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n")
	for _, specs := range [][]string{{simulatedBy, old}, {old, simulatedBy}} {
		got := run(t, load, append([]string{"simulate", "-f", "-", "--compare"}, specs...)...)
		if want := "-: loop.syncPeriod: the specs' profiles "; got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%v: exit code %d, stderr:\n%swant 2 and %q", specs, got.Code, got.Stderr, want)
		}
		if got := run(t, load+"loop: {syncPeriod: 60s}\n", append([]string{"simulate", "-f", "-", "--compare"}, specs...)...); got.Code != 0 || !strings.Contains(got.Stdout, "60 evaluations") {
			t.Errorf("%v with a period: exit code %d\n%s%s", specs, got.Code, got.Stdout, got.Stderr)
		}
	}
}

func TestSimulateRefusesBadInput(t *testing.T) {
	t.Parallel()
	const workload = "workload: {usage: [{metric: cpu, perLoad: 10m}]}\n"
	for _, tt := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"no scenario", "", []string{simulatedBy}, "--file is required"},
		{"no spec", "", []string{"-f", simulated}, "an argument is missing"},
		{"two specs", "", []string{"-f", simulated, simulatedBy, careful}, "--compare runs them side by side"},
		{"nothing to compare with", "", []string{"-f", simulated, "--compare", careful}, "--compare needs at least two specs"},
		{"a spec that is none", "", []string{"-f", simulated, simulated}, "is not an autoscaler"},
		{"a scenario that is none", "load: 5\n", []string{"-f", "-", simulatedBy}, "-:1: workload is missing"},
		{"an empty scenario", "", []string{"-f", "-", simulatedBy}, "-: is empty"},
		{"a file that is not there", "", []string{"-f", "nowhere.yaml", simulatedBy}, "open nowhere.yaml: no such file"},
		{"a load that is not there", "load: [{csv: {file: nowhere.csv}}]\n" + workload, []string{"-f", "-", simulatedBy}, "load[0].csv: open nowhere.csv: no such file"},
		{"no usage for a metric", "load: [{constant: 5}]\nworkload: {usage: [{metric: memory, perLoad: 1Mi}]}\n", []string{"-f", "-", simulatedBy}, "workload.usage: has no cpu"},
		{"too long a loop", "load: [{constant: 5}]\nduration: 8784h\nloop: {syncPeriod: 1s}\n" + workload, []string{"-f", "-", simulatedBy}, "are 31622400 evaluations, more than 2200000"},
		{"an unknown form", "", []string{"-f", simulated, simulatedBy, "-o", "xml"}, "must be one of [table json csv svg html]"},
		{"an unknown profile", "", []string{"-f", simulated, simulatedBy, "--profile", "v9"}, `invalid argument "v9" for "--profile" flag: "v9" is not one of v1.`},
		{"a tolerance in percent", "", []string{"-f", simulated, simulatedBy, "--tolerance=10%"}, `invalid argument "10%" for "--tolerance" flag: must be a decimal number or a quantity, such as 0.1 or 100m`},
		{"a window below 0", "", []string{"-f", simulated, simulatedBy, "--downscale-stabilization=-1m"}, `for "--downscale-stabilization" flag: -1m0s is negative`},
		{"a delay without a unit", "", []string{"-f", simulated, simulatedBy, "--upscale-delay=90"}, `for "--upscale-delay" flag: must be a duration such as 30s or 1h: write 90s`},
		{"a large scenario", strings.Repeat("#", 2<<20), []string{"-f", "-", simulatedBy}, "-: larger than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.stdin, append([]string{"simulate"}, tt.args...)...)
			if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, tt.want) || got.Stdout != "" {
				t.Errorf("exit code %d, stderr:\n%s\nstdout:\n%s\nwant 2 and %q", got.Code, got.Stderr, got.Stdout, tt.want)
			}
		})
	}
}

// A simulation that would take too long ends with what to do about it.
func TestSimulateEndsSimulationsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	scenario := clitest.File(t, "s.yaml", "load: [{constant: 1}]\nworkload: {grace: 1h, usage: [{metric: cpu, perLoad: 10m}]}\nevents: [{at: 5s, replicas: 20000}, {at: 6s, replicas: 0}, {at: 7s, replicas: 20000}]\n")
	got := run(t, "", "simulate", "-f", scenario, simulatedBy)
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "the simulation is too large: at ") || !strings.Contains(got.Stderr, "shorten it") {
		t.Errorf("exit code %d\n%s", got.Code, got.Stderr)
	}
}

// The page shows what the example prints.
func TestThePageShowsWhatTheExamplePrints(t *testing.T) {
	t.Chdir("../../..")
	page := testpages.Read(t, "docs/guides/simulation.md")
	got := run(t, "", "simulate", "-f", "examples/simulation/web.yaml", "examples/simulation/hpa.yaml")
	lines := strings.SplitAfter(got.Stdout, "\n")
	if got.Code != 0 || len(lines) < 25 || !strings.Contains(page, strings.Join(lines[:25], "")) {
		t.Errorf("exit code %d, or docs/guides/simulation.md does not show:\n%s", got.Code, strings.Join(lines[:min(25, len(lines))], ""))
	}
	example, err := os.ReadFile("examples/simulation/web.yaml")
	if err != nil || !strings.Contains(page, string(example)) {
		t.Errorf("%v, or docs/guides/simulation.md does not show the scenario", err)
	}
}

const (
	clusters   = "../../../docs/concepts/scenarios/fleets.yaml"
	clustersBy = "../../../docs/concepts/scenarios/fleets-spec.yaml"
)

// A scenario with a fleet has a column for each rule, in every form.
func TestSimulateRunsFleets(t *testing.T) {
	t.Parallel()
	for form, wants := range map[string][]string{
		"table": {"hold", "surviveOne", "karmada", "replicas moved", "replicas of west"},
		"csv":   {"\nshift,2026-01-05T00:00:15Z,"},
		"json":  {`"members":[{"name":"east","share":4,"replicas":4,"ready":4}`, `"movedReplicas":`, `"mostReplicas":`},
		"svg":   {"Replicas of each member, shift"},
		"html":  {"replicas moved", "Replicas of each member, shift"},
	} {
		got := run(t, "", "simulate", "-f", clusters, clustersBy, "-o", form)
		if got.Code != 0 || got.Stderr != "" {
			t.Fatalf("%s: exit code %d, %s", form, got.Code, got.Stderr)
		}
		for _, want := range wants {
			if !strings.Contains(got.Stdout, want) {
				t.Errorf("%s: no %q in\n%.3000s", form, want, got.Stdout)
			}
		}
	}
	for want, args := range map[string][]string{
		"--compare: a scenario with a fleet compares rules of one spec":                            {"simulate", "-f", clusters, "--compare", clustersBy, simulatedBy},
		"fleet: only setpoint simulate, the page and SimulationService run scenarios with a fleet": {"tune", "-f", clusters, clustersBy},
		"fleets-spec.yaml: fleet: a fleet of 1 members":                                            {"simulate", "-f", "-", clustersBy},
	} {
		const alone = "load: [{constant: 1}]\nworkload: {usage: [{metric: cpu, perLoad: 1m}]}\nfleet: {members: [{name: a}]}\n"
		if got := run(t, alone, args...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%v: exit code %d, %s, want %q", args, got.Code, got.Stderr, want)
		}
	}
	own := clitest.File(t, "own.yaml", "load: [{constant: 1}]\nworkload: {usage: [{metric: cpu, perLoad: 1m}]}\nfleet: {members: [{name: a, load: [{constant: 1}]}]}\n")
	if got := run(t, "", "simulate", "-f", own, "--export=k6"); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "members have load of their own") {
		t.Errorf("exit code %d, %s", got.Code, got.Stderr)
	}
}
