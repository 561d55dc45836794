package playground

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/simulation"
)

const stagedBody = `
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 0
  maxReplicas: 40
  metrics:
  - {type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}, fallback: {replicas: 7, failureDurationSeconds: 200}}}
  - {type: External, external: {metric: {name: load}, target: {type: AverageValue, averageValue: "10"}}}
`

const wholeStages = `{freshness: {maxSampleAge: "60s", futureTolerance: "5s"}, fallbacks: [{metric: "External:load", failureDuration: "60s", lastGood: {maxAge: "600s"}, direction: UP_ONLY}],
    zeroGuards: [{metric: "External:queue", dropPercent: 60, confirm: "90s"}], combine: {method: WEIGHTED, weights: {"External:queue": "0.5", "External:load": "2"}},
    schedules: [{name: office, timeZone: Europe/Berlin, cron: "0 8 * * 1-5", endCron: "0 18 * * 1-5", minReplicas: 8, maxReplicas: 30, rampUp: "1800s", rampDown: "60s", minPace: PACED, maxPace: AT_ONCE, suspended: true},
      {name: sale, timeZone: UTC, at: "2026-11-27T08:00:00Z", duration: "43200s", minReplicas: 12}],
    idle: {activation: {"External:queue": "5"}, cooldown: "600s", initialCooldown: "60s"},
    guards: {ignoreSurge: true, reversals: {count: 3, period: "3600s", hold: "900s"}}, windowThroughFailures: true}`

// stagedAs are manifests with stages in each place.
func stagedAs(stages string) map[string]string {
	quoted := strings.ReplaceAll(strings.Join(strings.Fields(stages), " "), "'", "''")
	return map[string]string{
		"Autoscaler":  "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nmetadata: {name: web}\nspec:" + stagedBody + "  options: {scaleToZero: true}\n  stages: " + stages + "\n",
		"annotation":  "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, annotations: {setpoint.dev/stages: '" + quoted + "'}}\nspec:" + strings.Replace(stagedBody, "minReplicas: 0", "minReplicas: 1", 1),
		"stored spec": "stages: " + stages + "\nspec:" + strings.Replace(stagedBody, "minReplicas: 0", "minReplicas: 1", 1),
	}
}

// The browser reads stages as setpoint simulate does, wherever they are.
func TestStagesAreThoseOfTheCommand(t *testing.T) {
	t.Parallel()
	withoutIdle := strings.Replace(wholeStages, `idle: {activation: {"External:queue": "5"}, cooldown: "600s", initialCooldown: "60s"},`, "", 1)
	if withoutIdle == wholeStages {
		t.Fatal("there is no idle scaling")
	}
	for name, text := range stagedAs(withoutIdle) {
		if name == "Autoscaler" {
			text = stagedAs(wholeStages)[name]
		}
		a := &asked{}
		a.spec(SpecText{Name: "A", Text: text}, "")
		if len(a.problems) > 0 {
			t.Errorf("%s: %v", name, a.problems)
			continue
		}
		read, err := hpa.ReadOne("a.yaml", strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := read.Engine(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// The command moves an HPA's fallback behind those of its stages, as the browser does.
		for i := range want.Stages.Fallbacks {
			want.Stages.Fallbacks[i].OfSpec = a.specs[0].autoscaler.Stages.Fallbacks[i].OfSpec // only lint asks the command for it
		}
		if got := a.specs[0].autoscaler.Stages; !reflect.DeepEqual(got, want.Stages) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want.Stages)
		}
	}
}

