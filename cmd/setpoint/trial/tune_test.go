package trial

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/tune"
)

// The tuned spec is a manifest that simulate takes, and it is cheaper there, too.
func TestTunePrintsASpecThatIsCheaper(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	got := run(t, "", "tune", "-f", simulated, simulatedBy, "--candidates=60", "--max-lost=0.5", "--max-reversals=20", "-o", "yaml")
	if got.Code != 0 || got.Stderr != "" {
		t.Fatalf("exit code %d\n%s", got.Code, got.Stderr)
	}
	hours := func(spec string) (out float64) {
		t.Helper()
		text := run(t, "", "simulate", "-f", simulated, spec, "-o", "json").Stdout
		lines := strings.Split(strings.TrimSpace(text), "\n")
		var last struct {
			Figures struct{ RunningHours, ShortSeconds float64 }
		}
		fatal.If(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
		if last.Figures.ShortSeconds > 0.005*86400 {
			t.Errorf("%s is short for %g s", spec, last.Figures.ShortSeconds)
		}
		return last.Figures.RunningHours
	}
	tuned := clitest.File(t, "tuned.yaml", got.Stdout)
	if before, after := hours(simulatedBy), hours(tuned); after >= before {
		t.Errorf("%g pod-hours, before %g\n%s", after, before, got.Stdout)
	}
}

// A search keeps the stages: they take part in each run, the manifest has them, and no minReplicas is above a
// schedule's.
func TestTuneKeepsStages(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	world := clitest.File(t, "world.yaml", "duration: 4h\nstart: 2026-11-23T00:00:00Z\nload: [{constant: 20}]\nworkload: {requests: {cpu: 500m}, capacity: 30, usage: [{metric: cpu, perLoad: 10m}]}\n")
	stages := `{schedules: [{name: all, timeZone: UTC, cron: "0 0 1 1 *", duration: 86400s, minReplicas: 3}, {name: day, timeZone: UTC, cron: "0 0 * * *", duration: 82800s, minReplicas: 7}]}`
	spec := clitest.File(t, "spec.yaml", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, annotations: {setpoint.dev/stages: '`+stages+`'}},
 spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, minReplicas: 1, maxReplicas: 20,
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}`)
	got := run(t, "", "tune", "-f", world, spec, "--candidates=30", "--vary=minReplicas,target", "-o", "json")
	if got.Code != 0 {
		t.Fatalf("exit code %d\n%s", got.Code, got.Stderr)
	}
	var out tunedJSON
	fatal.If(t, json.Unmarshal([]byte(got.Stdout), &out))
	for _, c := range append(out.Front, *out.Best, out.Given) {
		var spec struct{ MinReplicas int32 }
		fatal.If(t, json.Unmarshal(c.Spec, &spec))
		if c.Searched.AveragePods < 6.5 || spec.MinReplicas > 3 {
			t.Errorf("minReplicas %d, %g pods", spec.MinReplicas, c.Searched.AveragePods)
		}
	}
	manifest := run(t, "", "tune", "-f", world, spec, "--candidates=30", "--vary=minReplicas,target", "-o", "yaml").Stdout
	if strings.Contains(manifest, "[]") || !strings.Contains(manifest, `{"schedules":[{`) {
		t.Errorf("stages that are not set stand in the annotation:\n%s", manifest)
	}
	if again := run(t, manifest, "simulate", "-f", world, "-", "-o", "json"); again.Code != 0 || !strings.Contains(again.Stdout, `"replicas":7`) {
		t.Errorf("exit code %d\n%s\n%.500s%s", again.Code, manifest, again.Stdout, again.Stderr)
	}
}

// What lint warns of a schedule is by the scenario's time, whenever the search runs.
func TestTuneLintsByTheScenariosTime(t *testing.T) {
	t.Parallel()
	world := clitest.File(t, "world.yaml", "duration: 1h\nstart: 2020-11-27T00:00:00Z\nload: [{constant: 40}]\nworkload: {requests: {cpu: 500m}, capacity: 30, usage: [{metric: cpu, perLoad: 10m}]}\n")
	spec := `{stages: {schedules: [{name: sale, timeZone: UTC, at: "2020-11-27T00:20:00Z", duration: 600s, minReplicas: 3}]},
 spec: {minReplicas: 1, maxReplicas: 20, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 40}}}]}}`
	got := run(t, spec, "tune", "-f", world, "-", "--candidates=10", "--vary=target", "--max-short=100", "--max-lost=100", "-o", "json")
	var out tunedJSON
	if err := json.Unmarshal([]byte(got.Stdout), &out); err != nil || got.Code != 0 {
		t.Fatalf("exit code %d, %v\n%s", got.Code, err, got.Stderr)
	}
	if out.Refused > 0 || len(out.Best.Changes) == 0 {
		t.Errorf("%d are refused, and the chosen one has the changes %q", out.Refused, out.Best.Changes)
	}
}

// What is tuned comes out in its form, with what else it has.
func TestTuneKeepsTheForm(t *testing.T) {
	t.Parallel()
	world := clitest.File(t, "world.yaml", "duration: 1h\nload: [{constant: 40}]\nworkload: {requests: {cpu: 500m}, capacity: 30, usage: [{metric: cpu, perLoad: 10m}]}\n")
	const (
		spec   = "minReplicas: 1, maxReplicas: 20, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 40}}}]"
		scaled = "scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, " + spec
		meta   = "metadata: {name: web, uid: a, labels: {team: one}, annotations: {autoscaling.setpoint.dev/shadow: 'true', kubectl.kubernetes.io/last-applied-configuration: '{}'}}"
		own    = meta + ", spec: {" + scaled + ", syncPeriodSeconds: 30, options: {tolerance: '0.02'}, stages: {windowThroughFailures: true}}"
	)
	for name, tt := range map[string]struct {
		given       string
		has, hasNot []string
	}{
		"a stored spec":     {"name: clusters/a/namespaces/b/targets/c\nperiod: 10s\nspec: {" + spec + "}\n", []string{"name: clusters/a/namespaces/b/targets/c\n", "period: 10s\n", "maxReplicas: 20"}, []string{"scaleTargetRef", "kind:", "etag", "queries"}},
		"one of a workload": {"period: 10s\nspec: {" + scaled + "}\n", []string{"period: 10s\n", "kind: Deployment"}, []string{"apiVersion: autoscaling"}},
		"a manifest":        {"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, " + meta + ", spec: {" + scaled + "}}", []string{"shadow: \"true\"", "team: one"}, []string{"last-applied", "uid"}},
		"an Autoscaler":     {"{apiVersion: autoscaling.setpoint.dev/v1, kind: Autoscaler, " + own + "}", []string{"kind: Autoscaler", "setpoint.dev/v1\n", "syncPeriodSeconds: 30", "tolerance: \"0.02\"", "team: one"}, []string{"setpoint.dev/stages"}},
		"one in a list":     {"{apiVersion: autoscaling.setpoint.dev/v1, kind: AutoscalerList, items: [{" + own + "}]}", []string{"kind: Autoscaler\n", "setpoint.dev/v1\n", "syncPeriodSeconds: 30"}, []string{"items"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tuned := run(t, tt.given, "tune", "-f", world, "-", "--candidates=10", "--vary=target", "-o", "yaml")
			if !strings.Contains(tuned.Stdout, "averageUtilization: 40\n") || tuned.Stderr != unchanged+"\n" {
				t.Errorf("the given spec is chosen, and standard error does not say so: %q\n%s", tuned.Stderr, tuned.Stdout)
			}
			for _, text := range append(tt.has, tt.hasNot...) {
				if strings.Contains(tuned.Stdout, text) != slices.Contains(tt.has, text) {
					t.Errorf("%q is lost, or too much, in\n%s", text, tuned.Stdout)
				}
			}
			if again := run(t, tuned.Stdout, "lint", "--fail-on=never", "-"); again.Code != 0 {
				t.Errorf("lint: exit code %d\n%s%s", again.Code, again.Stdout, again.Stderr)
			}
			if other := run(t, tt.given, "tune", "-f", world, "-", "--candidates=10", "--vary=target", "--max-short=100", "--max-lost=100", "-o", "yaml"); strings.Contains(other.Stdout, "averageUtilization: 40\n") {
				t.Errorf("another target is chosen, and not written:\n%s%s", other.Stdout, other.Stderr)
			}
		})
	}
}

// What was searched is in what is written: the target of the metric that a spec without any has, and what a metric's own
// fallback says.
func TestTuneWritesWhatItHasSearched(t *testing.T) {
	t.Parallel()
	world := clitest.File(t, "world.yaml", "duration: 2h\nload: [{constant: 20}]\nworkload: {requests: {cpu: 500m}, capacity: 30, usage: [{metric: cpu, perLoad: 10m}]}\n")
	for _, spec := range []string{"{minReplicas: 1, maxReplicas: 20}\n", "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 20}}\n"} {
		var out tunedJSON
		args := []string{"tune", "-f", world, "-", "--candidates=40", "--vary=target", "--least-replicas=1"}
		got := run(t, spec, append(args, "-o=json")...)
		if err := json.Unmarshal([]byte(got.Stdout), &out); err != nil || got.Code != 0 {
			t.Fatalf("exit code %d, %v\n%s%s", got.Code, err, got.Stdout, got.Stderr)
		}
		for _, c := range append(out.Front, *out.Best) {
			_, target, changed := strings.Cut(strings.Join(c.Changes, "\n"), "target of cpu: 80 % → ")
			if target = strings.TrimSuffix(target, " %"); !changed {
				target = "80"
			}
			if !strings.Contains(string(c.Spec), `"averageUtilization":`+target+"}") {
				t.Errorf("after %q the spec is %s", c.Changes, c.Spec)
			}
		}
		if text := run(t, spec, append(args, "-o=yaml")...).Stdout; !strings.Contains(text, "averageUtilization: ") {
			t.Errorf("no target is written:\n%s", text)
		}
	}
	queue := clitest.File(t, "queue.yaml", "duration: 1h\nload: [{constant: 20}]\nworkload: {requests: {cpu: 500m}, capacity: 30, usage: [{metric: queue, perLoad: \"1\"}]}\n")
	got := run(t, "{minReplicas: 1, maxReplicas: 20, metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: \"10\"}, fallback: {replicas: 7}}}]}\n",
		"tune", "-f", queue, "-", "--candidates=5", "--vary=target", "-o=yaml")
	if got.Code != 0 || !strings.Contains(got.Stdout, "fallbacks:") || !strings.Contains(got.Stdout, "replicas: 7") {
		t.Errorf("exit code %d, the fallback is not written:\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// A run that is too large has no number of pods and of reversals: JSON says so, and does not fail.
func TestTuneWritesRunsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	large := tune.Score{Short: 1, Lost: 1, Reversals: math.Inf(1), Cost: math.Inf(1)}
	given := tune.Candidate{Spec: recommender.Spec{MaxReplicas: 3, Metrics: recommender.DefaultMetrics()}, Searched: tune.Score{Cost: 2}, Confirmed: large, Trials: []tune.Trial{{Name: tune.MoreLoad, Score: large, Allowed: large}}}
	var out strings.Builder
	err := writeTunedJSON(&out, &autoscalingv2.HorizontalPodAutoscaler{}, &tune.Result{Given: given})
	const want = `"confirmed":{"shortShare":1,"lostShare":1,"reversalsPerDay":null,"averagePods":null}`
	if err != nil || !json.Valid([]byte(out.String())) || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), `"reversalsPerDay":0,"averagePods":2}`) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Large counts, and goals as they were given.
func TestTuneWritesNumbersWithoutExponents(t *testing.T) {
	t.Parallel()
	of := func(cost, reversals float64) tune.Candidate {
		score := tune.Score{Reversals: reversals, Cost: cost}
		return tune.Candidate{Spec: recommender.Spec{MaxReplicas: 3, Metrics: recommender.DefaultMetrics()}, Searched: score, Trials: []tune.Trial{{Name: tune.MoreLoad, Score: score, Allowed: score}}}
	}
	given, best := of(1796.2, 1440), of(1762.8, 2880)
	lost := 0.23 / 100
	c := &tuneCommand{maxShort: 0.00001, goal: tune.Goal{MaxLost: &lost}}
	var out strings.Builder
	err := c.writeText(&out, &simulation.Scenario{}, &autoscalingv2.HorizontalPodAutoscaler{}, &tune.Result{Given: given, Best: &best})
	for _, want := range []string{"at most 0.00001 % of the time", "0.23 % of the load lost", "chosen: 1763 pods in place of 1796 (", " 2880 (1440; 2880) "} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, %q is missing in\n%s", err, want, out.String())
		}
	}
}

// Where nothing runs, nothing can be saved: there is no percentage of it.
func TestTuneWhereNothingRuns(t *testing.T) {
	t.Parallel()
	idle := clitest.File(t, "idle.yaml", "duration: 1h\nload: [{constant: 0}]\nworkload: {replicas: 0, requests: {cpu: 500m}, capacity: 30, usage: [{metric: queue, perLoad: \"1\"}]}\n")
	got := run(t, "{minReplicas: 0, maxReplicas: 20, metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: \"10\"}}}]}\n",
		"tune", "-f", idle, "-", "--candidates=3", "--vary=target", "--scale-to-zero")
	if got.Code != 0 || !strings.Contains(got.Stdout, "chosen: ") || strings.Contains(got.Stdout, "NaN") || strings.Contains(got.Stdout, "Inf") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

func TestTuneFormsAndExitCodes(t *testing.T) {
	t.Parallel()
	short := clitest.File(t, "short.yaml", "duration: 10m\nload: [{constant: 100000}]\nworkload: {requests: {cpu: 500m}, capacity: 10, usage: [{metric: cpu, perLoad: 10m}]}\n")
	endless := clitest.File(t, "endless.yaml", "duration: 10m\nload: [{constant: 100000}]\nworkload: {requests: {cpu: 500m}, usage: [{metric: cpu, perLoad: 10m}]}\n")
	light := clitest.File(t, "light.yaml", "duration: 10m\nload: [{constant: 10}]\nworkload: {requests: {cpu: 500m}, capacity: 10, usage: [{metric: cpu, perLoad: 10m}]}\n")
	tooShort := clitest.File(t, "too-short.yaml", "duration: 1m\nload: [{constant: 10}]\nworkload: {requests: {cpu: 500m}, capacity: 10, usage: [{metric: cpu, perLoad: 10m}]}\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"a time of which there are no two parts", []string{"-f", tooShort, simulatedBy}, cli.ExitUsage, "too-short.yaml: a duration of 1m0s: must be at least 2m"},
		{"nothing can be short", []string{"-f", endless, simulatedBy, "--candidates=5"}, 0, unbounded},
		{"lines", []string{"-f", simulated, simulatedBy, "--candidates=10", "-o", "json"}, 0, `"front":[{"spec":{`},
		{"none reaches it", []string{"-f", short, simulatedBy, "--candidates=5"}, cli.ExitFailed, "none of 5 specs reaches the goal"},
		{"a time that is too short to be missed", []string{"-f", light, simulatedBy, "--candidates=5"}, 0, "; 100.00)"},
		{"what is said of it", []string{"-f", light, simulatedBy, "--candidates=5"}, 0, "passed: too short a time to be missed\n"},
		{"no scenario", []string{simulatedBy}, cli.ExitUsage, "--file is required"},
		{"no candidates", []string{"-f", simulated, simulatedBy, "--candidates=0"}, cli.ExitUsage, "must be between 1 and 20000"},
		{"a goal below 0", []string{"-f", simulated, simulatedBy, "--max-short=-1"}, cli.ExitUsage, "--max-short: is -1, must be between 0 and 100"},
		{"more than all of the time", []string{"-f", simulated, simulatedBy, "--max-short=200"}, cli.ExitUsage, "--max-short: is 200, must be between 0 and 100"},
		{"more than all of the load", []string{"-f", simulated, simulatedBy, "--max-lost=101"}, cli.ExitUsage, "--max-lost: is 101, must be between 0 and 100"},
		{"no end of reversals", []string{"-f", simulated, simulatedBy, "--max-reversals=Inf"}, cli.ExitUsage, "--max-reversals: is +Inf, must be between 0 and 86400"},
		{"no number", []string{"-f", simulated, simulatedBy, "--max-lost=NaN"}, cli.ExitUsage, "--max-lost: is NaN"},
		{"nothing to vary", []string{"-f", simulated, simulatedBy, "--vary=targets"}, cli.ExitUsage, `--vary: "targets" is none of target, minReplicas, tolerance, window, policies`},
		{"a seed below 0", []string{"-f", simulated, simulatedBy, "--seed=-1"}, cli.ExitUsage, "must be a whole number between 0 and 9007199254740991"},
		{"a least count below 0", []string{"-f", simulated, simulatedBy, "--least-replicas=-1"}, cli.ExitUsage, "--least-replicas"},
		{"no spec", []string{"-f", simulated, simulated}, cli.ExitUsage, "is not an autoscaler"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"tune"}, tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Stdout+got.Stderr, tt.want) {
				t.Errorf("exit code %d, want %d and %q\n%s\n%s", got.Code, tt.code, tt.want, got.Stdout, got.Stderr)
			}
		})
	}
}

// The page shows what the example prints.
func TestThePageShowsWhatTunePrints(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Chdir("../../..")
	page := testpages.Read(t, "docs/guides/simulation.md")
	got := run(t, "", "tune", "-f", "examples/simulation/web.yaml", "examples/simulation/hpa.yaml", "--candidates=60", "--max-lost=0.5", "--max-reversals=20")
	shown, _, _ := strings.Cut(got.Stdout, "\napiVersion")
	if got.Code != 0 || !strings.Contains(page, strings.TrimSpace(shown)) {
		t.Errorf("exit code %d, or docs/guides/simulation.md does not show:\n%s%s", got.Code, shown, got.Stderr)
	}
}
