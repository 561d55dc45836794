package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Stages are linted alike wherever they are: beside a stored spec, in a request and in an annotation.
func TestStagesOfStoredSpecs(t *testing.T) {
	t.Parallel()
	const spec = `{"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 20, "metrics": [
  {"type": "External", "external": {"metric": {"name": "load", "selector": {"matchLabels": {"app": "web"}}}, "target": {"type": "AverageValue", "averageValue": "1"}}}]}`
	forms := map[string]func(stages string) string{
		"annotation": staged,
		"stored": func(s string) string {
			return `{"name": "clusters/c/namespaces/shop/targets/web", "spec": ` + spec + ",\n\"stages\": {" + s + "}}"
		},
		"request": func(s string) string {
			return `{"target": "clusters/c/namespaces/shop/targets/web", "spec": ` + spec + ",\n\"stages\": {" + s + "}}"
		},
		"YAML": func(s string) string {
			return "target: clusters/c/namespaces/shop/targets/web\nspec: " + spec + "\nstages: {" + s + "}"
		},
	}
	schedule := func(rest string) string {
		return `"schedules": [{"name": "night", "timeZone": "UTC", "cron": "0 22 * * *", "duration": "3600s", "minReplicas": 9` + rest + `}]`
	}
	for _, tt := range []struct {
		stages, field string
		rules, errs   []string
	}{
		{schedule(""), "", nil, nil},
		{strings.Replace(schedule(""), "9}", "60}", 1), "stages.schedules[0].minReplicas", []string{"schedule-out-of-bounds"}, nil},
		{strings.Replace(schedule(""), `"cron": "0 22 * * *"`, `"at": "2020-11-27T08:00:00Z"`, 1), "stages.schedules[0]", []string{"schedule-never-soon"}, nil},
		{strings.Replace(schedule(""), "9}", `9}, {"name": "cheap", "timeZone": "UTC", "cron": "0 20 * * *", "duration": "14400s", "maxReplicas": 5}`, 1), "stages.schedules[1].maxReplicas", []string{"schedule-contradicted"}, nil},
		{strings.Replace(schedule(""), "9}", `9}, {"name": "cheap", "timeZone": "UTC", "cron": "0 20 * * *", "duration": "7200s", "maxReplicas": 5}`, 1), "", nil, nil},
		{strings.Replace(schedule(""), "9}", `9}, {"name": "cheap", "timeZone": "UTC", "cron": "0 20 * * *", "duration": "14400s", "maxReplicas": 9}`, 1), "", nil, nil},
		{strings.Replace(schedule(""), "9}", `9, "suspended": true}, {"name": "cheap", "timeZone": "UTC", "cron": "0 20 * * *", "duration": "14400s", "maxReplicas": 5}`, 1), "", nil, nil},
		{`"fallbacks": [{"metric": "External:load", "replicas": 1}]`, "stages.fallbacks[0].replicas", []string{"fallback-out-of-bounds"}, nil},
		{`"zeroGuards": [{"metric": "External:load", "confirm": "300s"}]`, "", nil, nil},
		{`"fallbacks": [{"metric": "External:load", "replicas": 30, "failureDuration": "14s"}]`, "stages.fallbacks[0].replicas", []string{"fallback-out-of-bounds", "fallback-within-period"}, nil},
		{`"zeroGuards": [{"metric": "External:load", "confirm": "301s"}]`, "stages.zeroGuards[0].confirm", []string{"zero-guard-above-window"}, nil},
		{`"forecast": {"timeZone": "UTC", "quantilePercent": 100}`, "stages.forecast.quantilePercent", []string{"forecast-of-one-day"}, nil},
		{`"forecast": {"timeZone": "UTC", "season": "WEEKLY", "quantilePercent": 100}`, "", nil, nil},
		{`"forecast": {"timeZone": "UTC", "mode": "FLOOR", "maxPercentOfMax": 10}`, "stages.forecast.maxPercentOfMax", []string{"forecast-below-minimum"}, nil},
		{`"forecast": {"timeZone": "Europe/Berln", "quantilePercent": 40}`, "", nil, []string{"stages.forecast.quantilePercent: ", "stages.forecast.timeZone: "}},
		{strings.Replace(schedule(""), "UTC", "Europe/Berln", 1), "", nil, []string{"stages.schedules[0].timeZone: "}},
		{strings.Replace(schedule(""), "22 * * *", "22 * * 1-9", 1), "", nil, []string{"stages.schedules[0].cron: "}},
		{`"combine": {"method": "QUORUM", "quorum": 3}, "zeroGuards": [{"metric": "External:que"}]`, "", nil, []string{"stages.combine.quorum: ", "stages.zeroGuards[0].metric: "}},
	} {
		for name, form := range forms {
			text := form(tt.stages)
			l := Linter{Options: given(&setpointv1.RecommendOptions{})}
			if err := l.Read("f.yaml", strings.NewReader(text)); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			findings, err := l.Check(t.Context())
			if (err != nil) != (tt.errs != nil) {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
			for _, want := range tt.errs {
				line := 3
				if name == "YAML" {
					line = 4
				}
				if !strings.Contains(fmt.Sprint(err), fmt.Sprintf("f.yaml:%d: %s", line, want)) {
					t.Errorf("%s: %v, want %s", name, err, want)
				}
				if !slices.ContainsFunc(Refused("f.yaml", err), func(f Finding) bool { return f.Field+": " == want && f.Line == line && f.Object == "shop/web" }) {
					t.Errorf("%s: %+v, want %s", name, Refused("f.yaml", err), want)
				}
			}
			var rules []string
			for _, f := range findings {
				field, staged := strings.CutPrefix(f.Field, "spec.stages")
				if field = "stages" + field; !staged {
					field = f.Field
				}
				if !strings.HasPrefix(field, "stages") {
					continue // of the spec
				}
				if rules = append(rules, f.Rule); len(rules) == 1 && field != tt.field {
					t.Errorf("%s: %+v", name, f)
				}
				if refused := strings.Contains(f.Message, "; as a stored spec it is refused: must be at "); refused != (f.Rule == "schedule-out-of-bounds" && name != "annotation") {
					t.Errorf("%s: %s", name, f.Message)
				}
				if name != "annotation" && staged || f.Line < 3 || name == "annotation" && f.Line != 3 {
					t.Errorf("%s: line %d of %s", name, f.Line, f.Field)
				}
			}
			if fmt.Sprint(rules) != fmt.Sprint(tt.rules) {
				t.Errorf("%s: %v, want %v\n%s", name, rules, tt.rules, text)
			}
		}
	}
	// What else the service would refuse.
	l := Linter{Options: given(&setpointv1.RecommendOptions{})}
	fatal.If(t, l.Read("f.yaml", strings.NewReader(forms["stored"](`"guards": {"reversals": {"count": 99, "period": "60s"}}`))))
	if _, err := l.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "stages.guards.reversals.count: ") {
		t.Error(err)
	}
}

