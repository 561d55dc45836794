package playground_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/playground"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/report"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// What the playground answers is what setpoint simulate finds.
func TestARunIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	q := shop(t)
	got := ask(t, q)
	if len(got.Problems) > 0 || got.Run == nil {
		t.Fatalf("problems %+v", got.Problems)
	}
	s, err := scenario.Read(t.Context(), "web.yaml", []byte(q.Scenario), nil, nil)
	fatal.If(t, err)
	for i, spec := range q.Specs {
		read, err := hpa.ReadOne(spec.Name, strings.NewReader(spec.Text))
		fatal.If(t, err)
		a, err := read.Engine(nil)
		fatal.If(t, err)
		n := 0
		run := got.Run.Runs[i]
		want, err := simulation.Run(s, a, func(step *simulation.Step) error {
			if run.Replicas[n] != step.Replicas || run.Ready[n] != step.Ready || run.CauseNames[run.Causes[n]] != string(step.Cause) {
				t.Errorf("%s, step %d: got %d of %d, %s; want %d of %d, %s", spec.Name, n, run.Ready[n], run.Replicas[n], run.CauseNames[run.Causes[n]], step.Ready, step.Replicas, step.Cause)
			}
			n++
			return nil
		})
		fatal.If(t, err)
		if n != len(got.Run.At) || len(run.Metrics) != 1 || len(run.Metrics[0].Ratio) != n || len(run.Proposal) != n || len(run.Held) != n || len(run.Capacity) != n {
			t.Errorf("%s: series of %d steps are %d, %d, %d, %d long", spec.Name, n, len(got.Run.At), len(run.Proposal), len(run.Held), len(run.Capacity))
		}
		if len(run.Actions) != len(want.Actions) {
			t.Fatalf("%s: %d changes, want %d", spec.Name, len(run.Actions), len(want.Actions))
		}
		for k, action := range run.Actions {
			if w := want.Actions[k]; action.From != w.From || action.To != w.To || action.Reason != w.Reason || got.Run.At[action.Step] != w.At.Seconds() {
				t.Errorf("%s, change %d: got %+v, want %+v", spec.Name, k, action, w)
			}
		}
	}
	for _, row := range got.Run.Rows {
		if row.Name == "short of capacity" && (len(row.Best) != 1 || row.Best[0] != 1) {
			t.Errorf("the careful spec is short for less time, marked are %v of %v", row.Best, row.Values)
		}
	}
}

// Each of several metrics has its own proposal, and the largest is the proposal of the step.
func TestProposalsOfSeveralMetrics(t *testing.T) {
	t.Parallel()
	q := shop(t)
	if one := ask(t, q); one.Run == nil || one.Run.Runs[0].Metrics[0].Proposal != nil {
		t.Errorf("a metric alone has a proposal of its own: problems %+v", one.Problems)
	}
	q.Specs = []playground.SpecText{{Name: "two", Text: `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 20
  metrics:
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
    - {type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "100"}}}
`}}
	q.Scenario = `
duration: 2h
load: [{step: {from: 50, to: 500, at: 1h}}]
workload: {requests: {cpu: 500m}, usage: [{metric: cpu, perLoad: 3m}, {metric: queue, perLoad: "1"}]}
`
	got := ask(t, q)
	if got.Run == nil || len(got.Run.Runs[0].Metrics) != 2 {
		t.Fatalf("problems %+v, run %+v", got.Problems, got.Run)
	}
	run := got.Run.Runs[0]
	for i, proposal := range run.Proposal {
		cpu, queue := run.Metrics[0].Proposal[i], run.Metrics[1].Proposal[i]
		if cpu == nil || queue == nil || proposal == nil || max(*cpu, *queue) != *proposal {
			t.Fatalf("step %d: %v, cpu %v, queue %v", i, proposal, cpu, queue)
		}
	}
	if n := len(run.Proposal) - 1; n < 400 || *run.Metrics[1].Proposal[n] != 5 {
		t.Errorf("%d steps, in the end the queue asks for %d, want 5", n+1, *run.Metrics[1].Proposal[n])
	}
}

