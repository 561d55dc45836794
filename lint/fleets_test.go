package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/simulation"
)

const (
	thirds = `{target: clusters/a/namespaces/shop/targets/web}, {target: clusters/b/namespaces/shop/targets/web}, {target: clusters/c/namespaces/shop/targets/web}`
	capped = `{target: clusters/a/namespaces/shop/targets/web, maxReplicas: 4}, {target: clusters/b/namespaces/shop/targets/web, maxReplicas: 5}`
)

// fleetOf is a stored spec of a fleet: bounds, a metric, the members and the rest of it.
func fleetOf(least, most int, metric, members, rest string) string {
	return fmt.Sprintf(`name: clusters/all/namespaces/shop/targets/web
spec:
  minReplicas: %d
  maxReplicas: %d
  metrics: [%s]
fleet:
  members: [%s]
  %s
`, least, most, metric, members, rest)
}

// at is a utilization of cpu.
func at(percent int) string { return strings.Replace(onCPU, "60", fmt.Sprint(percent), 1) }

// valued is a metric with a value.
func valued(kind string) string {
	if kind == "Object" {
		return `{type: Object, object: {metric: {name: load}, describedObject: {kind: Ingress, name: web}, target: {type: Value, value: "100m"}}}`
	}
	return `{type: External, external: {metric: {name: load, selector: {matchLabels: {app: web}}}, target: {type: Value, value: "100m"}}}`
}

// inFleet is a manifest of a member.
func inFleet(least, most int, metric string) string {
	return "---\n" + strings.Replace(autoscaler(least, most, metric, ""), "namespace: shop}", "namespace: shop, annotations: {setpoint.dev/fleet: clusters/all/namespaces/shop/targets/web}}", 1)
}