// What the command refuses, because stages.proto has a range or a rule, the browser refuses, too; and what is at the
// end of a range both take.
func TestStagesAreRefusedAlike(t *testing.T) {
	t.Parallel()
	schedule := func(fields string) string {
		return `{schedules: [{name: a, timeZone: UTC, cron: "0 8 * * *", duration: "60s", minReplicas: 2` + fields + `}]}`
	}
	for text, sound := range map[string]bool{
		`{freshness: {maxSampleAge: "1s", futureTolerance: "300s"}}`: true, `{freshness: {maxSampleAge: "0.999s"}}`: false, `{freshness: {maxSampleAge: "3601s"}}`: false, `{freshness: {}}`: false,
		`{freshness: {maxSampleAge: "1s", futureTolerance: "301s"}}`:                              false,
		`{fallbacks: [{metric: "External:load", replicas: 1, failureDuration: "0s"}]}`:            true,
		`{fallbacks: [{metric: "External:load", replicas: 0}]}`:                                   false,
		`{fallbacks: [{metric: "External:load", replicas: 1, failureDuration: "3601s"}]}`:         false,
		`{fallbacks: [{metric: "External:load", lastGood: {maxAge: "0s"}}]}`:                      false,
		`{fallbacks: [{metric: "External:load", lastGood: {maxAge: "86400s"}, direction: BOTH}]}`: true,
		`{fallbacks: [{metric: "External:load", lastGood: {}}]}`:                                  false,
		`{fallbacks: [{metric: "External:load", ignore: true, direction: UP}]}`:                   false,
		`{fallbacks: [{metric: "External:queue", replicas: 1}]}`:                                  false,
		`{fallbacks: [{metric: "", replicas: 1}]}`:                                                false,
		`{zeroGuards: [{metric: "External:load", dropPercent: 101}]}`:                             false,
		`{zeroGuards: [{metric: "External:load", dropPercent: 50, confirm: "1s"}]}`:               true,
		`{zeroGuards: [{metric: "External:load", confirm: "0s"}]}`:                                false,
		`{combine: {method: LEAST}}`:                                                              false,
		`{combine: {method: QUORUM, quorum: -1}}`:                                                 false,
		`{combine: {method: QUORUM, quorum: 2}}`:                                                  true,
		schedule(""):                                                                              true, schedule(`, rampUp: "21600s", rampDown: "0s"`): true, schedule(`, rampUp: "21601s"`): false, schedule(`, minPace: SOON`): false, schedule(`, maxReplicas: 0`): false,
		strings.Replace(schedule(""), `"60s"`, `"59s"`, 1): false, strings.Replace(schedule(""), `"60s"`, `"2678401s"`, 1): false, strings.Replace(schedule(""), "name: a", "name: A", 1): false,
		strings.Replace(schedule(""), "timeZone: UTC, ", "", 1): false, strings.Replace(schedule(""), "UTC", "Nowhere", 1): false, strings.Replace(schedule(""), "minReplicas: 2", "minReplicas: 41", 1): false,
		`{guards: {reversals: {count: 16, period: "60s"}}}`: false, `{guards: {reversals: {count: 15, period: "60s"}}}`: true, `{guards: {reversals: {count: 1}}}`: false, `{guards: {reversals: {count: 1, period: "59s"}}}`: false,
		`{idle: {}}`: false, `{windowThroughFailure: true}`: false, `{fallbacks: {}}`: false,
		`{zeroGuards: [` + strings.Repeat(`{metric: "External:load"},`, 17) + `]}`: false,
	} {
		for name, text := range stagedAs(text) {
			if name == "Autoscaler" && strings.Contains(text, "idle") {
				continue // it may have it
			}
			a := &asked{}
			a.spec(SpecText{Name: "A", Text: text}, "")
			if (len(a.problems) == 0) != sound {
				t.Errorf("%s: %v of\n%s", name, a.problems, text)
			}
			for _, p := range a.problems {
				if p.Line == 0 {
					t.Errorf("%s: no line of %+v", name, p)
				}
			}
			read, err := hpa.ReadOne("a.yaml", strings.NewReader(text))
			if err == nil {
				_, err = read.Engine(nil)
			}
			if (err == nil) != sound {
				t.Errorf("%s: the command says %v of\n%s", name, err, text)
			}
		}
	}
}