// A scenario with a fleet runs by each rule, as setpoint simulate runs it; each of its steps is explained, and it is exported.
func TestAFleetRunsByEachRule(t *testing.T) {
	q := playground.Question{Ask: "simulate", Scenario: testpages.Read(t, "../docs/concepts/scenarios/fleets.yaml"), Specs: []playground.SpecText{{Name: "A", Text: testpages.Read(t, "../docs/concepts/scenarios/fleets-spec.yaml")}}}
	got := ask(t, q)
	if got.Run == nil || !got.Run.Fleet {
		t.Fatalf("%+v", got)
	}
	s, err := scenario.Read(t.Context(), "", []byte(q.Scenario), nil, nil)
	fatal.If(t, err)
	spec, err := hpa.ReadOne("", strings.NewReader(q.Specs[0].Text))
	fatal.If(t, err)
	a, err := spec.Engine(nil)
	fatal.If(t, err)
	want := &report.Report{Scenario: s}
	for i, rule := range simulation.FleetRuleNames() {
		result, err := simulation.RunFleet(t.Context(), s, a, simulation.FleetRule(i), nil)
		fatal.If(t, err)
		want.Runs = append(want.Runs, report.Run{Name: rule, Result: result})
		if got := got.Run.Runs[i]; got.Name != rule || len(got.Actions) != len(result.Actions) || len(got.Replicas) != result.Steps || (rule == "karmada") != (len(got.Metrics) == 0) {
			t.Errorf("%s: %+v", rule, got)
		}
		for k, action := range got.Run.Runs[i].Actions {
			if w := result.Actions[k]; action.From != w.From || action.To != w.To || got.Run.At[action.Step] != w.At.Seconds() || got.Run.Runs[i].Replicas[action.Step] != w.To {
				t.Errorf("%s, change %d: %+v, want %+v; the line is at %d", rule, k, action, w, got.Run.Runs[i].Replicas[action.Step])
			}
		}
		q.Ask, q.Spec, q.Step = "step", i, 60
		if step := ask(t, q).Step; step == nil || step.At != 900 || step.Text == "" {
			t.Errorf("%s: %+v", rule, step)
		}
	}
	for i, row := range report.Rows(want) {
		if got := got.Run.Rows[i]; got.Name != row.Name || !slices.Equal(got.Values, row.Values) {
			t.Errorf("%+v, want %+v", got, row)
		}
	}
	exports := make(map[string]string)
	for _, form := range []string{"svg", "csv", "json", "k6"} {
		q.Ask = form
		if exports[form] = ask(t, q).Export; len(exports[form]) < 500 {
			t.Errorf("%s: %+v", form, ask(t, q))
		}
	}
	// Its count, too, is the line's.
	var line []string
	for _, run := range got.Run.Runs {
		for i, n := range run.Replicas {
			line = append(line, fmt.Sprintf("%s %g %d", run.Name, got.Run.At[i], n))
		}
	}
	rows, err := csv.NewReader(strings.NewReader(exports["csv"])).ReadAll()
	fatal.If(t, err)
	var exported []string
	for _, row := range rows[1:] {
		exported = append(exported, row[0]+" "+row[2]+" "+row[5])
	}
	if len(exported) != len(line) {
		t.Errorf("%d steps are exported, the line has %d", len(exported), len(line))
	}
	for i := range min(len(line), len(exported)) {
		if exported[i] != line[i] {
			t.Errorf("exported is %s, the line has %s", exported[i], line[i])
		}
	}
	for name, bad := range map[string]playground.Question{
		"the other": {Ask: "check", Scenario: q.Scenario, Specs: append(q.Specs, playground.SpecText{Name: "B", Text: q.Specs[0].Text})},
		"not one":   {Ask: "k6", Scenario: strings.Replace(q.Scenario, "name: west", "name: west, load: [{constant: 1}]", 1), Specs: q.Specs},
		"no such":   {Ask: "step", Scenario: q.Scenario, Specs: q.Specs, Spec: len(got.Run.Runs)},
	} {
		if got := ask(t, bad).Problems; len(got) != 1 || !strings.Contains(got[0].Text, name) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestALongRunHasFewerPoints(t *testing.T) {
	t.Parallel()
	q := shop(t)
	q.Scenario = strings.Replace(q.Scenario, "duration: 24h", "duration: 168h", 1)
	got := ask(t, q)
	if got.Run == nil || got.Run.Steps != 40320 || len(got.Run.At) > playground.MaxPoints || got.Run.Stride != 7 {
		t.Fatalf("problems %+v, run %+v", got.Problems, got.Run)
	}
	peak := 0.0
	for _, l := range got.Run.Load {
		peak = max(peak, l)
	}
	if peak < 1500 {
		t.Errorf("the flash crowd's peak is lost: %g", peak)
	}
}

func TestAStepIsExplainedInTheWordsOfExplain(t *testing.T) {
	t.Parallel()
	q := shop(t)
	run := ask(t, q).Run.Runs[0]
	q.Ask, q.Step = "step", run.Actions[0].Step
	got := ask(t, q).Step
	want := fmt.Sprintf("%d → %d replicas", run.Actions[0].From, run.Actions[0].To)
	if got == nil || !strings.HasPrefix(got.Summary, want) || !hasText(got.Text, "shop/web: "+want) || !hasText(got.Text, "Conditions") {
		t.Errorf("got %+v, want %s", got, want)
	}
	for _, bad := range []playground.Question{{Spec: 2}, {Spec: -1}, {Step: 1 << 30}} {
		q.Spec, q.Step = bad.Spec, bad.Step
		if got := ask(t, q); got.Step != nil || len(got.Problems) != 1 {
			t.Errorf("step %d of spec %d: %+v", bad.Step, bad.Spec, got)
		}
	}
}

const sound = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:\n  maxReplicas: 10\n"

func TestProblemsHaveTheirLines(t *testing.T) {
	t.Parallel()
	const (
		world   = "load: [{constant: 5}]\nworkload: {requests: {cpu: 500m}, usage: [{metric: cpu, perLoad: 10m}]}\n"
		ofFleet = "is of a fleet, which is not run here: leave it out to see the workload alone, or run the fleet with setpoint simulate"
	)
	for _, tt := range []struct {
		name, scenario, spec string
		want                 playground.Problem
	}{
		{"a key that is not known", world, sound + "  metrcs: []\n", playground.Problem{In: "A", Line: 6, Path: "spec", Text: "unknown key metrcs, did you mean metrics?"}},
		{"a rule of the API", world, strings.Replace(sound, "10", "-1", 1), playground.Problem{In: "A", Line: 5, Path: "spec.maxReplicas", Text: "Invalid value: -1: must be greater than or equal to 1"}},
		{"a rule deep inside", world, sound + "  metrics:\n  - type: Resource\n    resource:\n      name: cpu\n      target:\n        type: Utilization\n        averageUtilization: 0\n",
			playground.Problem{In: "A", Line: 12, Path: "spec.metrics[0].resource.target.averageUtilization", Text: "Invalid value: 0: must be greater than 0"}},
		{"what is missing is where it belongs", world, sound + "  behavior:\n    scaleUp:\n      policies:\n      - type: Pods\n        value: 1\n",
			playground.Problem{In: "A", Line: 9, Path: "spec.behavior.scaleUp.policies[0].periodSeconds", Text: "Invalid value: 0: must be greater than zero"}},
		{"a type", world, strings.Replace(sound, "10", `"10"`, 1), playground.Problem{In: "A", Line: 5, Path: "spec.maxReplicas", Text: "must be a whole number, is a string"}},
		{"no YAML", world, "a: b: c", playground.Problem{In: "A", Line: 1, Text: "is neither YAML nor JSON: mapping values are not allowed in this context"}},
		{"another kind", world, "apiVersion: v1\nkind: Pod\nspec: {}\n", playground.Problem{In: "A", Line: 2, Path: "kind", Text: "must be HorizontalPodAutoscaler or Autoscaler"}},
		{"a stored spec", world, "period: 10s\nspec:\n  maxReplicas: -1\n", playground.Problem{In: "A", Line: 3, Path: "spec.maxReplicas", Text: "Invalid value: -1: must be greater than or equal to 1"}},
		{"a stored spec with a key that is not known", world, "spec:\n  maxReplicas: 1\nstage: {}\n", playground.Problem{In: "A", Line: 3, Text: "unknown key stage, did you mean stages?"}},
		{"a stored spec with an option's value", world, "spec:\n  maxReplicas: 1\noptions:\n  tolerance: much\n", playground.Problem{In: "A", Line: 4, Path: "options.tolerance", Text: `Invalid value: "much": must be a decimal number or a quantity, such as 0.1 or 100m`}},
		{"a stored fleet", world, "spec:\n  maxReplicas: 1\nfleet:\n  members: []\n", playground.Problem{In: "A", Line: 4, Path: "fleet", Text: ofFleet}},
		{"an annotated member", world, strings.Replace(sound, "{name: web}", "\n  name: web\n  annotations:\n    setpoint.dev/fleet: clusters/a/namespaces/b/targets/c", 1), playground.Problem{In: "A", Line: 6, Path: "metadata.annotations.setpoint.dev/fleet", Text: ofFleet}},
		{"a member", world, "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nspec:\n  maxReplicas: 3\n  fleet: clusters/a/namespaces/b/targets/c\n", playground.Problem{In: "A", Line: 5, Path: "spec.fleet", Text: ofFleet}},
		{"a fleet with what a rule does not know", world + "fleet: {rules: [hold, karmada], members: [{name: a, drained: true}, {name: b}]}\n", sound + "  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n", playground.Problem{In: "A", Text: "fleet.rules: karmada knows no drained members: name the other rules"}},
		{"the spec itself", world, "maxReplicas: -1\n", playground.Problem{In: "A", Line: 1, Path: "spec.maxReplicas", Text: "Invalid value: -1: must be greater than or equal to 1"}},
		{"a list", world, "- maxReplicas: 1\n", playground.Problem{}},
		{"the scenario", strings.Replace(world, "5", "-5", 1), sound, playground.Problem{In: "scenario", Line: 1, Path: "load[0].constant", Text: "must be a number between 0 and 1e+12"}},
		{"both together", strings.Replace(world, "metric: cpu", "metric: memory", 1), sound, playground.Problem{}},
		{"a file that is not there", "load: [{csv: {file: a.csv}}]\nworkload: {usage: [{metric: cpu, perLoad: 1}]}", sound, playground.Problem{}},
	} {
		got := ask(t, playground.Question{Ask: "check", Scenario: tt.scenario, Specs: []playground.SpecText{{Name: "A", Text: tt.spec}}}).Problems
		if len(got) == 0 || tt.want != (playground.Problem{}) && got[0] != tt.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

// A spec runs alike in each form; what is no manifest can't be exported as one.
func TestSpecsAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	q := shop(t)
	want := ask(t, q).Run
	_, body, _ := strings.Cut(q.Specs[0].Text, "\nspec:\n")
	for _, text := range []string{"period: 10s\nspec:\n" + body, strings.ReplaceAll("\n"+body, "\n  ", "\n")} {
		q.Specs[0].Text = text
		if got := ask(t, q); len(got.Problems) > 0 || !reflect.DeepEqual(got.Run, want) {
			t.Errorf("another run of\n%s%v", text, got.Problems)
		}
		export := playground.Question{Ask: "hpa", Specs: q.Specs[:1]}
		if got := ask(t, export); got.Export != "" || len(got.Problems) != 1 || !strings.HasPrefix(got.Problems[0].Text, "is not a manifest") {
			t.Errorf("exported: %v\n%s", got.Problems, got.Export)
		}
	}
}

func TestExports(t *testing.T) {
	t.Parallel()
	q := shop(t)
	q.Ask = "autoscaler"
	made := ask(t, q).Export
	if !hasText(made, "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\n") || !hasText(made, "maxReplicas: 50") {
		t.Fatalf("got %s", made)
	}
	made += "  syncPeriodSeconds: 30\n  options:\n    profile: v1.28\n    tolerance: 50m\n  shadow: true\n"
	q.Specs, q.Ask = []playground.SpecText{{Name: "A", Text: made}}, "hpa"
	got := ask(t, q)
	if want := strings.TrimSuffix(testpages.Read(t, "../examples/simulation/hpa.yaml"), "\n"); strings.TrimSpace(got.Export) != strings.TrimSpace(want) {
		t.Errorf("an Autoscaler as an HPA: %+v\n%s\nwant\n%s", got.Problems, got.Export, want)
	}
	q.Specs[0].Text = "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 9, shadow: true}\n"
	if got = ask(t, q); got.Export != "" || len(got.Problems) != 1 || got.Problems[0].Line != 4 || !strings.Contains(got.Problems[0].Text, "spec.shadow shares its line") {
		t.Errorf("a line with more than what goes: %+v\n%s", got.Problems, got.Export)
	}
	q.Ask = "k6"
	if script := ask(t, q).Export; !hasText(script, "ramping-arrival-rate") {
		t.Errorf("the load as k6: %.200s", script)
	}
}

// cores is a day of usage in cores as Prometheus has it, in two series, of pods that need three to
// eight replicas at 60 % of 500m.
func cores() playground.Question {
	series := make([]string, 2)
	for i := range 1440 {
		for k := range series {
			series[k] += fmt.Sprintf(`,[%d,"%g"]`, 1778160600+60*i, 0.45+float64(i%720)/1000)
		}
	}
	file := `{"status":"success","data":{"resultType":"matrix","result":[{"values":[` + series[0][1:] + `]},{"values":[` + series[1][1:] + `]}]}}`
	return playground.Question{
		Ask: "simulate", Files: map[string]string{"load-1": file}, Recorded: "1778160600,4\n1778160900,4\n1778161200,6\n",
		Scenario: "timezone: Europe/Berlin\nload: [{prometheus: {file: load-1}}]\nworkload: {requests: {cpu: 500m}, usage: [{metric: cpu, perLoad: 10m, idle: 20m}]}\n",
		Specs:    []playground.SpecText{{Name: "A", Text: sound + "  minReplicas: 2\n  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n"}},
	}
}

// A recorded load is compared with the spec's bounds: cores taken for requests never ask for a
// replica more.
func TestALoadInAnotherUnitIsTold(t *testing.T) {
	t.Parallel()
	q := cores()
	few := ask(t, q)
	if few.Run == nil || few.Run.Unfit == nil || !few.Run.Unfit.Few || few.Run.Unfit.Bound != 2 || few.Run.Unfit.Replicas > 0.1 {
		t.Fatalf("cores as requests a second: %+v, problems %+v", few.Run, few.Problems)
	}
	as := func(perLoad string) playground.Question {
		q := q
		q.Scenario = strings.Replace(q.Scenario, "10m, idle: 20m", perLoad, 1)
		return q
	}
	if fits := ask(t, as(`"1"`)); fits.Run == nil || fits.Run.Unfit != nil {
		t.Errorf("cores as cores: %+v, problems %+v", fits.Run.Unfit, fits.Problems)
	}
	if many := ask(t, as(`"100"`)); many.Run == nil || many.Run.Unfit == nil || many.Run.Unfit.Few || many.Run.Unfit.Bound != 10 {
		t.Errorf("a hundredfold: problems %+v", many.Problems)
	}
	shapes := shop(t)
	shapes.Scenario = strings.Replace(shapes.Scenario, "perLoad: ", "perLoad: 0.001", 1)
	if got := ask(t, shapes); got.Run != nil && got.Run.Unfit != nil {
		t.Errorf("no recorded load: %+v", got.Run.Unfit)
	}
}

// A recorded load runs at its own time, beside the recorded count, and its explained step is that time.
func TestARecordedLoadAndCount(t *testing.T) {
	t.Parallel()
	q := cores()
	got := ask(t, q).Run
	r := got.Recorded
	// The last count stands for five minutes.
	if r == nil || len(r.Counts) != len(got.At) || *r.Counts[0] != 4 || *r.Counts[40] != 6 || *r.Counts[60] != 6 || r.Counts[61] != nil || r.Least != 4 || r.Most != 6 || len(r.Same) != 1 || r.Same[0] != 0 {
		t.Fatalf("recorded: %+v", r)
	}
	if want := (40*4 + 21*6) * 15 / 3600.0; r.ReplicaHours < want-0.01 || r.ReplicaHours > want+0.01 {
		t.Errorf("%g replica-hours, want %g", r.ReplicaHours, want)
	}
	gap := cores()
	gap.Files = map[string]string{"load-1": "1778160600,0.9\n1778160660,NaN\n1778160720,1\n"}
	gap.Scenario = strings.Replace(gap.Scenario, "prometheus:", "csv:", 1)
	if left := ask(t, gap).Run; got.LeftOut != 0 || left == nil || left.LeftOut != 1 {
		t.Errorf("left out: %d of none, and of one: %+v", got.LeftOut, left)
	}
	gap.Files["load-1"] = "1778160600,0.9\n1778164200,1\n" // five minutes of an hour
	if some := ask(t, gap).Run; got.Covered != nil || some == nil || some.Covered == nil || math.Abs(*some.Covered-1.0/12) > 1e-9 {
		t.Errorf("covered: %v of a whole day, and of an hour's ends: %+v", got.Covered, some)
	}
	q.Ask, q.Step = "step", 4
	if got := ask(t, q).Step; got == nil || got.At != 60 || !hasText(got.Text, "2026-05-07 15:31:00 CEST") {
		t.Errorf("step 4: %+v", got)
	}
	for _, bad := range []string{"0,4\n60,4\n", "time,count\n", "1778160600,NaN\n", "{"} {
		q.Ask, q.Recorded = "simulate", bad
		if got := ask(t, q); len(got.Problems) != 1 || got.Problems[0].In != "recorded" {
			t.Errorf("%q: %+v", bad, got.Problems)
		}
	}
}

// Files in their shortest form are the same load.
func TestShortFilesAreTheSameLoad(t *testing.T) {
	t.Parallel()
	q := cores()
	want := ask(t, q).Run
	q.Ask = "files"
	short := ask(t, q)
	if content := short.Files["load-1"]; !strings.HasPrefix(content, "1778160600,0.9\n1778160660,0.902\n") || short.Files["recorded"] != q.Recorded {
		t.Fatalf("problems %+v, %.100q", short.Problems, content)
	}
	q.Ask, q.Files, q.Recorded = "simulate", map[string]string{"load-1": short.Files["load-1"]}, short.Files["recorded"]
	q.Scenario = strings.Replace(q.Scenario, "prometheus:", "csv:", 1)
	if got := ask(t, q).Run; !reflect.DeepEqual(got, want) {
		t.Error("another run")
	}
}

// What a file may have in it is bounded, and told with its place.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"infinite": "0,1e308\n60,1e308\n", "huge": "0,1e13\n", "not a number": "0,x\n", "back in time": "60,1\n0,1\n", "an age": "0,1\n1e9,1\n", "negative": "0,-1\n",
		"many": strings.Repeat("0,1\n1,2\n", 600_000),
	} {
		q := cores()
		q.Files["load-1"], q.Scenario = content, strings.Replace(q.Scenario, "prometheus:", "csv:", 1)
		if got := ask(t, q); len(got.Problems) == 0 || got.Run != nil {
			t.Errorf("%s: no problem", name)
		}
	}
}

func TestResultsAreThoseOfTheCommand(t *testing.T) {
	t.Parallel()
	q := cores()
	for form, want := range map[string]string{"svg": ">recorded</text>", "csv": "\nA,2026-05-07T15:30:00+02:00,0,0.9,,2,", "json": `{"spec":"A","figures":{`} {
		q.Ask = form
		if got := ask(t, q); !hasText(got.Export, want) {
			t.Errorf("%s: problems %+v, %.300s", form, got.Problems, got.Export)
		}
	}
	q.Ask, q.Scenario = "csv", strings.Replace(shop(t).Scenario, "duration: 24h", "duration: 2400h", 1)
	if got := ask(t, q); got.Export != "" || len(got.Problems) != 1 || !hasText(got.Problems[0].Text, "is larger than 32 MiB so: shorten the scenario") {
		t.Errorf("an endless table: %d bytes, problems %+v", len(got.Export), got.Problems)
	}
}

func TestASpecAsAPatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{sound, `kubectl patch horizontalpodautoscalers.v2.autoscaling web --type=json --patch='[{"op":"add","path":"/spec/minReplicas","value":null},{"op":"add","path":"/spec/maxReplicas","value":10},{"op":"add","path":"/spec/metrics","value":null},{"op":"add","path":"/spec/behavior","value":null}]'` + "\n"},
		{"maxReplicas: 3\n", "kubectl patch horizontalpodautoscalers.v2.autoscaling NAME --type=json "},
		{"apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nmetadata: {name: web, namespace: shop}\nspec: {maxReplicas: 3, shadow: true, options: {tolerance: 0.05}}\n",
			`{"op":"add","path":"/spec/options","value":{"tolerance":0.05}},{"op":"add","path":"/spec/shadow","value":true}]'` + "\n"},
		{"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: \"a'; rm -rf / #\"}\nspec: {maxReplicas: 3}\n", `autoscaling 'a'\''; rm -rf / #' --type=json`},
		{annotatedHPA, "--patch='[" + `{"op":"add","path":"/spec/minReplicas","value":null},{"op":"add","path":"/spec/maxReplicas","value":10},{"op":"add","path":"/spec/metrics","value":null},{"op":"add","path":"/spec/behavior","value":null}]' &&` + "\n" +
			`  kubectl annotate horizontalpodautoscalers.v2.autoscaling web --overwrite 'setpoint.dev/stages={"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "9h", "minReplicas": 9}]}'` + "\n"},
		{"stages: {windowThroughFailures: true}\nspec: {maxReplicas: 3}\n", ` &&` + "\n" + `  kubectl annotate horizontalpodautoscalers.v2.autoscaling NAME --overwrite 'setpoint.dev/stages={"windowThroughFailures":true}'` + "\n"},
	} {
		got := ask(t, playground.Question{Ask: "patch", Specs: []playground.SpecText{{Name: "A", Text: tt.text}}})
		if !hasText(got.Export, tt.want) {
			t.Errorf("problems %+v, got\n%s", got.Problems, got.Export)
		}
	}
}

