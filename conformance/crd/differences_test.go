package crd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/crd"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
)

// The only differences, which deploy/README.md lists.
func TestWhatAnAutoscalerRefuses(t *testing.T) {
	t.Parallel()
	d := definition(t)
	name := strings.Repeat("a", 1025)
	many := func(element string, count int) string {
		return strings.TrimSuffix(strings.Repeat(element+",", count), ",")
	}
	for _, c := range []struct{ what, spec, want string }{
		{"a fraction without quotes", withBehavior(`{"scaleUp":{"tolerance":0.1}}`), "spec.behavior.scaleUp.tolerance"},
		{"a value without quotes", withTarget(`{"type":"Value","value":1.5}`), "spec.metrics[0].external.target.value"},
		{"more than 1000 metrics", withMetrics(many(cpu, 1001)), "spec.metrics"},
		{"more than 100 policies", withPolicy(many(`{"type":"Pods","value":1,"periodSeconds":1}`, 101)), "spec.behavior.scaleUp.policies"},
		{"a kind of more than 1024 characters", withRef(`{"apiVersion":"apps/v1","kind":"` + name + `","name":"web"}`), "spec.scaleTargetRef.kind"},
		{"a name of more than 1024 characters", withRef(`{"apiVersion":"apps/v1","kind":"Deployment","name":"` + name + `"}`), "spec.scaleTargetRef.name"},
		{"an apiVersion of more than 512 characters", withRef(`{"apiVersion":"a/` + name[:511] + `","kind":"Deployment","name":"web"}`), "spec.scaleTargetRef.apiVersion"},
		{"a metric's name of more than 1024 characters", withMetrics(strings.Replace(external, "queue", name, 1)), "spec.metrics[0].external.metric.name"},
		{"a resource's name of more than 1024 characters", withMetrics(strings.Replace(cpu, "cpu", name, 1)), "spec.metrics[0].resource.name"},
		{"a quantity of more than 1000 characters", withTarget(`{"type":"Value","value":"` + strings.Repeat("1", 1001) + `"}`), "spec.metrics[0].external.target.value"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			hpa, autoscaler := both(t, parse(t, c.spec))
			if upstream, err := crd.Create(hpa); err != nil || len(upstream.Violations) > 0 {
				t.Fatalf("no difference: %v, %v", err, upstream)
			}
			_, violations, err := d.Create(autoscaler)
			if err != nil || !slices.Contains(fields(violations), c.want) {
				t.Errorf("refused for %v, %v; want %s", err, violations, c.want)
			}
		})
	}
}

// Up to those limits an object is accepted, whatever its rules then cost.
func TestTheLargestAutoscalerIsAccepted(t *testing.T) {
	t.Parallel()
	metric := strings.NewReplacer("queue", strings.Repeat("q", 1024), `"5"`, `"`+strings.Repeat("1", 1000)+`"`).Replace(external)
	d := definition(t)
	_, autoscaler := both(t, parse(t, withMetrics(strings.TrimSuffix(strings.Repeat(metric+",", 1000), ","))))
	if _, violations, err := d.Create(autoscaler); err != nil || len(violations) > 0 {
		t.Errorf("refused: %v, %v", err, violations)
	}
}

