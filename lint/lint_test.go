package lint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// autoscaler is a manifest around bounds, metrics and the rest of a spec, each in one line of YAML.
func autoscaler(least, most int, metric, rest string) string {
	return fmt.Sprintf(`apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: %d
  maxReplicas: %d
  metrics: [%s]
  %s
`, least, most, metric, rest)
}

// scheduled has schedules beside its spec.
func scheduled(schedules string) string {
	return strings.Replace(autoscaler(2, 20, onCPU, ""), "namespace: shop}", `namespace: shop, annotations: {setpoint.dev/stages: '{"schedules": [`+schedules+`]}'}}`, 1)
}

// staged has stages beside its spec, whose metric is External:load.
func staged(stages string) string {
	return strings.Replace(autoscaler(2, 20, onTotal, ""), "namespace: shop}", `namespace: shop, annotations: {setpoint.dev/stages: '{`+stages+`}'}}`, 1)
}

func deployment(spec, containers string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  %s
  selector: {matchLabels: {app: web}}
  template: {spec: {containers: [%s]}}
`, spec, containers)
}

const (
	onCPU       = `{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}`
	onValue     = `{type: Object, object: {metric: {name: load}, describedObject: {kind: Service, name: web, apiVersion: v1}, target: {type: Value, value: "10"}}}`
	onContainer = `{type: ContainerResource, containerResource: {name: cpu, container: app, target: {type: Utilization, averageUtilization: 60}}}`
	onTotal     = `{type: External, external: {metric: {name: load, selector: {matchLabels: {app: web}}}, target: {type: AverageValue, averageValue: "1"}}}`
	series      = `{type: External, external: {metric: {name: load}, target: {type: AverageValue, averageValue: "1"}}}`
	probed      = `{name: app, resources: {requests: {cpu: 500m}}, startupProbe: {initialDelaySeconds: 120}, readinessProbe: {initialDelaySeconds: 5}}`
	tiny        = `{name: app, resources: {requests: {cpu: 20m}}}`
	plain       = `{name: app, resources: {requests: {cpu: 500m}}}`
)

// Names of metrics may be any text, also one that paints a terminal or makes a line of its own.
func TestTextIsPlain(t *testing.T) {
	t.Parallel()
	findings := check(t, autoscaler(1, 10, `{type: External, external: {metric: {name: "q\e[31m\nf.yaml: error: x"}, target: {type: AverageValue, averageValue: "1"}}}`, ""))
	var text bytes.Buffer
	fatal.If(t, WriteText(&text, findings, 1, 0))
	if len(findings) == 0 || strings.Contains(text.String(), "\x1b") || strings.Contains(text.String(), "\nf.yaml") {
		t.Errorf("%q", text.String())
	}
}

// Whoever names files that are checked in a pull request would choose the command.
func TestNoLineIsACommandOfTheRunner(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	fatal.If(t, WriteText(&text, []Finding{{File: "::error title=a::b.yaml", Field: "spec", Arithmetic: "::stop-commands::x"}}, 1, 0))
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("a command: %q", line)
		}
	}
}

// The user's own numbers are recognized, however small or large, and what is shown comes out.
func TestNumbersAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	valued := func(value string) string {
		return `{type: External, external: {metric: {name: load, selector: {}}, target: {type: Value, value: "` + value + `"}}}`
	}
	for _, tt := range []struct{ text, rule, want string }{
		{autoscaler(2, 50, onTotal, "behavior: {scaleDown: {tolerance: 1100m}}"), "tolerance-never-down", "1 − tolerance 1.1 = -0.1"},
		{autoscaler(2, 50, strings.Replace(onCPU, "60", "110", 1), "behavior: {scaleUp: {tolerance: 700m}}"), "target-over-request", "(1 + tolerance 0.7) = 187 %"},
		{autoscaler(2, 50, valued("30M"), ""), "value-feeds-back", "count × (60000000 ÷ 30000000)"},
		{autoscaler(2, 2000, onTotal, "behavior: {scaleDown: {tolerance: 0}}"), "tolerance-zero", "2000 × (1 − 0.05 %) = 1999"},
		{autoscaler(2, 5, valued("1m")+", "+valued("2m"), ""), "metric-twice", "usage ÷ 0.001 ≥ usage ÷ 0.002"},
		{autoscaler(2, 2000, onTotal, "behavior: {scaleUp: {policies: [{type: Percent, value: 20000, periodSeconds: 60}, {type: Percent, value: 20001, periodSeconds: 60}]}}"), "policy-never-binds", "of 2000 replicas 400000 and 400020"},
	} {
		found := check(t, tt.text)
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Rule == tt.rule })
		if i < 0 || !strings.Contains(found[i].Arithmetic, tt.want) {
			t.Errorf("%s: want %q among %+v", tt.rule, tt.want, found)
		}
	}
}

// Of policies that each allow the whole way one decides, and the others do not.
func TestOneOfSeveralPoliciesDecides(t *testing.T) {
	t.Parallel()
	for _, rules := range []string{
		"scaleDown: {policies: [{type: Percent, value: 100, periodSeconds: 15}, {type: Pods, value: 1000, periodSeconds: 15}]}",
		"scaleDown: {policies: [{type: Pods, value: 1000, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]}",
		"scaleUp: {policies: [{type: Pods, value: 50, periodSeconds: 15}, {type: Pods, value: 60, periodSeconds: 15}]}",
		"scaleUp: {selectPolicy: Min, policies: [{type: Pods, value: 60, periodSeconds: 15}, {type: Pods, value: 50, periodSeconds: 15}]}",
	} {
		var fields []string
		for _, f := range check(t, autoscaler(2, 50, onTotal, "behavior: {"+rules+"}")) {
			if f.Rule == "policy-never-binds" {
				fields = append(fields, f.Field)
			}
		}
		if len(fields) != 1 || !strings.HasSuffix(fields[0], ".policies[1]") {
			t.Errorf("%s: %v", rules, fields)
		}
	}
}

// Without a policy that is said never to decide, all decisions under a random load are the same.
func TestAPolicyThatNeverBindsDecidesNothing(t *testing.T) {
	t.Parallel()
	flagged := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		least := 1 + r.IntN(6)
		most := least + 1 + r.IntN(20)
		rules := func() string {
			var policies []string
			for range 1 + r.IntN(3) {
				kind, value := "Pods", 1+r.IntN(most)
				if r.IntN(2) == 0 {
					kind, value = "Percent", []int{10, 29, 30, 50, 100, 150, 400}[r.IntN(7)]
				}
				policies = append(policies, fmt.Sprintf("{type: %s, value: %d, periodSeconds: %d}", kind, value, []int{15, 60, 300}[r.IntN(3)]))
			}
			return fmt.Sprintf("{stabilizationWindowSeconds: 0, selectPolicy: %s, policies: [%s]}", []string{"Max", "Min"}[r.IntN(2)], strings.Join(policies, ", "))
		}
		text := autoscaler(least, most, onTotal, fmt.Sprintf("behavior: {scaleUp: %s, scaleDown: %s}", rules(), rules()))
		never := map[string]bool{}
		for _, f := range check(t, text) {
			if f.Rule == "policy-never-binds" {
				never[f.Field] = true
				flagged++
			}
		}
		if len(never) == 0 {
			continue
		}
		var points []simulation.Point
		for at := time.Duration(0); at < time.Hour; at += time.Duration(15+r.IntN(90)) * time.Second {
			points = append(points, simulation.Point{At: at, Value: float64(r.IntN(most + 3))})
		}
		load, err := simulation.NewTrace(points)
		fatal.If(t, err)
		s := &simulation.Scenario{Start: begin, Duration: time.Hour, Load: load, Workload: total(int32(least))}
		a := engine(t, text, &setpointv1.RecommendOptions{})
		if _, err := simulation.Run(s, a, func(step *simulation.Step) error {
			e := step.Decision.Explanation
			if e == nil || len(e.RateLimit.Policies) == 0 {
				return nil
			}
			rate, current := e.RateLimit, step.Decision.Current
			name := "scaleUp"
			if rate.Direction == recommender.Down {
				name = "scaleDown"
			}
			all, rest := rate.Policies, rate.Policies
			for i := len(all) - 1; i >= 0; i-- {
				if never[fmt.Sprintf("spec.behavior.%s.policies[%d]", name, i)] {
					rest = slices.Delete(slices.Clone(rest), i, i+1)
				}
			}
			if with, without := limitOf(rate, all, a, current), limitOf(rate, rest, a, current); with != without {
				t.Errorf("%s\n%s from %d: to %d, and without %v to %d", text, name, current, with, never, without)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if flagged < 50 {
		t.Errorf("%d policies only are said to decide nothing", flagged)
	}
}

// limitOf is the count that policies allow between the bounds.
func limitOf(rate recommender.RateLimit, policies []recommender.PolicyLimit, a *simulation.Autoscaler, current int32) int32 {
	limit := current
	for i, p := range policies {
		if i == 0 || (p.Limit > limit) == ((rate.Direction == recommender.Up) == (rate.SelectPolicy != recommender.MinChange)) {
			limit = p.Limit
		}
	}
	if rate.Direction == recommender.Up {
		limit = max(limit, current)
	} else {
		limit = min(limit, current)
	}
	return min(max(limit, a.Spec.MinReplicas), a.Spec.MaxReplicas)
}

func check(t *testing.T, files ...string) []Finding {
	t.Helper()
	l := Linter{Options: given(&setpointv1.RecommendOptions{})}
	for i, text := range files {
		fatal.If(t, l.Read(fmt.Sprintf("f%d.yaml", i), strings.NewReader(text)))
	}
	findings, err := l.Check(context.Background())
	fatal.If(t, err)
	return findings
}

// checkIn is check with a scenario, empty: none.
func checkIn(t *testing.T, text, in string) []Finding {
	t.Helper()
	if in == "" {
		return check(t, text)
	}
	on := strings.Contains(text, "minReplicas: 0")
	l := Linter{Options: given(&setpointv1.RecommendOptions{ScaleToZero: &on}), Scenario: world(t, in)}
	fatal.If(t, l.Read("f0.yaml", strings.NewReader(text)))
	findings, err := l.Check(t.Context())
	fatal.If(t, err)
	return findings
}

func world(t *testing.T, text string) *simulation.Scenario {
	t.Helper()
	s, err := scenario.Read(t.Context(), "world.yaml", []byte(text), nil, nil)
	fatal.If(t, err)
	return s
}

// Worlds of the rules that need one. Each unit of load takes 10m of CPU, each pod serves 50.
const (
	// doubling rises from 100 to 400 within half a minute, twice.
	doubling = `
duration: 3h
load: [{points: [{at: 0s, value: 100}, {at: 1h, value: 100}, {at: 3630s, value: 400}, {at: 80m, value: 400}, {at: 81m, value: 100}, {at: 2h, value: 100}, {at: 7230s, value: 400}]}]
workload: {requests: {cpu: 500m}, limits: {cpu: 500m}, startup: START, usage: [{metric: cpu, perLoad: 10m}]}
`
	// warming rises once; pods use much more CPU in their first two minutes.
	warming = `
duration: 2h
load: [{step: {from: 100, to: 150, at: 1h}}]
workload: {requests: {cpu: 500m}, startup: START, warmup: 2m, usage: [{metric: cpu, perLoad: 10m, warmup: 900m}]}
`
	// steadily is the same all the time; pods use much while they start.
	steadily = `
duration: 3h
load: [{constant: 300}]
workload: {replicas: 10, requests: {cpu: 500m}, startup: 10s, warmup: WARM, usage: [{metric: cpu, perLoad: 10m, warmup: 900m}]}
`
	// pausing goes up for six minutes and down for four, again and again.
	pausing = `
duration: 4h
load: [{onOff: {low: 50, high: 300, on: 6m, off: 4m}}]
workload: {requests: {cpu: 500m}, usage: [{metric: cpu, perLoad: 10m}]}
`
	// pair has a metric that follows the load and one that hardly does.
	pair = `
duration: 3h
load: [{points: [{at: 0s, value: 50}, {at: 30m, value: 50}, {at: 90m, value: 500}, {at: 100m, value: 50}]}]
workload: {requests: {cpu: 500m, memory: 1Gi}, usage: [{metric: cpu, perLoad: 10m}, {metric: memory, perLoad: 1Mi, idle: MEMORY}]}
`
	// resting pods use a part of their request.
	resting = `
duration: 1h
load: [{constant: 100}]
workload: {requests: {cpu: 100m}, usage: [{metric: cpu, perLoad: 1m, idle: IDLE}]}
`
	// waking has a metric of the load.
	waking = `
duration: 1h
load: [{constant: 100}]
workload: {usage: [{metric: load, perLoad: "1", follows: FOLLOWS}]}
`
	onMemory = onCPU + `, {type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 80}}}`
)

// cases have, for each rule, specs that it finds something in and the same ones mended. What
// a finding says of the engine is then tried in a simulation with pods, load and a clock.
var cases = []struct {
	rule, found, mended string
	// arithmetic that the finding has, with the spec's own numbers.
	arithmetic string
	// proof runs the spec and returns what is wrong with the finding.
	proof func(t *testing.T, a *simulation.Autoscaler) string
}{
	{"two-autoscalers", autoscaler(1, 5, onCPU, "") + "---\n" + strings.Replace(autoscaler(1, 9, onCPU, ""), "name: web, namespace", "name: other, namespace", 1), autoscaler(1, 5, onCPU, "") + "---\n" + autoscaler(1, 9, onCPU, ""),
		"2 autoscalers, 1 target", nil},
	{"request-missing", autoscaler(1, 5, onCPU, "") + deployment("", plain+", {name: proxy}"), autoscaler(1, 5, onCPU, "") + deployment("", plain+", {name: proxy, resources: {limits: {cpu: 100m}}}"),
		"target 60 % of a request that proxy does not have", func(t *testing.T, a *simulation.Autoscaler) string {
			w := cpu(2, 10, 500)
			w.Containers = append(w.Containers, simulation.Container{Name: "proxy"})
			return want(causes(run(t, a, w, 30*time.Minute, 0, 1000)), simulation.CauseFailingMetric)
		}},
	// The API server's default of a request is the limit.
	{"sidecar-in-average", autoscaler(1, 5, onCPU, "") + deployment("", plain+`, {name: proxy, resources: {limits: {cpu: "1"}}}`), autoscaler(1, 5, onCPU, "") + deployment("", plain),
		"app 500m + proxy 1000m", nil},
	{"sidecar-in-average", autoscaler(1, 5, strings.Replace(onCPU, "cpu", "memory", 1), "") + deployment("", `{name: app, resources: {requests: {memory: 1536Mi}}}, {name: proxy, resources: {requests: {memory: 0.5Gi}}}`),
		autoscaler(1, 5, strings.Replace(onCPU, "cpu", "memory", 1), "") + deployment("", `{name: app, resources: {requests: {memory: 1536Mi}}}`), "app 1536Mi + proxy 512Mi: if only the largest works", nil},
	{"target-unreachable", autoscaler(1, 9, strings.Replace(onCPU, "60", "95", 1), "") + deployment("", `{name: app, resources: {requests: {cpu: 500m}, limits: {cpu: 520m}}}`),
		autoscaler(1, 9, strings.Replace(onCPU, "60", "90", 1), "") + deployment("", `{name: app, resources: {requests: {cpu: 500m}, limits: {cpu: 520m}}}`),
		"limit 520m ÷ request 500m = 104 %, needed: above target 95 % × (1 + tolerance 0.1) = 104.5 %", func(t *testing.T, a *simulation.Autoscaler) string {
			w := cpu(2, 10, 500)
			w.Containers[0].Limits = []recommender.ResourceUsage{{Resource: "cpu", Milli: 520}}
			return want(highest(run(t, a, w, time.Hour, 0, 1e6)), 2)
		}},
	// Another metric brings one.
	{"target-unreachable", autoscaler(1, 9, strings.Replace(onCPU, "60", "95", 1)+", "+onTotal, "") + deployment("", `{name: app, resources: {requests: {cpu: 500m}, limits: {cpu: 520m}}}`),
		autoscaler(1, 9, strings.Replace(onCPU, "60", "90", 1)+", "+onTotal, "") + deployment("", `{name: app, resources: {requests: {cpu: 500m}, limits: {cpu: 520m}}}`),
		"limit 520m", func(t *testing.T, a *simulation.Autoscaler) string {
			w := cpu(2, 10, 500)
			w.Containers[0].Limits = []recommender.ResourceUsage{{Resource: "cpu", Milli: 520}}
			w.Usage = append(w.Usage, total(2).Usage...)
			with := highest(run(t, a, w, time.Hour, 0, 5))
			a.Spec.Metrics = a.Spec.Metrics[:1]
			return want([]int32{with, highest(run(t, a, w, time.Hour, 0, 5))}, []int32{5, 2})
		}},
	{"tolerance-never-down", autoscaler(1, 9, onTotal, "behavior: {scaleDown: {tolerance: 1}}"), autoscaler(1, 9, onTotal, "behavior: {scaleDown: {tolerance: 900m}}"),
		"a scale-down needs a ratio below 1 − tolerance 1 = 0", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(last(run(t, a, total(2), 2*time.Hour, 0, 0)), 2)
		}},
	{"superseded-version", strings.Replace(autoscaler(1, 5, onCPU, ""), "autoscaling/v2", "autoscaling/v2beta2", 1), autoscaler(1, 5, onCPU, ""),
		"apiVersion autoscaling/v2beta2, which is autoscaling/v2 now", nil},
	{"direction-disabled", autoscaler(2, 9, onTotal, "behavior: {scaleDown: {selectPolicy: Disabled}}"), autoscaler(2, 9, onTotal, ""),
		"7 replicas more than minReplicas 2, for good", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(last(run(t, a, total(2), 5*time.Hour, 0, 9, 1800, 9, 1800, 0)), 9)
		}},
	{"direction-disabled", autoscaler(2, 9, onTotal, "behavior: {scaleUp: {selectPolicy: Disabled}}"), autoscaler(2, 9, onTotal, ""),
		"the count stays at minReplicas 2", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(last(run(t, a, total(2), 5*time.Hour, 0, 900)), 2)
		}},
	{"min-equals-max", autoscaler(5, 5, onCPU, ""), autoscaler(5, 6, onCPU, ""),
		"maxReplicas 5 − minReplicas 5 = 0", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(highest(run(t, a, cpu(5, 10, 500), time.Hour, 0, 1e5)), 5)
		}},
	{"target-over-request", autoscaler(1, 5, strings.Replace(onCPU, "60", "100", 1), ""), autoscaler(1, 5, strings.Replace(onCPU, "60", "99", 1), ""),
		"more than 100 % × (1 + tolerance 0.1) = 110 %", func(t *testing.T, a *simulation.Autoscaler) string {
			// 54 of 50 a pod is 108 %, 56 are 112 %.
			return want([]int32{highest(run(t, a, cpu(2, 10, 500), time.Hour, 0, 108)), highest(run(t, a, cpu(2, 10, 500), time.Hour, 0, 112))}, []int32{2, 3})
		}},
	{"sidecar-in-average", autoscaler(1, 5, onCPU, "") + deployment("", plain+`, {name: proxy, resources: {requests: {cpu: "1"}}}`),
		autoscaler(1, 5, strings.Replace(strings.Replace(onCPU, "type: Resource, resource: {", "type: ContainerResource, containerResource: {container: app, ", 1), "", "", 1), "") + deployment("", plain+`, {name: proxy, resources: {requests: {cpu: "1"}}}`),
		"app 500m + proxy 1000m: if only the largest works, it is at 90 % of its own request when the pod is at 60 %", nil},
	{"value-feeds-back", autoscaler(2, 40, onValue, ""),
		autoscaler(2, 40, `{type: Object, object: {metric: {name: load}, describedObject: {kind: Service, name: web, apiVersion: v1}, target: {type: AverageValue, averageValue: "10"}}}`, ""),
		"count × (20 ÷ 10) at every evaluation: 2 → 4 → 8 → 16 → … → 40", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(last(run(t, a, total(2), time.Hour, 0, 20)), 40)
		}},
	{"value-feeds-back", autoscaler(2, 40, onValue, "behavior: {scaleUp: {tolerance: 900m}}"), autoscaler(2, 40, onValue, "behavior: {scaleUp: {tolerance: 1}}"), "2 → 4 → 8 → 16 → … → 40", func(t *testing.T, a *simulation.Autoscaler) string {
		fed := last(run(t, a, total(2), time.Hour, 0, 20))
		a.Spec.Behavior.ScaleUp.Tolerance = new(1.0)
		return want([]int32{fed, last(run(t, a, total(2), time.Hour, 0, 20))}, []int32{40, 2})
	}},
	{"value-feeds-back", autoscaler(2, 40, onValue, ""), autoscaler(2, 40, onValue, "behavior: {scaleUp: {selectPolicy: Disabled}}"), "2 → 4 → 8 → 16 → … → 40", func(t *testing.T, a *simulation.Autoscaler) string {
		return want(last(run(t, a, total(2), time.Hour, 0, 20)), 40)
	}},
	{"slow-way-up", autoscaler(2, 50, onTotal, "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}"), autoscaler(2, 50, onTotal, "behavior: {scaleUp: {policies: [{type: Pods, value: 10, periodSeconds: 60}]}}"),
		"2 → 3 → 4 → 5 → 6 → … → 50: 48 changes, the first one after 0s", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(arrival(run(t, a, total(2), 3*time.Hour, 0, 2, 3600, 2, 3600, 100), 50)-time.Hour, 47*time.Minute)
		}},
	{"slow-way-down", autoscaler(2, 50, onTotal, "behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 120}]}}"), autoscaler(2, 50, onTotal, ""),
		"50 → 49 → 48 → 47 → 46 → … → 2: 48 changes, the first one after 4m45s", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(arrival(run(t, a, total(50), 5*time.Hour, 0, 50, 3600, 50, 3600, 2), 2)-time.Hour, 5*time.Minute+47*2*time.Minute-period)
		}},
	{"scale-up-window", autoscaler(2, 9, onTotal, "behavior: {scaleUp: {stabilizationWindowSeconds: 120}}"), autoscaler(2, 9, onTotal, "behavior: {scaleUp: {stabilizationWindowSeconds: 0}}"),
		"the least proposal of the last 120 s counts, evaluated every 15s", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(change(run(t, a, total(2), 2*time.Hour, 0, 2, 3600, 2, 3600, 4))-time.Hour, 2*time.Minute-period)
		}},
	{"scale-down-window-zero", autoscaler(2, 9, onTotal, "behavior: {scaleDown: {stabilizationWindowSeconds: 0}}"), autoscaler(2, 9, onTotal, "behavior: {scaleDown: {stabilizationWindowSeconds: 60}}"),
		"9 → 2 within one evaluation", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(change(run(t, a, total(9), 2*time.Hour, 0, 9, 3600, 9, 3600, 2))-time.Hour, time.Duration(0))
		}},
	{"scale-down-window-zero", autoscaler(2, 9, onTotal, "behavior: {scaleDown: {stabilizationWindowSeconds: 0}}"), autoscaler(2, 9, strings.Replace(onTotal, "load", "recommended-replicas", 1), "behavior: {scaleDown: {stabilizationWindowSeconds: 0}}"), "9 → 2", func(t *testing.T, a *simulation.Autoscaler) string {
		return want(last(run(t, a, total(9), time.Hour, 0, 9, 1800, 9, 1800, 2)), 2)
	}},
	{"replicas-in-manifest", autoscaler(1, 5, onCPU, "") + deployment("replicas: 3", plain), autoscaler(1, 5, onCPU, "") + deployment("", plain),
		"spec.replicas: 3, whatever the autoscaler has set between 1 and 5", nil},
	{"no-behavior", autoscaler(2, 40, onTotal, ""), autoscaler(2, 40, onTotal, "behavior: {}"),
		"2 → 4 → 8 → 16 → 32 → 40", func(t *testing.T, a *simulation.Autoscaler) string {
			peak := func() int32 {
				return highest(run(t, a, total(2), 2*time.Hour, 0, 2, 3600, 2, 3600, 80, 3615, 80, 3615, 0))
			}
			without := peak()
			b := recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
			a.Spec.Behavior = &b
			return want([]int32{without, peak()}, []int32{40, 6})
		}},
	{"percent-rounds-up", autoscaler(2, 40, onTotal, "behavior: {scaleDown: {policies: [{type: Percent, value: 10, periodSeconds: 60}]}}"), autoscaler(10, 40, onTotal, "behavior: {scaleDown: {policies: [{type: Percent, value: 10, periodSeconds: 60}]}}"),
		"3 × 10 % = 0.3, which allows 1 replica, 33.3 %, every 60 s; from 10 replicas on it is one or more by itself", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(last(run(t, a, total(3), 2*time.Hour, 0, 3, 3600, 3, 3600, 1)), 2)
		}},
	{"policy-never-binds", autoscaler(10, 40, onTotal, "behavior: {scaleUp: {policies: [{type: Pods, value: 4, periodSeconds: 60}, {type: Percent, value: 50, periodSeconds: 60}]}}"),
		autoscaler(2, 40, onTotal, "behavior: {scaleUp: {policies: [{type: Pods, value: 4, periodSeconds: 60}, {type: Percent, value: 50, periodSeconds: 60}]}}"),
		"of 10 replicas it allows 4 and policies[1] 5, of 40 replicas 4 and 20; Max counts", func(t *testing.T, a *simulation.Autoscaler) string {
			with := run(t, a, total(10), 2*time.Hour, 0, 10, 3600, 10, 3600, 40)
			a.Spec.Behavior.ScaleUp.Policies = a.Spec.Behavior.ScaleUp.Policies[1:]
			return want(with, run(t, a, total(10), 2*time.Hour, 0, 10, 3600, 10, 3600, 40))
		}},
	{"period-above-window", autoscaler(2, 9, onTotal, "behavior: {scaleDown: {stabilizationWindowSeconds: 60, policies: [{type: Pods, value: 1, periodSeconds: 120}]}}"), autoscaler(2, 9, onTotal, "behavior: {scaleDown: {stabilizationWindowSeconds: 120, policies: [{type: Pods, value: 1, periodSeconds: 120}]}}"),
		"periodSeconds 120 > stabilizationWindowSeconds 60", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(arrival(run(t, a, total(9), 2*time.Hour, 0, 9, 3600, 9, 3600, 2), 2)-time.Hour, time.Minute+6*2*time.Minute-period)
		}},
	{"period-above-window", autoscaler(2, 20, onTotal, "behavior: {scaleDown: {policies: [{type: Pods, value: 4, periodSeconds: 600}, {type: Percent, value: 10, periodSeconds: 900}]}}"), autoscaler(2, 20, onTotal, "behavior: {scaleDown: {policies: [{type: Pods, value: 4, periodSeconds: 600}, {type: Percent, value: 10, periodSeconds: 60}]}}"),
		"periodSeconds 600 > stabilizationWindowSeconds 300", func(t *testing.T, a *simulation.Autoscaler) string {
			return want(arrival(run(t, a, total(20), 3*time.Hour, 0, 20, 3600, 20, 3600, 2), 12)-time.Hour, 5*time.Minute+10*time.Minute-period)
		}},
	{"memory-holds", autoscaler(1, 5, `{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}`, ""), autoscaler(1, 5, onCPU, ""),
		"to half of it from 2, and below 90 % of it at any count", nil},
	{"target-without-scale", strings.Replace(autoscaler(2, 5, onCPU, ""), "apps/v1", "extensions/v1beta1", 1), strings.Replace(autoscaler(2, 5, onCPU, ""), "apps/v1", "apps/v1beta1", 1), "a Deployment is in apps/v1", nil},
	{"target-without-scale", strings.Replace(autoscaler(2, 5, onCPU, ""), "Deployment", "ReplicationController", 1), strings.NewReplacer("apps/v1", "v1", "Deployment", "ReplicationController").Replace(autoscaler(2, 5, onCPU, "")), "a ReplicationController is in v1", nil},
	{"target-without-scale", strings.Replace(autoscaler(2, 5, onCPU, ""), "Deployment", "DaemonSet", 1), strings.Replace(autoscaler(2, 5, onCPU, ""), "apps/v1, kind: Deployment", "argoproj.io/v1alpha1, kind: Rollout", 1), "DaemonSet web has no subresource scale", nil},
	{"target-without-scale", strings.Replace(autoscaler(2, 5, onCPU, ""), "Deployment", "Deployement", 1), strings.Replace(autoscaler(2, 5, onCPU, ""), "Deployment", "deployment", 1), "apps/v1 has a Deployment", nil},
	{"target-without-scale", strings.Replace(autoscaler(2, 5, onCPU, ""), "apps/v1", "batch/v1", 1), strings.Replace(autoscaler(2, 5, onCPU, ""), "apps/v1", "batch.example.org/v1", 1), "a Deployment is in apps/v1", nil},
	{"target-without-scale", strings.Replace(autoscaler(2, 5, onCPU, ""), "Deployment", "Node", 1), strings.Replace(autoscaler(2, 5, onCPU, ""), "apps/v1, kind: Deployment", "example.org/v1, kind: Node", 1), "Kubernetes itself counts: Deployment, ReplicaSet, ReplicationController, StatefulSet", nil},
	{"target-missing", wanting + deployment("", plain), wanting + strings.Replace(deployment("", plain), "namespace: shop", "namespace: other", 1),
		"1 of that kind there: web", nil},
	{"target-missing", wanting + deployment("", plain), wanting + deployment("", plain) + "---\n" + strings.Replace(autoscaler(2, 5, onCPU, ""), "{name: web, namespace", "{name: own, namespace", 1), "1 of that kind there: web", nil},
	{"container-missing", autoscaler(2, 5, onContainer, "") + deployment("", strings.Replace(plain, "app", "ap", 1)), autoscaler(2, 5, onContainer, "") + deployment("", plain), "its containers: ap", func(t *testing.T, a *simulation.Autoscaler) string {
		w := cpu(2, 10, 500)
		w.Containers[0].Name = "ap"
		return want(causes(run(t, a, w, 30*time.Minute, 0, 1000)), simulation.CauseFailingMetric)
	}},
	{"keda-beside", autoscaler(2, 5, onCPU, "") + keda("queue", "web"), autoscaler(2, 5, onCPU, "") + keda("queue", "other"), "this autoscaler + 1 of KEDA, 1 target", nil},
	{"keda-beside", autoscaler(2, 5, onCPU, "") + keda("queue", "web"), strings.Replace(autoscaler(2, 5, onCPU, ""), "{name: web, namespace", "{name: keda-hpa-queue, namespace", 1) + keda("queue", "web"), "1 target", nil},
	{"keda-beside", autoscaler(2, 5, onCPU, "") + paused(`"0"`), autoscaler(2, 5, onCPU, "") + paused(`"True"`), "1 target", nil},
	{"keda-beside", autoscaler(2, 5, onCPU, "") + paused("F"), autoscaler(2, 5, onCPU, "") + paused(`"yes"`), "1 target", nil},
	{"vpa-same-metric", autoscaler(2, 5, onCPU, "") + vertical("Auto", "{}") + deployment("", plain), autoscaler(2, 5, onCPU, "") + vertical(`"Off"`, "{}") + deployment("", plain), "updateMode Auto; usage on target is 60 % of the request", nil},
	{"vpa-same-metric", autoscaler(2, 5, onCPU, "") + vertical("Initial", "{}"), autoscaler(2, 5, onCPU, "") + vertical("Initial", "{containerPolicies: [{containerName: '*', controlledResources: [memory]}]}"), "updateMode Initial", nil},
	{"vpa-same-metric", autoscaler(2, 5, onContainer, "") + vertical("Recreate", "{containerPolicies: [{containerName: '*', mode: 'Off'}, {containerName: app}]}"), autoscaler(2, 5, onContainer, "") + vertical("Recreate", "{containerPolicies: [{containerName: '*'}, {containerName: app, mode: 'Off'}]}"), "updateMode Recreate", nil},
	{"vpa-same-metric", autoscaler(2, 5, onCPU, "") + vertical("Auto", "{}"), autoscaler(2, 5, strings.Replace(onCPU, "type: Utilization, averageUtilization: 60", "type: AverageValue, averageValue: 500m", 1), "") + vertical("Auto", "{}"), "updateMode Auto", nil},
	{"pdb-blocks-drain", autoscaler(2, 5, onCPU, "") + labelled + disruption("minAvailable: 2"), autoscaler(3, 5, onCPU, "") + labelled + disruption("minAvailable: 2"), "2 replicas − minAvailable 2 = 0", nil},
	{"pdb-blocks-drain", autoscaler(2, 5, onCPU, "") + labelled + disruption("minAvailable: 60%"), autoscaler(2, 5, onCPU, "") + labelled + disruption("minAvailable: 50%"), "2 replicas − minAvailable 60 % = 0", nil},
	{"pdb-blocks-drain", autoscaler(2, 5, onCPU, "") + labelled + disruption("maxUnavailable: 0"), autoscaler(2, 5, onCPU, "") + labelled + disruption("maxUnavailable: 10%"), "maxUnavailable 0 of 2 = 0", nil},
	{"tolerance-zero", autoscaler(2, 5, onTotal, "behavior: {scaleUp: {tolerance: 0}}"), autoscaler(2, 5, onTotal, "behavior: {scaleUp: {tolerance: 50m}}"), "2 × 1.001 = 2.002, rounded up 3", func(t *testing.T, a *simulation.Autoscaler) string {
		return want(last(run(t, a, total(2), time.Hour, 0, 2.002)), 3)
	}},
	{"tolerance-zero", autoscaler(2, 5, onTotal, "behavior: {scaleUp: {tolerance: 0}}"), autoscaler(2, 5, strings.Replace(onTotal, "load", "s0-recommended-replicas", 1), "behavior: {scaleUp: {tolerance: 0}}"), "rounded up 3", nil},
	{"tolerance-zero", autoscaler(2, 50, onTotal, "behavior: {scaleDown: {tolerance: 0}}"), autoscaler(2, 50, onTotal, "behavior: {scaleDown: {tolerance: 50m}}"), "50 × (1 − 2 %) = 49", func(t *testing.T, a *simulation.Autoscaler) string {
		return want(last(run(t, a, total(50), time.Hour, 0, 49)), 49)
	}},
	{"metric-twice", autoscaler(2, 5, onCPU+", "+strings.Replace(onCPU, "60", "80", 1), ""), autoscaler(2, 5, onCPU+", "+strings.NewReplacer("cpu", "memory", "60", "80").Replace(onCPU), ""), "usage ÷ 60 ≥ usage ÷ 80", func(t *testing.T, a *simulation.Autoscaler) string {
		both := run(t, a, cpu(2, 10, 500), time.Hour, 0, 50, 1800, 200)
		a.Spec.Metrics = a.Spec.Metrics[:1]
		return want(both, run(t, a, cpu(2, 10, 500), time.Hour, 0, 50, 1800, 200))
	}},
	{"request-tiny", autoscaler(2, 5, onCPU, "") + deployment("", `{name: app, resources: {requests: {cpu: 1m}, limits: {cpu: "2"}}}`), autoscaler(2, 5, onCPU, "") + deployment("", `{name: app, resources: {requests: {cpu: 100m}, limits: {cpu: "2"}}}`),
		"limit 2000m ÷ request 1m = 200000 %, target 60 %: one busy pod asks for 3334 replicas", nil},
	{"request-tiny", autoscaler(2, 5, onCPU, "") + deployment("", `{name: app, resources: {requests: {cpu: 2m}}}`), autoscaler(2, 5, onCPU, "") + deployment("", tiny), "request 2m, target 60 %: at ten times the request a pod asks for 17 replicas", nil},
	{"metrics-default", autoscaler(2, 5, "", ""), autoscaler(2, 5, onCPU, ""), "spec.metrics: none", nil},
	// One that allows the whole way decides, whatever the others' periods.
	{"policy-never-binds", autoscaler(2, 40, onTotal, "behavior: {scaleDown: {policies: [{type: Percent, value: 100, periodSeconds: 15}, {type: Pods, value: 1, periodSeconds: 60}]}}"),
		autoscaler(2, 40, onTotal, "behavior: {scaleDown: {policies: [{type: Percent, value: 50, periodSeconds: 15}, {type: Pods, value: 1, periodSeconds: 60}]}}"),
		"one of both always allows the whole way between 2 and 40 replicas at once; Max counts", func(t *testing.T, a *simulation.Autoscaler) string {
			with := run(t, a, total(40), 2*time.Hour, 0, 40, 3600, 40, 3600, 2)
			a.Spec.Behavior.ScaleDown.Policies = a.Spec.Behavior.ScaleDown.Policies[:1]
			return want(with, run(t, a, total(40), 2*time.Hour, 0, 40, 3600, 40, 3600, 2))
		}},
	{"policy-never-binds", autoscaler(2, 40, onTotal, "behavior: {scaleUp: {selectPolicy: Min, policies: [{type: Pods, value: 38, periodSeconds: 60}, {type: Pods, value: 4, periodSeconds: 15}]}, scaleDown: {policies: [{type: Percent, value: 100, periodSeconds: 60}]}}"),
		autoscaler(2, 40, onTotal, "behavior: {scaleUp: {selectPolicy: Min, policies: [{type: Pods, value: 37, periodSeconds: 60}, {type: Pods, value: 4, periodSeconds: 15}]}}"),
		"Min counts", func(t *testing.T, a *simulation.Autoscaler) string {
			with := run(t, a, total(2), 2*time.Hour, 0, 2, 3600, 2, 3600, 80)
			a.Spec.Behavior.ScaleUp.Policies = a.Spec.Behavior.ScaleUp.Policies[1:]
			return want(with, run(t, a, total(2), 2*time.Hour, 0, 2, 3600, 2, 3600, 80))
		}},
	{"series-unselected", autoscaler(1, 5, series, ""), autoscaler(1, 5, onTotal, ""), "no selector", nil},
	{"series-unselected", autoscaler(1, 5, strings.Replace(series, "name: load", "name: load, selector: {}", 1), ""), autoscaler(1, 5, strings.Replace(series, "name: load", "name: load, selector: {matchExpressions: [{key: app, operator: Exists}]}", 1), ""), "no selector", nil},
	{"series-unselected", "spec: {maxReplicas: 5, metrics: [" + series + "]}\n", "spec: {maxReplicas: 5, metrics: [" + series + "]}\nqueries: [{metric: \"External:load\", source: http://prometheus:9090, query: load}]\n", "no selector", nil},
}

// worldCase is a case with the scenarios of both specs, empty: none.
type worldCase struct {
	rule, found, mended, in, mendedIn, arithmetic string
	proof                                         func(t *testing.T, a *simulation.Autoscaler) string
}

// wanting is an autoscaler with a typing error.
var wanting = strings.Replace(autoscaler(2, 5, onCPU, ""), "name: web}\n", "name: wbe}\n", 1)

// labelled is a Deployment whose pods have a label.
var labelled = strings.Replace(deployment("", plain), "template: {", "template: {metadata: {labels: {app: web}}, ", 1)

func keda(name, target string) string {
	return fmt.Sprintf("---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: %s, namespace: shop}\nspec: {scaleTargetRef: {name: %s}, triggers: []}\n", name, target)
}

// paused is one that KEDA pauses, or not.
func paused(value string) string {
	return strings.Replace(keda("queue", "web"), "namespace: shop", "namespace: shop, annotations: {autoscaling.keda.sh/paused: "+value+"}", 1)
}

func vertical(mode, policy string) string {
	return fmt.Sprintf("---\napiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: web, namespace: shop}\n"+
		"spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, updatePolicy: {updateMode: %s}, resourcePolicy: %s}\n", mode, policy)
}

func disruption(amount string) string {
	return fmt.Sprintf("---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: shop}\nspec: {%s, selector: {matchLabels: {app: web}}}\n", amount)
}

// worldCases are those of cases, and some of rules that take a scenario, or of several objects.
func worldCases() []worldCase {
	all := []worldCase{
		{rule: "selectors-overlap",
			found:      autoscaler(2, 5, onCPU, "") + labelled + other(autoscaler(2, 5, onCPU, "")+labelled),
			mended:     autoscaler(2, 5, onCPU, "") + labelled + other(strings.ReplaceAll(autoscaler(2, 5, onCPU, "")+labelled, "app: web", "app: other")),
			arithmetic: "2 autoscalers, 1 set of pods"},
		{rule: "zero-for-good", found: autoscaler(0, 5, onTotal, ""), mended: autoscaler(0, 5, onTotal, ""), in: strings.Replace(waking, "FOLLOWS", "served", 1), mendedIn: strings.Replace(waking, "FOLLOWS", "offered", 1),
			arithmetic: "load of 0 pods = 0, at a load of 100 for 2h", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				a.Options.ScaleToZero = true
				w := total(1)
				w.Usage[0].Follows = simulation.Served
				served := last(run(t, a, w, 2*time.Hour, 0, 0, 3600, 0, 3600, 100))
				w.Usage[0].Follows = simulation.Offered
				return want([]int32{served, last(run(t, a, w, 2*time.Hour, 0, 0, 3600, 0, 3600, 100))}, []int32{0, 5})
			}},
		// Where no load brings a replica at any count it is not for the metric.
		{rule: "zero-for-good", found: autoscaler(0, 5, onTotal, ""), mended: autoscaler(0, 5, onTotal, "behavior: {scaleUp: {selectPolicy: Disabled}}"), in: strings.Replace(waking, "FOLLOWS", "served", 1), mendedIn: strings.Replace(waking, "FOLLOWS", "offered", 1),
			arithmetic: "load of 0 pods = 0", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				w := total(1)
				w.Usage[0].Follows = simulation.Served
				return want(last(run(t, a, w, 2*time.Hour, 0, 0, 3600, 0, 3600, 100)), 0)
			}},
		{rule: "startup-above-doubling", found: autoscaler(2, 30, onCPU, ""), mended: autoscaler(2, 30, onCPU, ""),
			in: strings.Replace(doubling, "START", "2m", 1), mendedIn: strings.Replace(doubling, "START", "10s", 1),
			arithmetic: "start-up 2m", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				// A load that takes ten minutes to double finds pods in time.
				slow := strings.NewReplacer("START", "2m", "3630s", "70m", "7230s", "130m").Replace(doubling)
				return want([]int{shortRises(t, a, strings.Replace(doubling, "START", "2m", 1)), shortRises(t, a, slow)}, []int{2, 0})
			}},
		// The manifest's probe says it where the scenario does not.
		{rule: "startup-above-doubling", found: autoscaler(2, 30, onCPU, "") + deployment("", probed), mended: autoscaler(2, 30, onCPU, "") + deployment("", plain),
			in: strings.Replace(doubling, "START", "0s", 1), mendedIn: strings.Replace(doubling, "START", "0s", 1),
			arithmetic: "start-up 2m", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				return want(shortRises(t, a, strings.Replace(doubling, "START", "2m", 1)), 2)
			}},
		{rule: "start-counts-as-load", found: autoscaler(2, 50, onCPU, ""), mended: autoscaler(2, 50, onCPU, ""),
			in: strings.Replace(warming, "START", "10s", 1), mendedIn: strings.Replace(warming, "START", "3m", 1),
			arithmetic: "900m more for 2m after the start, ready after 10s, cpuInitializationPeriod 5m: ", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				// 150 of 10m are 1500m, of which 300m a pod are 5 pods, and no more are needed.
				late, soon := world(t, strings.Replace(warming, "START", "3m", 1)), world(t, strings.Replace(warming, "START", "10s", 1))
				most := func(s *simulation.Scenario) int32 { return figuresOf(t, s, a).Most }
				if soonest := most(soon); soonest <= 5 {
					return fmt.Sprint(soonest)
				}
				return want(most(late), 5)
			}},
		{rule: "surge-counts-as-load", found: autoscaler(2, 50, onCPU, "") + deployment("strategy: {rollingUpdate: {maxSurge: 50%}}", plain), mended: autoscaler(2, 50, onCPU, "") + deployment("strategy: {rollingUpdate: {maxSurge: 0}}", plain),
			in: strings.Replace(steadily, "WARM", "3m", 1), mendedIn: strings.Replace(steadily, "WARM", "3m", 1),
			arithmetic: "maxSurge 50 % of ", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				calm, rolled := world(t, strings.Replace(steadily, "WARM", "3m", 1)), world(t, strings.Replace(steadily, "WARM", "3m", 1)+"events: [{at: 2h, rollout: {surge: 5}}]\n")
				if before, after := figuresOf(t, calm, a).Most, figuresOf(t, rolled, a).Most; after <= before {
					return fmt.Sprintf("%d with a rollout, %d without", after, before)
				}
				return ""
			}},
		{rule: "surge-counts-as-load", found: autoscaler(2, 50, onCPU, "") + deployment("", plain), mended: autoscaler(2, 50, onCPU, "") + deployment("strategy: {type: Recreate}", plain),
			in: strings.Replace(steadily, "WARM", "3m", 1), mendedIn: strings.Replace(steadily, "WARM", "3m", 1),
			arithmetic: "maxSurge 25 % of ", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				// Pods that use no more while they start bring none.
				calm := world(t, strings.Replace(steadily, "WARM", "0s", 1)+"events: [{at: 2h, rollout: {surge: 3}}]\n")
				rolled := world(t, strings.Replace(steadily, "WARM", "3m", 1)+"events: [{at: 2h, rollout: {surge: 3}}]\n")
				if most := figuresOf(t, rolled, a).Most; most <= 10 {
					return fmt.Sprint(most)
				}
				return want(figuresOf(t, calm, a).Most, 10)
			}},
		{rule: "window-above-rhythm", found: autoscaler(2, 50, onCPU, ""), mended: autoscaler(2, 50, onCPU, "behavior: {scaleDown: {stabilizationWindowSeconds: 60}}"), in: pausing, mendedIn: pausing,
			arithmetic: "window 5m: no scale-down", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				held := figuresOf(t, world(t, pausing), a).Downs
				a.Options.DownscaleStabilization = time.Minute
				if falls := figuresOf(t, world(t, pausing), a).Downs; falls < 20 {
					return fmt.Sprint(falls)
				}
				return want(held, 0)
			}},
		{rule: "window-above-rhythm", found: autoscaler(2, 50, onCPU, "behavior: {scaleDown: {stabilizationWindowSeconds: 600}}"), mended: autoscaler(2, 50, onCPU, "behavior: {scaleDown: {stabilizationWindowSeconds: 60}}"), in: pausing, mendedIn: pausing,
			arithmetic: "window 10m: no scale-down", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				return want(figuresOf(t, world(t, pausing), a).Downs, 0)
			}},
		{rule: "idle-holds", found: autoscaler(1, 20, onCPU, ""), mended: autoscaler(1, 20, onCPU, ""), in: strings.Replace(resting, "IDLE", "50m", 1), mendedIn: strings.Replace(resting, "IDLE", "10m", 1),
			arithmetic: "5 × 0.83 = 4.17, rounded up", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				w := cpu(20, 1, 100)
				w.Usage[0].Idle = 50
				twenty := last(run(t, a, w, 9*time.Hour, 0, 0))
				w.Usage[0].Idle = 10
				return want([]int32{twenty, last(run(t, a, w, 9*time.Hour, 0, 0))}, []int32{5, 1})
			}},
		{rule: "one-metric-decides", found: autoscaler(2, 20, onMemory, ""), mended: autoscaler(2, 20, onMemory, ""), in: strings.Replace(pair, "MEMORY", "100Mi", 1), mendedIn: strings.Replace(pair, "MEMORY", "700Mi", 1),
			arithmetic: "memory at most 5", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				s := world(t, strings.Replace(pair, "MEMORY", "100Mi", 1))
				both := trajectory(t, s, a)
				a.Spec.Metrics = a.Spec.Metrics[:1]
				return want(both, trajectory(t, s, a))
			}},
		{rule: "tolerance-steps", found: autoscaler(1, 100, onTotal, ""), mended: autoscaler(1, 100, onTotal, "behavior: {scaleUp: {tolerance: 10m}, scaleDown: {tolerance: 10m}}"),
			in: strings.NewReplacer("constant: 100", "constant: 40", "FOLLOWS", "offered", "usage:", "replicas: 40, usage:").Replace(waking), mendedIn: strings.NewReplacer("constant: 100", "constant: 40", "FOLLOWS", "offered", "usage:", "replicas: 40, usage:").Replace(waking),
			arithmetic: "40 × (1 − 0.1) = 36, 40 × (1 + 0.1) = 44", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				return want([]int32{last(run(t, a, total(40), 2*time.Hour, 0, 36)), last(run(t, a, total(40), 2*time.Hour, 0, 44)), last(run(t, a, total(40), 2*time.Hour, 0, 35)), last(run(t, a, total(40), 2*time.Hour, 0, 45))},
					[]int32{40, 40, 35, 45})
			}},
		{rule: "schedule-out-of-bounds", found: scheduled(`{"name": "night", "timeZone": "UTC", "cron": "0 22 * * *", "duration": "3600s", "minReplicas": 60}`),
			mended: scheduled(`{"name": "night", "timeZone": "UTC", "cron": "0 22 * * *", "duration": "3600s", "minReplicas": 20, "maxReplicas": 20}`), arithmetic: "60 > 20"},
		{rule: "schedule-never-soon", found: scheduled(`{"name": "sale", "timeZone": "UTC", "at": "2020-11-27T08:00:00Z", "duration": "3600s", "minReplicas": 9}`),
			mended: scheduled(`{"name": "leap", "timeZone": "UTC", "cron": "0 8 27 11 *", "duration": "3600s", "minReplicas": 9}`), arithmetic: "no start after now"},
		{rule: "schedule-overshadowed", found: scheduled(`{"name": "day", "timeZone": "UTC", "cron": "0 7 * * *", "endCron": "0 19 * * *", "minReplicas": 9}, {"name": "noon", "timeZone": "UTC", "cron": "0 12 * * *", "duration": "3600s", "minReplicas": 9}`),
			mended: scheduled(`{"name": "day", "timeZone": "UTC", "cron": "0 7 * * 1-5", "endCron": "0 19 * * *", "minReplicas": 9}, {"name": "noon", "timeZone": "UTC", "cron": "0 12 * * *", "duration": "3600s", "minReplicas": 8}`), arithmetic: "9 ≤ 9 in each of the next 64 periods"},
		{rule: "schedule-contradicted", found: scheduled(`{"name": "cheap", "timeZone": "UTC", "cron": "0 20 * * *", "duration": "14400s", "maxReplicas": 5}, {"name": "late", "timeZone": "UTC", "cron": "0 23 * * 5", "duration": "3600s", "minReplicas": 9}`),
			mended: scheduled(`{"name": "cheap", "timeZone": "UTC", "cron": "0 20 * * *", "duration": "10800s", "maxReplicas": 5}, {"name": "late", "timeZone": "UTC", "cron": "0 23 * * 5", "duration": "3600s", "minReplicas": 9}`), arithmetic: "5 < 9, next on "},
		{rule: "schedule-ramp-asks-nothing", found: scheduled(`{"name": "day", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 14, "rampUp": "180s"}`),
			mended:     scheduled(`{"name": "day", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 14, "rampUp": "181s"}, {"name": "paced", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "7200s", "minReplicas": 20, "rampUp": "180s", "minPace": "PACED"}, {"name": "short", "timeZone": "UTC", "cron": "0 10 * * *", "duration": "3600s", "minReplicas": 20, "rampUp": "119s"}`),
			arithmetic: "12 replicas in 3m0s: one or more in each 15s"},
		{rule: "fallback-out-of-bounds", found: staged(`"fallbacks": [{"metric": "External:load", "replicas": 30}]`),
			mended: staged(`"fallbacks": [{"metric": "External:load", "replicas": 20}]`), arithmetic: "30 > 20"},
		{rule: "fallback-out-of-bounds", found: staged(`"fallbacks": [{"metric": "External:load", "replicas": 1}]`),
			mended: staged(`"fallbacks": [{"metric": "External:load", "lastGood": {"maxAge": "60s"}}]`), arithmetic: "1 < 2"},
		{rule: "fallback-within-period", found: staged(`"fallbacks": [{"metric": "External:load", "ignore": true, "failureDuration": "14s"}]`),
			mended: staged(`"fallbacks": [{"metric": "External:load", "ignore": true, "failureDuration": "15s"}]`), arithmetic: "14s < 15s: the second failed evaluation in a row starts it"},
		{rule: "forecast-of-one-day", found: staged(`"forecast": {"timeZone": "UTC", "quantilePercent": 93}`),
			mended: staged(`"forecast": {"timeZone": "UTC", "quantilePercent": 92}`), arithmetic: "93 % of 14 days is the 14th"},
		{rule: "forecast-below-minimum", found: staged(`"forecast": {"timeZone": "UTC", "mode": "FLOOR", "maxPercentOfMax": 14}`),
			mended: staged(`"forecast": {"timeZone": "UTC", "mode": "FLOOR", "maxPercentOfMax": 15}`), arithmetic: "14 % of 20 is 2 ≤ 2"},
		{rule: "zero-guard-above-window", found: staged(`"zeroGuards": [{"metric": "External:load", "confirm": "301s"}]`),
			mended: staged(`"zeroGuards": [{"metric": "External:load"}]`), arithmetic: "5m1s > 5m0s"},
		{rule: "small-counts", found: autoscaler(1, 20, onCPU, "") + deployment("", tiny), mended: autoscaler(1, 20, onCPU, "") + deployment("", plain),
			arithmetic: "2 → 1 at 30 %, 3 → 2 at 40 %, 4 → 3 at 45 %, 5 → 4 at 48 %", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				// A unit of load is 1 % of a pod's request. The controller computes with whole percents.
				at := func(n int32, percent float64) int32 {
					return last(run(t, a, cpu(n, 5, 500), time.Hour, 0, percent*float64(n)))
				}
				return want([]int32{at(2, 31), at(2, 30), at(3, 41), at(3, 40), at(5, 49), at(5, 48)}, []int32{2, 1, 3, 2, 5, 4})
			}},
	}
	offered := strings.Replace(waking, "FOLLOWS", "offered", 1)
	up := func(policies string) string { return autoscaler(0, 5, onTotal, "behavior: {scaleUp: {"+policies+"}}") }
	const all900, onePod = "{type: Percent, value: 900, periodSeconds: 15}", "{type: Pods, value: 1, periodSeconds: 15}"
	fromZero := func(t *testing.T, a *simulation.Autoscaler) int32 {
		t.Helper()
		a.Options.ScaleToZero = true
		return last(run(t, a, total(1), 3*time.Hour, 0, 0, 7200, 0, 7200, 100))
	}
	all = append(all,
		worldCase{rule: "zero-for-good", found: up("policies: [" + all900 + "]"), mended: up("policies: [" + all900 + ", " + onePod + "]"), in: offered, mendedIn: offered,
			arithmetic: "of 0 replicas Percent 900 allows 0; Max counts", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				stuck := fromZero(t, a)
				a.Spec.Behavior.ScaleUp.Policies = append(a.Spec.Behavior.ScaleUp.Policies, recommender.ScalingPolicy{Type: recommender.PodsPolicy, Value: 1, PeriodSeconds: 15})
				return want([]int32{stuck, fromZero(t, a)}, []int32{0, 5})
			}},
		worldCase{rule: "zero-for-good", found: up("selectPolicy: Min, policies: [" + all900 + ", " + onePod + "]"), mended: up("selectPolicy: Min, policies: [" + onePod + "]"), in: offered, mendedIn: offered,
			arithmetic: "Percent 900 allows 0, Pods 1 allows 1; Min counts", proof: func(t *testing.T, a *simulation.Autoscaler) string { return want(fromZero(t, a), 0) }},
		// The one that leaves 0 decides there.
		worldCase{rule: "policy-never-binds", found: strings.Replace(up("policies: ["+all900+", "+onePod+"]"), "minReplicas: 0", "minReplicas: 1", 1), mended: up("policies: [" + all900 + ", " + onePod + "]"), mendedIn: offered,
			arithmetic: "between 1 and 5 replicas"},
		worldCase{rule: "request-missing", found: autoscaler(1, 5, onCPU, ""), mended: autoscaler(1, 5, onCPU, ""), in: strings.Replace(pausing, "requests: {cpu: 500m}, ", "", 1), mendedIn: pausing,
			arithmetic: "target 60 % of a request that app does not have", proof: func(t *testing.T, a *simulation.Autoscaler) string {
				w := cpu(2, 10, 500)
				w.Containers[0].Requests = nil
				return want(causes(run(t, a, w, 30*time.Minute, 0, 1000)), simulation.CauseFailingMetric)
			}},
	)
	for _, c := range cases {
		all = append(all, worldCase{c.rule, c.found, c.mended, "", "", c.arithmetic, c.proof})
	}
	return all
}

func TestFindings(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, tt := range slices.Concat(worldCases(), fleetCases()) {
		covered[tt.rule] = true
		is := func(f Finding) bool { return f.Rule == tt.rule }
		found := checkIn(t, tt.found, tt.in)
		i := slices.IndexFunc(found, is)
		if i < 0 {
			t.Errorf("%s: not found in\n%s", tt.rule, tt.found)
			continue
		}
		f := found[i]
		if !strings.Contains(f.Arithmetic, tt.arithmetic) || f.Object == "" || f.Field == "" || f.File != "f0.yaml" || !strings.HasSuffix(f.Link, "docs/reference/lint.md#"+tt.rule) {
			t.Errorf("%s: %+v, want %q", tt.rule, f, tt.arithmetic)
		}
		if mended := checkIn(t, tt.mended, tt.mendedIn); slices.ContainsFunc(mended, is) {
			t.Errorf("%s: found in the mended spec, too:\n%s%v", tt.rule, tt.mended, mended)
		}
		if f.Simulated && tt.proof == nil {
			t.Errorf("%s: says that it was simulated, and no test does so", tt.rule)
		}
		if tt.proof == nil {
			continue
		}
		manifest, _, _ := strings.Cut(tt.found, "---")
		on := strings.Contains(manifest, "minReplicas: 0")
		a := engine(t, manifest, &setpointv1.RecommendOptions{ScaleToZero: &on})
		if wrong := tt.proof(t, a); wrong != "" {
			t.Errorf("%s: the simulation does otherwise: %s\n%s", tt.rule, wrong, f.Message)
		}
	}
	covered["profile-ignores"] = true // TestWhatAProfileIgnores
	for _, r := range Rules {
		if !covered[r.ID] {
			t.Errorf("%s: has no case", r.ID)
		}
	}
}

// Since when a version is gone is a version of Kubernetes.
func TestVersionsThatAreGone(t *testing.T) {
	t.Parallel()
	manifest := autoscaler(1, 5, onCPU, "")
	spec, _, _ := strings.Cut(strings.Replace(manifest, "scaleTargetRef", "scaleRef", 1), "  metrics:")
	for version, text := range map[string]string{"v2beta1 1.25": "", "v2beta2 1.26": manifest, "v1beta1 1.6": spec} {
		version, since, _ := strings.Cut(version, " ")
		group := "autoscaling/"
		switch version {
		case "v1beta1":
			group = "extensions/"
		case "v2beta1":
			text = strings.Replace(manifest, "target: {type: Utilization, averageUtilization: 60}", "targetAverageUtilization: 60", 1)
		}
		found := checkIn(t, strings.Replace(text, "autoscaling/v2", group+version, 1), "")
		want := group + version + " is not served by Kubernetes " + since + " and later"
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == "superseded-version" && f.Message == want }) {
			t.Errorf("%s: %v", want, found)
		}
	}
}

// What an older controller ignores is found where it is written, and the count goes as if it
// were not there.
func TestWhatAProfileIgnores(t *testing.T) {
	t.Parallel()
	slow := autoscaler(2, 50, onTotal, "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}")
	for _, tt := range []struct{ profile, text, want string }{
		{"v1.15", slow, "spec.behavior"}, {"v1.36", slow, ""}, {"v1.15", autoscaler(2, 50, onTotal, ""), ""}, {"v1.19", slow, ""},
		{"v1.28", autoscaler(2, 50, onTotal, "behavior: {scaleUp: {tolerance: 50m}}"), "spec.behavior.scaleUp.tolerance"},
		{"v1.36", autoscaler(2, 50, onTotal, "behavior: {scaleUp: {tolerance: 50m}}"), ""},
		{"v1.28", autoscaler(2, 50, onTotal, "behavior: {scaleUp: {tolerance: 0}}"), "spec.behavior.scaleUp.tolerance"},
		{"v1.15", autoscaler(2, 50, onTotal, "behavior: {scaleDown: {tolerance: 1}}"), "spec.behavior"},
		{"v1.15", autoscaler(2, 50, onTotal, "behavior: {scaleUp: {policies: [{type: Percent, value: 10, periodSeconds: 60}]}}"), "spec.behavior"},
		{"v1.15", autoscaler(2, 50, onTotal, "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}, {type: Pods, value: 4, periodSeconds: 60}]}}"), "spec.behavior"},
	} {
		l := Linter{Options: given(&setpointv1.RecommendOptions{Profile: tt.profile})}
		fatal.If(t, l.Read("f.yaml", strings.NewReader(tt.text)))
		findings, err := l.Check(t.Context())
		fatal.If(t, err)
		got := ""
		for _, f := range findings {
			switch f.Rule {
			case "profile-ignores":
				got = f.Field
			case "tolerance-zero", "tolerance-never-down", "percent-rounds-up", "policy-never-binds", "zero-guard-above-window", "no-behavior":
				t.Errorf("%s: %s of what it ignores", tt.profile, f.Rule)
			}
		}
		if got != tt.want {
			t.Errorf("%s: found at %q, want %q in\n%s", tt.profile, got, tt.want, tt.text)
		}
	}
	run := func(manifest string) []seen {
		return run(t, engine(t, manifest, &setpointv1.RecommendOptions{Profile: "v1.15"}), total(2), 2*time.Hour, 0, 2, 3600, 2, 3600, 100)
	}
	if with, without := run(slow), run(autoscaler(2, 50, onTotal, "")); !slices.Equal(with, without) {
		t.Errorf("v1.15 scales with behavior %v, without %v", with, without)
	}
}

// Messages have the numbers of the run that they tell of.
func TestMessagesOfSimulatedFindings(t *testing.T) {
	t.Parallel()
	for _, tt := range worldCases() {
		for _, f := range checkIn(t, tt.found, tt.in) {
			switch {
			case f.Rule == "target-unreachable" && tt.rule == f.Rule && f.Message != "cpu brings no scale-up at any load: it is at most 104 % of its request",
				f.Rule == "slow-way-up" && tt.rule == f.Rule && f.Message != "from 2 to 50 replicas takes 47m",
				f.Rule == "slow-way-down" && tt.rule == f.Rule && f.Message != "from 50 back to 2 replicas takes 1h38m45s",
				f.Rule == "tolerance-steps" && tt.rule == f.Rule && f.Message != "at 40 replicas, the average, the count stays while 36 to 44 would do",
				f.Rule == "scale-up-window" && f.Message != "every rise waits for 1m45s":
				t.Errorf("%s: %s", f.Rule, f.Message)
			}
		}
	}
}

// Sidecars, init containers that run on, count among the requests; other init containers do
// not, and in v1.28 neither do sidecars.
func TestSidecars(t *testing.T) {
	t.Parallel()
	const app = `{name: app, resources: {requests: {cpu: 500m}, limits: {cpu: 520m}}}`
	workload := func(sidecar string) string {
		return strings.Replace(deployment("", app), "template: {spec: {", "template: {spec: {initContainers: ["+sidecar+"], ", 1)
	}
	on95 := autoscaler(1, 9, strings.Replace(onCPU, "60", "95", 1), "")
	for _, tt := range []struct{ name, sidecar, profile, want string }{
		{"without a request", "{name: proxy, restartPolicy: Always}", "v1.36", "request-missing"},
		{"without a request, and one that ends", "{name: setup}", "v1.36", "target-unreachable"},
		{"without a request, in a version that does not know it", "{name: proxy, restartPolicy: Always}", "v1.28", "target-unreachable"},
		{"that may use much more", `{name: proxy, restartPolicy: Always, resources: {requests: {cpu: 100m}, limits: {cpu: "2"}}}`, "v1.36", "sidecar-in-average"},
	} {
		l := Linter{Options: given(&setpointv1.RecommendOptions{Profile: tt.profile})}
		fatal.If(t, l.Read("f.yaml", strings.NewReader(on95+workload(tt.sidecar))))
		findings, err := l.Check(t.Context())
		fatal.If(t, err)
		var rules []string
		for _, f := range findings {
			if f.Rule != "target-over-request" && f.Rule != "small-counts" {
				rules = append(rules, f.Rule)
			}
		}
		if got := strings.Join(rules, " "); got != tt.want {
			t.Errorf("%s: found %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A LimitRange gives containers what they don't say, wherever it stands in the files.
func TestLimitRanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, containers, given, want string }{
		{"of a request", "{name: app}", "defaultRequest: {cpu: 500m}", ""},
		{"of a minimum", "{name: app}", "min: {cpu: 500m}", ""},
		{"of a maximum, which is limit and request", "{name: app}", "max: {cpu: 500m}", "target-unreachable"},
		{"of a limit", plain, "default: {cpu: 520m}", "target-unreachable"},
		{"of another limit than the container's", "{name: app, resources: {requests: {cpu: 500m}, limits: {cpu: 900m}}}", "default: {cpu: 520m}", ""},
		{"of the second container's", plain + ", {name: proxy}", "defaultRequest: {cpu: 100m}", "sidecar-in-average"},
		{"of another resource", "{name: app}", "min: {memory: 1Mi}", "request-missing"},
		{"of pods", "{name: app}", "min: {cpu: 500m}, type: Pod", "request-missing"},
		{"of another namespace", "{name: app}", "min: {cpu: 500m}", "request-missing"},
	} {
		files := []string{
			autoscaler(1, 9, strings.Replace(onCPU, "60", "95", 1), "") + deployment("", tt.containers),
			"apiVersion: v1\nkind: LimitRange\nspec: {limits: [{" + tt.given + "}]}\nmetadata: {name: all, namespace: shop}\n",
		}
		if !strings.Contains(tt.given, "type") {
			files[1] = strings.Replace(files[1], "[{", "[{type: Container, ", 1)
		}
		if strings.Contains(tt.name, "another namespace") {
			files[1] = strings.Replace(files[1], "shop", "other", 1)
		}
		for range 2 {
			var rules []string
			for _, f := range check(t, files...) {
				rules = append(rules, f.Rule)
			}
			if got := strings.Join(rules, " "); got != tt.want {
				t.Errorf("%s: found %s, want %s", tt.name, got, tt.want)
			}
			slices.Reverse(files)
		}
	}
}

// other is the same objects with another name.
func other(text string) string {
	return "---\n" + strings.NewReplacer("{name: web, namespace", "{name: other, namespace", "kind: Deployment, name: web", "kind: Deployment, name: other").Replace(text)
}

func figuresOf(t *testing.T, s *simulation.Scenario, a *simulation.Autoscaler) simulation.Figures {
	t.Helper()
	result, err := simulation.Run(s, a, nil)
	fatal.If(t, err)
	return result.Figures
}

func trajectory(t *testing.T, s *simulation.Scenario, a *simulation.Autoscaler) (counts []int32) {
	t.Helper()
	_, err := simulation.Run(s, a, func(step *simulation.Step) error {
		counts = append(counts, step.Decision.Desired)
		return nil
	})
	fatal.If(t, err)
	return counts
}

// shortRises is after how many of the two jumps of doubling the load was above what ready pods serve.
func shortRises(t *testing.T, a *simulation.Autoscaler, text string) (short int) {
	t.Helper()
	var after [2]bool
	_, err := simulation.Run(world(t, text), a, func(step *simulation.Step) error {
		for i, jump := range []time.Duration{time.Hour, 2 * time.Hour} {
			after[i] = after[i] || step.At >= jump && step.At <= jump+3*time.Minute && step.Load > step.Capacity
		}
		return nil
	})
	fatal.If(t, err)
	for _, is := range after {
		if is {
			short++
		}
	}
	return short
}

// What is refused is not linted: a minimum of 0 without the feature, or without a metric that may
// exist at 0.
func TestAMinimumOfZeroIsRefused(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		l := Linter{Options: given(&setpointv1.RecommendOptions{ScaleToZero: &on})}
		text, want := autoscaler(0, 5, onTotal, ""), "spec.minReplicas"
		if on {
			text, want = autoscaler(0, 5, onCPU, ""), "at least one Object or External metric"
		}
		fatal.If(t, l.Read("f.yaml", strings.NewReader(text)))
		if _, err := l.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("feature %t: %v, want %s", on, err, want)
		}
	}
}

// A scenario is about one workload, and has to suit it; the other rules look at it all the same.
func TestAScenarioThatDoesNotSuit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text, want string
		found      string // one of the rules; empty: none
	}{
		"two autoscalers": {autoscaler(5, 5, onCPU, "") + other(autoscaler(5, 5, onCPU, "")), "the files have 2 autoscalers", ""},
		"another metric":  {autoscaler(5, 5, onTotal, ""), "workload.usage: has no load", "min-equals-max"},
		"too many pods":   {strings.Replace(autoscaler(1, 5, onCPU, "behavior: {scaleDown: {stabilizationWindowSeconds: 0}}"), "maxReplicas: 5", "maxReplicas: 2000000000", 1) + deployment("replicas: 3", plain), "the simulation is too large", "replicas-in-manifest"},
	} {
		huge := "duration: 1h\nload: [{constant: 1e6}]\nworkload: {requests: {cpu: 500m}, startup: 10s, usage: [{metric: cpu, perLoad: 10m}]}\n"
		l := Linter{Options: given(&setpointv1.RecommendOptions{}), Scenario: world(t, huge)}
		fatal.If(t, l.Read("f.yaml", strings.NewReader(tt.text)))
		findings, err := l.Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || (tt.found != "") != slices.ContainsFunc(findings, func(f Finding) bool { return tt.found == "" || f.Rule == tt.found }) {
			t.Errorf("%s: %+v and %v, want %q and %s", name, findings, err, tt.found, tt.want)
		}
	}
}

// Rules are left out by the linter's list and by an object's annotation, of which nothing unknown is
// taken.
func TestRulesAreLeftOut(t *testing.T) {
	t.Parallel()
	text := autoscaler(5, 5, onCPU, "") + deployment("replicas: 3", plain)
	annotated := func(list string) string {
		return strings.Replace(text, "{name: web, namespace: shop}", "{name: web, namespace: shop, annotations: {setpoint.dev/lint-ignore: '"+list+"'}}", 1)
	}
	for _, tt := range []struct {
		text   string
		ignore []string
		want   string
		err    string
	}{
		{text, nil, "min-equals-max replicas-in-manifest", ""},
		{text, []string{"min-equals-max"}, "replicas-in-manifest", ""},
		{annotated("replicas-in-manifest, min-equals-max"), nil, "", ""},
		{annotated("replicas-in-manifest") + other(text), nil, "min-equals-max min-equals-max replicas-in-manifest", ""},
		{annotated("min-equal-max"), nil, "min-equals-max replicas-in-manifest", `f.yaml: shop/web: metadata.annotations[setpoint.dev/lint-ignore]: there is no rule "min-equal-max", did you mean "min-equals-max"?`},
	} {
		l := Linter{Options: given(&setpointv1.RecommendOptions{}), Ignore: tt.ignore}
		fatal.If(t, l.Read("f.yaml", strings.NewReader(tt.text)))
		found, err := l.Check(t.Context())
		var rules []string
		for _, f := range found {
			rules = append(rules, f.Rule)
		}
		if got := strings.Join(rules, " "); got != tt.want || want(err, tt.err) != "" && (err != nil || tt.err != "") {
			t.Errorf("found %q and %v, want %q and %q in\n%s", got, err, tt.want, tt.err, tt.text)
		}
	}
}

// A cluster's worth of findings is counted by rule.
func TestRulesAreCounted(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 30 {
		text.WriteString("---\n" + strings.Replace(autoscaler(5, 5, onCPU, ""), "name: web", fmt.Sprintf("name: web%d", i), 2))
	}
	findings := check(t, text.String())
	var rules, long, short bytes.Buffer
	fatal.If(t, errors.Join(WriteRules(&rules, findings, 30, 0), WriteText(&long, findings, 30, 0), WriteText(&short, findings[:20], 20, 0)))
	const counted = "   30  warning  min-equals-max: shop/web0, shop/web1, shop/web2, …\n30 autoscalers: 0 errors, 30 warnings, 0 notes\n"
	if rules.String() != counted || !strings.HasSuffix(long.String(), "#min-equals-max\n"+counted) || strings.Contains(short.String(), "  warning  ") {
		t.Errorf("%s%s%s", rules.String(), long.String(), short.String())
	}
}

// Targets of one name in two clusters are two, unless one may be the other. Objects of two kinds are two, also of one name; an
// Autoscaler gives way to a HorizontalPodAutoscaler of its name. A shadow scales nothing.
func TestWhichAutoscalersScaleOneTarget(t *testing.T) {
	t.Parallel()
	in := func(cluster, name string) string {
		return "name: " + cluster + "/shop/" + name + "\nspec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, metrics: [" + onCPU + "]}\n"
	}
	hpa := func(name string) string {
		return strings.Replace(autoscaler(2, 5, onCPU, ""), "{name: web,", "{name: "+name+",", 1)
	}
	own := func(name, field string) string {
		return strings.NewReplacer("autoscaling/v2", "autoscaling.setpoint.dev/v1", "HorizontalPodAutoscaler", "Autoscaler").Replace(hpa(name)) + field
	}
	elsewhere := strings.Replace(own("web", ""), "Deployment, name: web", "Deployment, name: api", 1)
	keda := "---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: so, namespace: shop}\nspec: {scaleTargetRef: {name: web}}\n"
	const hpaWeb, ownWeb = "HorizontalPodAutoscaler web", "Autoscaler web"
	const scale = " scales Deployment web, too"
	for text, want := range map[string][]string{
		in("a", "web") + "---\n" + in("b", "web-eu"):                             nil,
		in("a", "web") + "---\n" + in("a", "web-eu"):                             {"stored spec web-eu" + scale, "stored spec web" + scale},
		in("clusters/a/namespaces", "targets/web") + "---\n" + in("a", "web-eu"): {"stored spec web-eu" + scale, "stored spec web" + scale},
		in("a", "web") + "---\n" + in("b", "web") + "---\n" + hpa("own"):         {"HorizontalPodAutoscaler own" + scale, "HorizontalPodAutoscaler own" + scale, "stored spec web" + scale},
		in("a", "web") + "---\n" + hpa("web"):                                    nil,
		hpa("web") + "---\n" + hpa("web"):                                        nil,
		hpa("web") + "---\n" + own("web", ""):                                    {ownWeb + scale, hpaWeb + scale},
		hpa("web") + "---\n" + own("other", "  shadow: true\n"):                  nil,
		hpa("web") + "---\n" + own("web", "  shadow: true\n"):                    nil,
		hpa("web") + "---\n" + elsewhere:                                         {hpaWeb + " has this name, too: an agent acts on that one"},
		own("web", "  shadow: true\n") + keda:                                    nil,
		own("web", "") + keda:                                                    {"ScaledObject so" + scale},
		hpa("web") + "---\n" + hpa("b") + "---\n" + own("a", ""):                 {"Autoscaler a, HorizontalPodAutoscaler b scale Deployment web, too", "Autoscaler a, HorizontalPodAutoscaler web scale Deployment web, too", "HorizontalPodAutoscaler b, HorizontalPodAutoscaler web scale Deployment web, too"},
	} {
		var got []string
		for _, f := range check(t, text) {
			if f.Rule == "two-autoscalers" || f.Rule == "keda-beside" {
				got = append(got, f.Message)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q in\n%s", got, want, text)
		}
	}
}

// What is found about a target of one cluster can be told from the same of another's.
func TestFindingsHaveTheirCluster(t *testing.T) {
	t.Parallel()
	in := func(cluster string) string {
		return "name: clusters/" + cluster + "/namespaces/shop/targets/web\nspec: {minReplicas: 5, maxReplicas: 5, metrics: [" + onCPU + "]}\n"
	}
	found := check(t, in("east")+"---\n"+in("west"))
	for name, write := range map[string]func(io.Writer, []Finding) error{
		"text":  func(w io.Writer, found []Finding) error { return WriteText(w, found, 1, 0) },
		"JSON":  WriteJSON,
		"SARIF": func(w io.Writer, found []Finding) error { return WriteSARIF(w, found, "v1") },
	} {
		var all []string
		for _, f := range found {
			if f.Rule == "min-equals-max" {
				var out strings.Builder
				f.Line = 0
				fatal.If(t, write(&out, []Finding{f}))
				all = append(all, out.String())
			}
		}
		if len(all) != 2 || all[0] == all[1] || !strings.Contains(all[0], "east") || !strings.Contains(all[1], "west") {
			t.Errorf("%s: %s", name, all)
		}
	}
}

// A plain spec has nothing to be found.
// Of many autoscalers without their target each tells of some of as many workloads.
func TestAMissingTargetNamesSomeOfManyWorkloads(t *testing.T) {
	t.Parallel()
	const many = 20
	var text strings.Builder
	for i := range many {
		name := fmt.Sprintf("{name: w%d,", i)
		text.WriteString(strings.NewReplacer("{name: web,", name, "name: web}\n", "name: wbe}\n").Replace(autoscaler(2, 5, onCPU, "")))
		text.WriteString(strings.Replace(deployment("", plain), "{name: web,", name, 1))
		text.WriteString("---\n")
	}
	l := &Linter{Options: given(&setpointv1.RecommendOptions{})}
	fatal.If(t, l.Read("f.yaml", strings.NewReader(text.String())))
	for _, s := range l.Specs() {
		if len(s.Beside.Siblings) != mostSiblings || s.Beside.AllSiblings != many {
			t.Fatalf("%d are named of %d", len(s.Beside.Siblings), s.Beside.AllSiblings)
		}
	}
	found, err := l.Check(t.Context())
	fatal.If(t, err)
	told := 0
	for _, f := range found {
		if f.Rule == "target-missing" && f.Arithmetic == "20 of that kind there: w0, w1, w2, w3, w4, …" {
			told++
		}
	}
	if told != many {
		t.Errorf("%d of %d are told so: %v", told, many, found)
	}
}

func TestAPlainSpecHasNoFinding(t *testing.T) {
	t.Parallel()
	if found := check(t, autoscaler(2, 10, onCPU, "")+deployment("", plain)); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
}

// indented is a text as an item of a list.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// Findings have the lines of their file, in every form and among other documents.
func TestFindingsHaveLines(t *testing.T) {
	t.Parallel()
	const stored, bare = "name: clusters/c/namespaces/n/targets/%s\nspec:\n  minReplicas: 5\n  maxReplicas: 5\n", "maxReplicas: 5\nminReplicas: 5\n"
	web, other := autoscaler(5, 5, onCPU, ""), "kind: Other\napiVersion: v1\n"
	tests := map[string]struct {
		documents []string
		want      []int
	}{
		"a manifest":                  {[]string{web}, []int{7}},
		"stored specs":                {[]string{fmt.Sprintf(stored, "a"), fmt.Sprintf(stored, "b")}, []int{4, 9}},
		"specs after a comment":       {[]string{"# Ours.\n", bare, bare}, []int{3, 6}},
		"of one name":                 {[]string{web, strings.NewReplacer("autoscaling/v2", "autoscaling.setpoint.dev/v1", "HorizontalPodAutoscaler", "Autoscaler").Replace(web), web}, []int{7, 17, 27}},
		"after a document of nothing": {[]string{"", bare}, []int{2}},
		"forms among manifests":       {[]string{other, bare, web, fmt.Sprintf(stored, "a"), other}, []int{4, 13, 20}},
		"lists and pages": {[]string{
			other, "items:\n- " + indented(web) + "- " + indented(web) + "apiVersion: v1\nkind: List\n",
			"targetSpecs:\n- " + indented(fmt.Sprintf(stored, "a")) + "- " + indented(fmt.Sprintf(stored, "b")),
		}, []int{11, 20, 30, 34}},
		"values of JSON": {[]string{`{"minReplicas": 5,` + "\n" + `"maxReplicas": 5}` + "\n" + `{"maxReplicas": 5, "minReplicas": 5}{"minReplicas": 5,` + "\n" + `"maxReplicas": 5}`}, []int{2, 3, 4}},
		"an alias":       {[]string{"minReplicas: &n 5\nmaxReplicas: *n\n"}, []int{2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []int
			for _, f := range check(t, strings.Join(tt.documents, "---\n")) {
				if f.Rule == "min-equals-max" {
					lines = append(lines, f.Line)
				}
			}
			if !slices.Equal(lines, tt.want) {
				t.Errorf("lines %v, want %v", lines, tt.want)
			}
		})
	}
}

func TestSARIFHasEveryFinding(t *testing.T) {
	t.Parallel()
	found := slices.Concat(check(t, autoscaler(5, 5, onCPU, "")+deployment("replicas: 3", plain)), Refused("web.yaml", errors.New("web.yaml: is no text")))
	var out bytes.Buffer
	fatal.If(t, WriteSARIF(&out, found, "v1"))
	var got struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					InformationURI string
					Rules          []struct{ ID, HelpURI string }
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
			}
		}
	}
	fatal.If(t, json.Unmarshal(out.Bytes(), &got))
	if got.Version != "2.1.0" || len(got.Runs) != 1 || len(got.Runs[0].Results) != len(found) || len(found) < 2 {
		t.Fatalf("%d findings:\n%s", len(found), out.String())
	}
	if got := got.Runs[0].Tool.Driver.InformationURI; got != Page {
		t.Errorf("the page of the rules is %s", got)
	}
	for i, r := range got.Runs[0].Results {
		rule := got.Runs[0].Tool.Driver.Rules[r.RuleIndex]
		if r.RuleID != found[i].Rule || rule.ID != r.RuleID || r.Level != string(found[i].Severity) || rule.HelpURI != found[i].Link {
			t.Errorf("result %+v of finding %+v", r, found[i])
		}
	}
}

// want says what is otherwise, empty: nothing.
func want(got, want any) string {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return g + ", want " + w
	}
	return ""
}

// total is a workload whose metric "load" is the load itself, at the instant it is read.
func total(replicas int32) simulation.Workload {
	return simulation.Workload{Replicas: &replicas, Usage: []simulation.Usage{{Metric: "load", PerLoad: 1000, Follows: simulation.Offered, Window: time.Second}}}
}

func cpu(replicas int32, perLoad float64, request int64) simulation.Workload {
	return simulation.Workload{
		Replicas: &replicas, Usage: []simulation.Usage{{Metric: "cpu", PerLoad: perLoad}},
		Containers: []simulation.Container{{Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: request}}}},
	}
}

// seen is what was seen of one evaluation.
type seen struct {
	at            time.Duration
	count, before int32
	cause         simulation.Cause
}

// run simulates a workload under a load through points of seconds and values.
func run(t *testing.T, a *simulation.Autoscaler, w simulation.Workload, length time.Duration, points ...float64) []seen {
	t.Helper()
	var list []simulation.Point
	for i := 0; i < len(points); i += 2 {
		list = append(list, simulation.Point{At: time.Duration(points[i]) * time.Second, Value: points[i+1]})
	}
	load, err := simulation.NewTrace(list)
	fatal.If(t, err)
	var out []seen
	s := &simulation.Scenario{Start: begin, Duration: length, Load: load, Workload: w}
	// The metric is the mean of the second before: the load changes just after an evaluation.
	s.Loop.Offset = time.Second
	_, err = simulation.Run(s, a, func(step *simulation.Step) error {
		out = append(out, seen{step.At - time.Second, step.Decision.Desired, step.Replicas, step.Cause})
		return nil
	})
	fatal.If(t, err)
	return out
}

func last(steps []seen) int32 { return steps[len(steps)-1].count }

func highest(steps []seen) int32 {
	return slices.MaxFunc(steps, func(a, b seen) int { return int(a.count - b.count) }).count
}

// causes is the cause of all evaluations but the first minute's, empty: there are several.
func causes(steps []seen) simulation.Cause {
	for _, s := range steps[4:] {
		if s.cause != steps[4].cause {
			return ""
		}
	}
	return steps[4].cause
}

// arrival is when a count was first decided, and change when the count first changed.
func arrival(steps []seen, count int32) time.Duration {
	for _, s := range steps {
		if s.count == count {
			return s.at
		}
	}
	return -1
}

func change(steps []seen) time.Duration {
	for _, s := range steps {
		if s.count != s.before {
			return s.at
		}
	}
	return -1
}

// engine reads a manifest as the engine takes it.
func engine(t *testing.T, text string, options *setpointv1.RecommendOptions) *simulation.Autoscaler {
	t.Helper()
	read, err := hpa.ReadOne("f.yaml", strings.NewReader(text))
	fatal.If(t, err)
	a, err := read.Engine(options)
	fatal.If(t, err)
	return a
}

// given are options, whatever the object has.
func given(options *setpointv1.RecommendOptions) func(*setpointv1.RecommendOptions) *setpointv1.RecommendOptions {
	return func(*setpointv1.RecommendOptions) *setpointv1.RecommendOptions { return options }
}