// annotatedHPA has a schedule.
var annotatedHPA = strings.Replace(sound, "metadata: {name: web", `metadata: {annotations: {setpoint.dev/stages: '{"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "9h", "minReplicas": 9}]}'}, name: web`, 1)

func TestLintHasLines(t *testing.T) {
	t.Parallel()
	q := playground.Question{Ask: "lint", Specs: []playground.SpecText{{Name: "A", Text: sound + "  minReplicas: 10\n"}}}
	got := ask(t, q)
	if len(got.Findings) != 1 || got.Findings[0].Rule != "min-equals-max" || got.Findings[0].Line != 5 {
		t.Errorf("got %+v", got)
	}
}

func TestBadQuestions(t *testing.T) {
	t.Parallel()
	for _, q := range []string{``, `{`, `{"ask":"x"}`, `{"asks":"check"}`, `null`, `{"ask":"simulate","scenario":"load: [{constant: 1}]\nworkload: {usage: [{metric: cpu, perLoad: 1}]}"}`,
		`{"ask":"check","specs":[{},{},{},{},{}]}`} {
		var got answered
		if err := json.Unmarshal(playground.Answer([]byte(q)), &got); err != nil || len(got.Problems) == 0 {
			t.Errorf("%s: %+v, %v", q, got, err)
		}
	}
}