func TestTheFieldsOfOurOwn(t *testing.T) {
	t.Parallel()
	d := definition(t)
	with := func(fields string) string { return "{" + ref + "," + bounds + "," + fields + "}" }
	zero := func(minimum, more string) string {
		return "{" + ref + `,"minReplicas":` + minimum + `,"maxReplicas":5` + more + "}"
	}
	const allowed = `,"options":{"scaleToZero":true}`
	for _, c := range []struct {
		rule, spec string
		want       []string
	}{
		{"all of them are good", with(`"syncPeriodSeconds":1,"shadow":true,"options":{"profile":"v1.28","tolerance":"0.05","cpuInitializationPeriodSeconds":0,"initialReadinessDelaySeconds":30,"downscaleStabilizationSeconds":60,"scaleToZero":false}`), nil},
		{"a period is an hour at most", with(`"syncPeriodSeconds":3600`), nil},
		{"and no more", with(`"syncPeriodSeconds":3601`), []string{"spec.syncPeriodSeconds"}},
		{"a period is a second at least", with(`"syncPeriodSeconds":0`), []string{"spec.syncPeriodSeconds"}},
		{"delays are not negative", with(`"options":{"cpuInitializationPeriodSeconds":-1,"downscaleStabilizationSeconds":-1,"initialReadinessDelaySeconds":-1}`), []string{
			"spec.options.cpuInitializationPeriodSeconds", "spec.options.downscaleStabilizationSeconds", "spec.options.initialReadinessDelaySeconds",
		}},
		{"a profile is one that there is", with(`"options":{"profile":"v1.35"}`), []string{
			`spec.options.profile: supported values: "", "v1.36", "v1.37", "v1.28", "v1.19", "v1.15", "cooldown", "design-2015"`,
		}},
		{"none is the service's", with(`"options":{"profile":""}`), nil},
		{"a tolerance is not negative", with(`"options":{"tolerance":"-1m"}`), []string{`spec.options.tolerance: must be greater than or equal to 0, such as "0.1" for 10 %`}},
		{"a tolerance is a quantity", with(`"options":{"tolerance":"10%"}`), []string{`spec.options.tolerance: must be a number or a quantity, in quotes: "0.1" or "100m" for 10 %`}},
		{"a whole number needs no quotes", with(`"options":{"tolerance":0}`), nil},
		{"nor does any in quotes", with(`"options":{"tolerance":"100m"}`), nil},
		{"minReplicas may be 0 if it is allowed", zero("0", `,"metrics":[`+external+`]`+allowed), nil},
		{"and a metric can wake it", zero("0", allowed), []string{"spec.metrics: must specify at least one Object or External metric to support scaling to zero replicas"}},
		{"minReplicas is not negative either way", zero("-1", `,"metrics":[`+external+`]`+allowed), []string{"spec.minReplicas: must be greater than or equal to 1; 0 needs options.scaleToZero"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			_, autoscaler := both(t, parse(t, c.spec))
			_, violations, err := d.Create(autoscaler)
			fatal.If(t, err)
			checkViolations(t, violations, c.want)
		})
	}
}

// A fraction without quotes is refused by its type, before any rule of ours: these are the
// API server's words. They are one sentence, beside one that rules were not looked at.
func TestAFractionWithoutQuotesIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	d := definition(t)
	for path, spec := range map[string]string{
		"spec.options.tolerance":                "{" + ref + "," + bounds + `,"options":{"tolerance":0.1}}`,
		"spec.behavior.scaleUp.tolerance":       withBehavior(`{"scaleUp":{"tolerance":0.1}}`),
		"spec.metrics[0].external.target.value": withTarget(`{"type":"Value","value":1.5}`),
	} {
		_, autoscaler := both(t, parse(t, spec))
		_, violations, err := d.Create(autoscaler)
		fatal.If(t, err)
		want := path + ` in body must be of type integer,string: "number"`
		if len(violations) != 2 || violations[0].Detail != want || !strings.HasPrefix(violations[1].Detail, "some validation rules were not checked") {
			t.Errorf("refused with %v, want %s", violations, want)
		}
	}
}

// Every profile that a service knows can be named, and the definition names no other.
func TestProfilesAreThoseOfTheService(t *testing.T) {
	t.Parallel()
	d := definition(t)
	for _, name := range recommender.ProfileNames() {
		_, autoscaler := both(t, parse(t, "{"+ref+","+bounds+`,"options":{"profile":"`+name+`"}}`))
		if _, violations, err := d.Create(autoscaler); err != nil || len(violations) > 0 {
			t.Errorf("%s: %v, %v", name, err, violations)
		}
	}
	_, autoscaler := both(t, parse(t, "{"+ref+","+bounds+`,"options":{"profile":"v0"}}`))
	_, violations, err := d.Create(autoscaler)
	if err != nil || len(violations) == 0 {
		t.Fatalf("v0: %v, %v", err, violations)
	}
	if named := strings.Count(violations[0].Detail, `"v1.`) + strings.Count(violations[0].Detail, "cooldown") + strings.Count(violations[0].Detail, "design-2015"); named != len(recommender.ProfileNames()) {
		t.Errorf("of %q the definition names %s", recommender.ProfileNames(), violations[0].Detail)
	}
}