func fleetCases() []worldCase {
	whole, perMember, global := "onLost: SHIFT", `scopes: {"%s:load": PER_MEMBER}`, `scopes: {"%s:load": GLOBAL}`
	scoped := func(scope, kind string) string { return fmt.Sprintf(scope, kind) }
	own := func(text string) string {
		return strings.NewReplacer("autoscaling/v2", "autoscaling.setpoint.dev/v1", "HorizontalPodAutoscaler", "Autoscaler", ", annotations: {setpoint.dev/fleet: clusters/all/namespaces/shop/targets/web}", "", "\nspec:", "\nspec:\n  fleet: clusters/all/namespaces/shop/targets/web").Replace(text)
	}
	request := func(least int) string {
		return fmt.Sprintf("---\ntarget: clusters/b/namespaces/shop/targets/web\nfleet: clusters/all/namespaces/shop/targets/web\nspec: {minReplicas: %d, maxReplicas: 20, metrics: [%s]}\nscale: {specReplicas: 2}\n", least, onCPU)
	}
	byShift := fleetOf(3, 40, onCPU, thirds, whole)
	var all []worldCase
	for _, c := range []struct{ rule, found, mended, arithmetic string }{
		{"fleet-holds-dead", fleetOf(3, 40, at(60), thirds, ""), fleetOf(3, 40, at(59), thirds, ""), "% of all by weight: at 100 % of the others all are at 66 %, and replicas are added above 60 % × 1.1 = 66 %"},
		{"fleet-holds-dead", fleetOf(3, 40, at(70), thirds, ""), fleetOf(3, 40, at(70), thirds, whole), "above 70 % × 1.1 = 77 %"},
		{"fleet-holds-dead", fleetOf(3, 40, at(70), thirds, "onLost: HOLD"), fleetOf(3, 40, at(70), thirds, "surviveOne: true"), "above 70 % × 1.1 = 77 %"},
		{"fleet-holds-dead", fleetOf(3, 40, at(50), strings.Replace(thirds, "c/namespaces/shop/targets/web", "c/namespaces/shop/targets/web, weight: 3", 1), ""),
			fleetOf(3, 40, at(50), strings.Replace(thirds, "c/namespaces/shop/targets/web", "c/namespaces/shop/targets/web, weight: 3, maxReplicas: 13", 1), ""), "60 % of all by weight"},
		{"fleet-holds-dead", fleetOf(3, 40, at(70), thirds, ""), fleetOf(3, 40, at(70)+", "+onTotal, thirds, scoped(global, "External")), "above 70 % × 1.1 = 77 %"},
		{"fleet-caps-below-maximum", fleetOf(2, 10, onCPU, capped, whole), fleetOf(2, 9, onCPU, capped, whole), "of the 2 members that take part add up to 9"},
		{"fleet-caps-below-maximum", fleetOf(10, 20, onCPU, capped, whole), fleetOf(9, 9, onCPU, capped, whole), "add up to 9"},
		{"fleet-caps-below-maximum", fleetOf(2, 9, onCPU, strings.Replace(capped, "5}", "5, drained: true}", 1), whole), byShift, "of the 1 members that take part add up to 4"},
		{"fleet-survives-none", fleetOf(4, 5, onCPU, thirds, "surviveOne: true"), fleetOf(4, 6, onCPU, thirds, "surviveOne: true"), "at most 5 are shared out to 3 members that take part, the largest gets 2"},
		{"fleet-survives-none", fleetOf(1, 9, onCPU, strings.Replace(capped, "5}", "5, drained: true}", 1), "surviveOne: true"), fleetOf(1, 9, onCPU, capped, "surviveOne: true"), "at most 1 are shared out to 1 members that take part, the largest gets 1"},
		{"fleet-stale-soon", fleetOf(3, 40, onCPU, thirds, "staleAfter: 29s"), fleetOf(3, 40, onCPU, thirds, "staleAfter: 30s"), "29s < 2 × the period of 15s"},
		{"fleet-shifts-at-once", fleetOf(3, 40, onCPU, thirds, "{onLost: SHIFT, staleAfter: 400s}"), byShift, "lostAfter 6m40s = staleAfter"},
		{"fleet-shifts-at-once", fleetOf(3, 40, onCPU, thirds, "{onLost: SHIFT, staleAfter: 40s, lostAfter: 40s}"), fleetOf(3, 40, onCPU, thirds, "{staleAfter: 40s, lostAfter: 40s}"), "lostAfter 40s = staleAfter"},
		{"fleet-adds-values", fleetOf(3, 40, valued("External"), thirds, scoped(perMember, "External")), fleetOf(3, 40, valued("External"), thirds, scoped(global, "External")), "3 members that each read 0.1 make 0.3, 3 times the target"},
		{"fleet-adds-values", fleetOf(3, 40, valued("Object"), thirds, scoped(perMember, "Object")), fleetOf(3, 40, onTotal, thirds, scoped(perMember, "External")), "3 times the target"},
		{"fleet-one-left", fleetOf(2, 4, onCPU, strings.Replace(capped, "5}", "5, drained: true}", 1), whole), fleetOf(2, 9, onCPU, capped, whole), "1 of 2 members are drained"},
		{"fleet-own-minimum", fleetOf(2, 9, onCPU, capped, whole) + inFleet(6, 20, onCPU), fleetOf(2, 9, onCPU, capped, whole) + inFleet(5, 20, onCPU), "6 > 5"},
		{"fleet-own-minimum", fleetOf(2, 9, onCPU, capped, whole) + own(inFleet(6, 20, onCPU)), fleetOf(2, 9, onCPU, strings.Replace(capped, "5}", "5, drained: true}", 1), whole) + own(inFleet(6, 20, onCPU)), "6 > 5"},
		{"fleet-own-minimum", fleetOf(2, 9, onCPU, strings.Replace(capped, "4}", "9}", 1), whole) + request(6), fleetOf(2, 9, onCPU, strings.Replace(capped, "4}", "9}", 1), whole) + inFleet(6, 20, onCPU), "6 > 5"},
		{"fleet-own-minimum", fleetOf(2, 9, onCPU, capped, whole) + request(6), fleetOf(2, 9, onCPU, capped, whole) + request(5), "6 > 5"},
		{"fleet-differs", byShift + inFleet(1, 20, at(50)), byShift + inFleet(1, 20, at(60)), "in their order"},
		{"fleet-no-member", byShift + strings.Replace(inFleet(1, 20, onCPU), "{name: web, namespace", "{name: wbe, namespace", 1), byShift + inFleet(1, 20, onCPU), "a member of it is clusters/CLUSTER/namespaces/shop/targets/wbe"},
		{"fleet-no-member", byShift + strings.Replace(inFleet(1, 20, onCPU), "namespace: shop", "namespace: other", 1),
			byShift + strings.Replace(strings.Replace(inFleet(1, 20, onCPU), "namespace: shop", "namespace: other", 1), "targets/web}", "targets/elsewhere}", 1), "namespaces/other/targets/web"},
	} {
		c.found, c.mended = inBraces(c.found), inBraces(c.mended)
		all = append(all, worldCase{c.rule, c.found, c.mended, "", "", c.arithmetic, nil})
	}
	return all
}

// inBraces writes the rest of a fleet that has several fields, {a: 1, b: 2}, as lines of their own.
func inBraces(text string) string {
	before, rest, several := strings.Cut(text, "\n  {")
	if !several {
		return text
	}
	fields, after, _ := strings.Cut(rest, "}\n")
	return before + "\n  " + strings.ReplaceAll(fields, ", ", "\n  ") + "\n" + after
}