// TestWebAssemblyAnswersTheSame asks the program for browsers what it asks this one: answers have
// to be the same, byte for byte. Node.js runs it as browsers do.
func TestWebAssemblyAnswersTheSame(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles to WebAssembly")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no Node.js: scripts/node.sh installs it")
		}
		t.Skip("no Node.js: scripts/node.sh installs it")
	}
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "scripts/wasm.sh", folder)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("scripts/wasm.sh: %v\n%s", err, out)
	}
	var questions, want bytes.Buffer
	for _, q := range worlds(t) {
		question, err := json.Marshal(q)
		fatal.If(t, err)
		fmt.Fprintf(&questions, "%s\n", question)
		fmt.Fprintf(&want, "%s\n", playground.Answer(question))
	}
	run := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "answer.mjs"), folder)
	run.Stdin = &questions
	var problems bytes.Buffer
	run.Stderr = &problems
	got, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	gotLines, wantLines := bytes.Split(got, []byte("\n")), bytes.Split(want.Bytes(), []byte("\n"))
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%d answers, want %d", len(gotLines), len(wantLines))
	}
	for i := range wantLines {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			t.Errorf("question %d:\ngot  %.300s\nwant %.300s", i, gotLines[i], wantLines[i])
		}
	}
}

// worlds are questions of every kind, with all shapes of load, events, distributions and kinds
// of metrics.
func worlds(t *testing.T) []playground.Question {
	t.Helper()
	base := shop(t)
	const metrics = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 80
  metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
    - type: Pods
      pods: {metric: {name: busy}, target: {type: AverageValue, averageValue: "10"}}
    - type: External
      external: {metric: {name: queue, selector: {matchLabels: {queue: mail}}}, target: {type: AverageValue, averageValue: "30"}}
  behavior:
    scaleUp: {stabilizationWindowSeconds: 30, policies: [{type: Percent, value: 50, periodSeconds: 60}, {type: Pods, value: 3, periodSeconds: 30}]}
    scaleDown: {stabilizationWindowSeconds: 120, tolerance: 0.05, policies: [{type: Percent, value: 10, periodSeconds: 60}]}
`
	const world = `timezone: Europe/Berlin
start: 2026-03-28T12:00:00Z
duration: 26h
seed: 7
price: 0.04
load:
  - daily: {low: 10, high: 120, peak: "15:30", weekend: 0.4}
  - sawtooth: {low: 0, high: 30, period: 47m}
  - onOff: {low: 0, high: 20, on: 13m, off: 29m}
  - ramp: {from: 0, to: 40, at: 3h, for: 40m}
  - csv: {file: spikes.csv}
    scale: 0.5
noise: {variation: 0.2, every: 30s}
workload:
  containers:
    - {name: app, requests: {cpu: 400m, memory: 200Mi}, limits: {cpu: "1"}}
    - {name: proxy, requests: {cpu: 100m}, usage: {cpu: 10m}}
  startup: 20s
  startupP95: 90s
  schedulingDelay: 2s
  slots: 12
  nodeDelay: 50s
  drain: 10s
  grace: 20s
  warmup: 30s
  imbalance: 0.3
  queue: {size: 500, timeout: 20s}
  retries: {count: 2, delay: 3s, factor: 2}
  usage:
    - {metric: cpu, perLoad: 40m, idle: 30m, warmup: 200m}
    - {metric: busy, perLoad: "1", window: 45s, delay: 10s}
    - {metric: queue, perLoad: "1", follows: queueLength}
events:
  - {at: 2h, kill: 2}
  - {at: 4h, crash: 0.4, for: 6m}
  - {at: 6h, metrics: gone, for: 5m, metric: cpu}
  - {at: 7h, metrics: frozen, for: 4m}
  - {at: 8h, metrics: late, by: 40s, for: 10m}
  - {at: 9h, metrics: zero, for: 3m}
  - {at: 10h, writes: fail, for: 5m}
  - {at: 11h, replicas: 30}
  - {at: 12h, rollout: {surge: 2, unavailable: 1}}
`
	out := []playground.Question{base}
	add := func(ask, scenario, spec string, change func(*playground.Question)) {
		q := playground.Question{Ask: ask, Scenario: scenario, Files: map[string]string{"spikes.csv": "time,value\n0,0\n600,80\n1200,0\n86400,0\n"}, Specs: []playground.SpecText{{Name: "A", Text: spec}, {Name: "B", Text: metrics}}}
		if change != nil {
			change(&q)
		}
		out = append(out, q)
	}
	for _, profile := range []string{"", "v1.28", "v1.19", "v1.15", "cooldown", "design-2015"} {
		add("simulate", world, metrics, func(q *playground.Question) { q.Profile, q.Specs = profile, q.Specs[:1] })
	}
	const annotated = `, annotations: {setpoint.dev/stages: '{"windowThroughFailures": true, "fallbacks": [{"metric": "External:queue", "replicas": 20}],
  "combine": {"method": "QUORUM", "quorum": 2}, "schedules": [{"name": "day", "timeZone": "Europe/Berlin", "cron": "0 8 * * *", "duration": "9h", "minReplicas": 9, "rampUp": "30m"}]}'}}`
	add("simulate", world+"  - {at: 13h, for: 1h, override: {pin: 25}}\n", strings.Replace(metrics, "namespace: shop}", "namespace: shop"+annotated, 1), nil)
	add("lint", world, strings.Replace(metrics, "namespace: shop}", "namespace: shop"+annotated, 1), func(q *playground.Question) { q.Now = "2026-11-23T12:00:00Z" })
	add("patch", world, strings.Replace(metrics, "namespace: shop}", "namespace: shop"+annotated, 1), nil)
	add("check", world, strings.Replace(metrics, "namespace: shop}", "namespace: shop"+strings.ReplaceAll(annotated, "Europe/Berlin", "Nowhere"), 1), nil)
	add("check", world, strings.Replace(metrics, "namespace: shop}", "namespace: shop"+strings.NewReplacer("9h", "1s", `"day"`, `"Day"`, "QUORUM", "FIRST", `"minReplicas": 9`, `"minReplicas": -1`).Replace(annotated), 1), nil)
	for step := 0; step < 6000; step += 501 {
		add("step", world, metrics, func(q *playground.Question) { q.Step, q.Spec = step, step%2 })
	}
	for _, kind := range []string{"hpa", "autoscaler", "k6", "lint", "check"} {
		add(kind, world, metrics, nil)
		add(kind, base.Scenario, base.Specs[0].Text, nil)
		add(kind, world, "a: [", nil)
		add(kind, world, strings.ReplaceAll(metrics, "value: ", "value: -"), nil)
		add(kind, "load: [{constant: x}]", sound, nil)
	}
	return out
}