// What is wrong with a metric's own fallback is said where it was written, in every form of spec, also beside those of stages.
func TestFallbacksOfSpecsAreWhereTheyAreWritten(t *testing.T) {
	t.Parallel()
	const body = `
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 20
  metrics:
  - {type: External, external: {metric: {name: load, selector: {matchLabels: {app: web}}}, target: {type: AverageValue, averageValue: "1"}}}
  - type: External
    external:
      metric: {name: queue, selector: {matchLabels: {app: web}}}
      target: {type: AverageValue, averageValue: "1"}
      fallback:
        failureDurationSeconds: 200
        replicas: 70
`
	const stages = `{"fallbacks": [{"metric": "External:load", "replicas": 5}]}`
	for name, text := range map[string]string{
		"HorizontalPodAutoscaler": "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, annotations: {setpoint.dev/stages: '" + stages + "'}}\nspec:" + body,
		"without stages":          "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:" + body,
		"Autoscaler":              "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nmetadata: {name: web}\nspec:" + body + "  stages: " + strings.Replace(stages, "5}", `5, "failureDuration": "60s"}`, 1) + "\n",
		"stored":                  "target: clusters/c/namespaces/shop/targets/web\nstages: " + stages + "\nspec:" + body,
	} {
		l := Linter{Options: given(&setpointv1.RecommendOptions{})}
		if err := l.Read("f.yaml", strings.NewReader(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		findings, err := l.Check(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		line := 1 + strings.Count(text[:strings.Index(text, "replicas: 70")], "\n")
		found := 0
		for _, f := range findings {
			if f.Rule != "fallback-out-of-bounds" {
				continue
			}
			if found++; f.Field != "spec.metrics[1].external.fallback.replicas" || f.Line != line {
				t.Errorf("%s: line %d of %s, want %d", name, f.Line, f.Field, line)
			}
		}
		if found != 1 {
			t.Errorf("%s: %d findings of %+v", name, found, findings)
		}
	}
}

// A schedule that is not active for many of its starts is not over, and nothing shadows all its periods that are not known.
func TestSchedulesThatAreSeldomActive(t *testing.T) {
	t.Parallel()
	text := scheduled(`{"name": "late", "timeZone": "UTC", "cron": "*/5 * * * *", "endCron": "*/5 0-22 * * *", "minReplicas": 5}, {"name": "once", "timeZone": "UTC", "at": "2026-11-23T20:00:00Z", "duration": "86400s", "minReplicas": 9}`)
	for _, hour := range []int{12, 23} { // before and in its hour
		l := Linter{Options: given(&setpointv1.RecommendOptions{}), Now: time.Date(2026, 11, 23, hour, 30, 0, 0, time.UTC)}
		fatal.If(t, l.Read("f.yaml", strings.NewReader(text)))
		findings, err := l.Check(t.Context())
		fatal.If(t, err)
		for _, f := range findings {
			if strings.HasPrefix(f.Rule, "schedule-") {
				t.Errorf("at %d:30: %+v", hour, f)
			}
		}
	}
}