// A member that dies in a fleet with HOLD is replaced only where the rule finds nothing: three equal clusters, whose pods use no more
// than they request, and enough load for all that.
func TestADeadMemberIsReplacedWhereTheRuleFindsNothing(t *testing.T) {
	t.Parallel()
	load, err := simulation.NewTrace([]simulation.Point{{Value: 200}, {At: 10 * time.Minute, Value: 200}, {At: 11 * time.Minute, Value: 5000}})
	fatal.If(t, err)
	for _, percent := range []int{50, 59, 60, 61, 70} {
		found := slices.ContainsFunc(check(t, fleetOf(12, 40, at(percent), thirds, "")), func(f Finding) bool { return f.Rule == "fleet-holds-dead" })
		a := engine(t, autoscaler(12, 40, at(percent), ""), &setpointv1.RecommendOptions{})
		s := &simulation.Scenario{Start: begin, Duration: 20 * time.Minute, Load: load, Workload: cpu(12, 20, 1000), Fleet: &simulation.Fleet{}}
		s.Workload.Containers[0].Limits = s.Workload.Containers[0].Requests
		for _, name := range []string{"a", "b", "c"} {
			s.Fleet.Members = append(s.Fleet.Members, simulation.FleetMember{Name: name, Weight: 1, Max: -1})
		}
		s.Events = []simulation.Event{{At: 5 * time.Minute, Kind: simulation.ClusterDown, Member: "c", For: 15 * time.Minute}}
		result, err := simulation.RunFleet(t.Context(), s, a, simulation.Hold, nil)
		fatal.If(t, err)
		if replaced := result.Figures.Most > 12; replaced == found {
			t.Errorf("target %d %%: found is %v, and at a load of several times what the others can take there are up to %d replicas", percent, found, result.Figures.Most)
		}
	}
}

// A fleet scales its members, and is no second autoscaler of what both name.
func TestAFleetIsNoSecondAutoscaler(t *testing.T) {
	t.Parallel()
	named := strings.Replace(fleetOf(2, 9, onCPU, thirds, "onLost: SHIFT"), "targets/web\nspec:", "targets/sum\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}", 1)
	for _, f := range check(t, named, autoscaler(2, 9, onCPU, "")) {
		if f.Rule == "two-autoscalers" {
			t.Errorf("%+v", f)
		}
	}
}

// What the service would refuse of a fleet is an error, all of it at once.
func TestFleetsThatAreRefused(t *testing.T) {
	t.Parallel()
	const one = `{target: clusters/a/namespaces/shop/targets/web}`
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"one member":            {fleetOf(1, 9, onCPU, one, ""), []string{"fleet.members: "}},
		"no target":             {fleetOf(1, 9, onCPU, one+", {target: web}", ""), []string{"fleet.members[1].target: must be clusters/"}},
		"all drained":           {fleetOf(1, 9, onCPU, strings.ReplaceAll(thirds, "web}", "web, drained: true}"), ""), []string{"fleet.members: Invalid value: all are drained"}},
		"a weight of 0":         {fleetOf(1, 9, onCPU, strings.ReplaceAll(thirds, "web}", "web, weight: 0}"), ""), []string{"fleet.members[0].weight: ", "fleet.members[2].weight: "}},
		"floors above":          {fleetOf(2, 2, onCPU, strings.ReplaceAll(thirds, "web}", "web, minReplicas: 1}"), ""), []string{"their minReplicas add up to 3, and the fleet's spec.minReplicas is 2"}},
		"a floor above its cap": {fleetOf(5, 9, onCPU, strings.Replace(capped, "5}", "5, minReplicas: 6}", 1), ""), []string{"fleet.members[1].minReplicas: Invalid value: 6: must be at most maxReplicas, 5"}},
		"no scope, and ages":    {inBraces(fleetOf(2, 9, onTotal, thirds, "{staleAfter: 10s, lostAfter: 5s}")), []string{"fleet.scopes: Required value", "fleet.staleAfter: Invalid value: 10s: must be at least the period, 15s", "fleet.lostAfter: Invalid value: 5s"}},
		"a name of no fleet":    {strings.Replace(inFleet(2, 9, onCPU), "clusters/all/namespaces/shop/targets/web}", "web}", 1), []string{"annotation setpoint.dev/fleet: "}},
	} {
		l := Linter{Options: given(&setpointv1.RecommendOptions{})}
		if err := l.Read("f.yaml", strings.NewReader(tt.text)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err := l.Check(t.Context())
		for _, want := range tt.want {
			if !strings.Contains(fmt.Sprint(err), "f.yaml: shop/web: "+want) && !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}