// The period is that of the version that the spec names, as over the API, unless the scenario has one.
func TestThePeriodIsTheSpecsOwnVersions(t *testing.T) {
	t.Parallel()
	const world = "duration: 1h\nload: [{constant: 5}]\nworkload: {requests: {cpu: 500m}, usage: [{metric: cpu, perLoad: 10m}]}\n"
	spec := "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nspec:\n  maxReplicas: 9\n  options: {profile: design-2015}\n  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n"
	for _, tt := range []struct {
		loop, profile string
		want          int
	}{{"", "", 120}, {"", "v1.36", 120}, {"loop: {syncPeriod: 60s}\n", "", 60}} {
		got := ask(t, playground.Question{Ask: "simulate", Scenario: world + tt.loop, Profile: tt.profile, Specs: []playground.SpecText{{Name: "A", Text: spec}}})
		if got.Run == nil || got.Run.Steps != tt.want {
			t.Errorf("%+v: %+v, %v", tt, got.Run, got.Problems)
		}
	}
	mixed := playground.Question{Ask: "simulate", Scenario: world, Specs: []playground.SpecText{{Name: "A", Text: strings.Replace(spec, "  options: {profile: design-2015}\n", "", 1)}, {Name: "B", Text: spec}}}
	const want = "loop.syncPeriod: the specs' profiles v1.36 and design-2015 evaluate every 15s and every 30s: give one period for all"
	if got := ask(t, mixed); len(got.Problems) != 1 || got.Problems[0].In != "scenario" || got.Problems[0].Text != want {
		t.Errorf("specs of two periods: %v", got.Problems)
	}
}