// The browser's lint finds of stages, wherever they are, what the command finds, schedules included, and says on which line;
// without an instant it leaves schedules out.
func TestLintOfStagesIsTheCommands(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const mistaken = `{schedules: [{name: old, timeZone: UTC, at: "2020-11-27T08:00:00Z", duration: "3600s", minReplicas: 9}, {name: day, timeZone: UTC, cron: "0 8 * * *", duration: "3600s", minReplicas: 40},
      {name: cheap, timeZone: UTC, cron: "0 8 * * *", duration: "3600s", maxReplicas: 5}], fallbacks: [{metric: "External:load", replicas: 50, failureDuration: "10s"}], zeroGuards: [{metric: "External:queue", confirm: "3000s"}]}`
	for name, text := range stagedAs(mistaken) {
		if name != "annotation" {
			text = strings.Replace(text, "fallback: {replicas: 7", "fallback: {replicas: 70", 1)
		}
		linter := lint.Linter{Now: now, Options: func(own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions {
			if own == nil {
				own = &setpointv1.RecommendOptions{}
			}
			return own
		}}
		fatal.If(t, linter.Read("A", strings.NewReader(text)))
		want, err := linter.Check(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		q := &Question{Ask: "lint", Now: now.Format(time.RFC3339), Specs: []SpecText{{Name: "A", Text: text}}}
		got := q.answer()
		schedules := 0
		for i, f := range got.Findings {
			if strings.Contains(f.Field, "schedules") {
				schedules++
			}
			if f.Line < 3 && name != "stored spec" || f.Line == 0 {
				t.Errorf("%s: line %d of %+v", name, f.Line, f)
			}
			if i < len(want) {
				want[i].Line, want[i].Object = f.Finding.Line, f.Object
				if want[i] != f.Finding {
					t.Errorf("%s: %+v, the command has %+v", name, f.Finding, want[i])
				}
			}
		}
		if len(got.Findings) != len(want) || schedules < 2 || len(got.Problems) > 0 {
			t.Errorf("%s: %d findings, %d of schedules, and %v; the command has %d", name, len(got.Findings), schedules, got.Problems, len(want))
		}
		q.Now = ""
		for _, f := range q.answer().Findings {
			if strings.Contains(f.Field, "schedules") {
				t.Errorf("%s without an instant: %+v", name, f)
			}
		}
		if q.Now = "noon"; len(q.answer().Problems) != 1 {
			t.Errorf("%s: at noon: %+v", name, q.answer())
		}
	}
}

// An export as another kind loses no stages.
func TestExportsKeepStages(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"Autoscaler": "hpa", "annotation": "autoscaler"} {
		q := &Question{Ask: kind, Specs: []SpecText{{Name: "A", Text: stagedAs("{windowThroughFailures: true}")[name]}}}
		if got := q.answer(); got.Export != "" || len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Text, "stages") || got.Problems[0].Line == 0 {
			t.Errorf("%s as %s: %+v", name, kind, got)
		}
	}
}

// What a stage did is in the explanation of a step, and the cause is the stage's.
func TestStagesOfAStepAreExplained(t *testing.T) {
	t.Parallel()
	q := &Question{
		Ask: "step", Step: 3, Scenario: "duration: 10m\nload: [{constant: 50}]\nworkload: {replicas: 2, usage: [{metric: queue, perLoad: 1}, {metric: load, perLoad: 2}]}\n",
		Specs: []SpecText{{Name: "A", Text: stagedAs(`{combine: {method: MIN}}`)["stored spec"]}},
	}
	got := q.answer()
	if got.Step == nil || !strings.Contains(got.Step.Text, "COMBINE MIN") || !strings.Contains(got.Step.Text, "without stages and overrides, this step:") {
		t.Fatalf("%+v, %+v", got.Problems, got.Step)
	}
	q.Ask = "simulate"
	if got = q.answer(); got.Run == nil || len(got.Run.Runs) != 1 || !slices.Contains(got.Run.Runs[0].CauseNames, "combine MIN") {
		t.Errorf("%+v, %+v", got.Problems, got.Run)
	}
}

// The options of a stored spec and of a request are those that the command reads, and what it refuses is refused.
func TestOptionsAreThoseOfTheCommand(t *testing.T) {
	t.Parallel()
	for options, sound := range map[string]bool{
		`{}`: true,
		`{profile: v1.28, tolerance: 0.05, cpuInitializationPeriod: 10s, initialReadinessDelay: "0s", downscaleStabilization: 60.5s, upscaleDelay: 1s, downscaleDelay: 2s}`: true,
		`{scaleToZero: true, tolerance: "50m"}`: true,
		`{downscaleStabilization: 1m}`:          false, `{downscaleStabilization: 60}`: false, `{profile: v9}`: false, `{tolerance: much}`: false, `{tolerence: 0.1}`: false, `{scaleToZero: 1}`: false,
	} {
		for _, beside := range []string{"period: 10s", "scale: {specReplicas: 3}"} {
			text := beside + "\noptions: " + options + "\nspec:" + strings.Replace(stagedBody, "minReplicas: 0", "minReplicas: 1", 1)
			a := &asked{}
			a.spec(SpecText{Name: "A", Text: text}, "")
			read, err := hpa.ReadOne("a.yaml", strings.NewReader(text))
			var want *simulation.Autoscaler
			if err == nil {
				want, err = read.Engine(nil)
			}
			switch {
			case (len(a.problems) == 0) != sound || (err == nil) != sound:
				t.Errorf("%v, and the command says %v of\n%s", a.problems, err, text)
			case !sound && a.problems[0].Line != 2:
				t.Errorf("the line of %+v in\n%s", a.problems[0], text)
			case sound && !reflect.DeepEqual(a.specs[0].autoscaler.Options, want.Options):
				t.Errorf("%+v, the command has %+v of\n%s", a.specs[0].autoscaler.Options, want.Options, text)
			}
		}
	}
}
