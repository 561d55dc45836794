package generate

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// behavior returns rules as users may write them. Omitted ones get defaults later, by
// the API server; none at all is different.
func (g *generator) behavior() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	if !g.chance(g.version.behavior) {
		return nil
	}
	if g.parameters.Restless && g.chance(0.8) {
		return nil
	}
	b := &autoscalingv2.HorizontalPodAutoscalerBehavior{}
	if g.chance(0.12) {
		return b
	}
	if g.chance(0.8) {
		b.ScaleUp = g.rules([]int32{0, 0, 0, 15, 30, 60, 90, 300, 3600})
	}
	if g.chance(0.85) {
		b.ScaleDown = g.rules([]int32{0, 0, 15, 30, 60, 90, 120, 300, 600, 3600})
	}
	return b
}

// tolerances are those of rules: the API server has no maximum.
var tolerances = []string{
	"0", "0", "0", "1m", "0.02", "50m", "100m", "0.1", "200m", "0.25", "333m", "5e-2", "1", "1500u", "3",
	"0.1000000001", "0.30000000000000004", "1Ki", "1e18", "9E", "1e30",
}

// rules returns the rules of one direction, with one of the windows.
func (g *generator) rules(windows []int32) *autoscalingv2.HPAScalingRules {
	rules := &autoscalingv2.HPAScalingRules{}
	if g.chance(0.8) {
		window := oneOf(g.random, append(windows, int32(g.between(0, 3600)), int32(g.between(0, 120)))...)
		rules.StabilizationWindowSeconds = &window
	}
	if g.chance(0.6) {
		selection := pick(g.random, []weighted[autoscalingv2.ScalingPolicySelect]{
			{3, autoscalingv2.MaxChangePolicySelect},
			{3, autoscalingv2.MinChangePolicySelect},
			{0.8, autoscalingv2.DisabledPolicySelect},
		})
		rules.SelectPolicy = &selection
	}
	if g.chance(0.75) {
		for range pick(g.random, []weighted[int]{{4, 1}, {3, 2}, {2, 3}, {0.5, 6}}) {
			rules.Policies = append(rules.Policies, g.policy())
		}
	}
	if g.chance(g.version.tolerance) && g.parameters.Tolerance == nil {
		tolerance := parse(oneOf(g.random, tolerances...))
		if g.chance(0.2) {
			tolerance = parse(fmt.Sprintf("%d%s", g.IntN(1000_000_000), oneOf(g.random, "n", "u", "e-9", "e-12")))
		}
		rules.Tolerance = &tolerance
	}
	return rules
}

func (g *generator) policy() autoscalingv2.HPAScalingPolicy {
	p := autoscalingv2.HPAScalingPolicy{
		Type:          autoscalingv2.PodsScalingPolicy,
		Value:         oneOf[int32](g.random, 1, 1, 2, 3, 4, 5, 8, 20),
		PeriodSeconds: oneOf(g.random, 1, 15, 15, 30, 60, 60, 90, 120, 300, 600, 1800, int32(g.between(1, 1800)), int32(g.between(1, 120))),
	}
	if g.chance(0.5) {
		p.Type = autoscalingv2.PercentScalingPolicy
		p.Value = oneOf(g.random, 1, 5, 10, 10, 20, 30, 50, 75, 100, 100, 150, 200, 900, int32(g.between(1, 400)), int32(g.between(1, 99)), 1000_000)
	}
	switch {
	case g.extreme && g.chance(0.4):
		p.Value = 2147483647
	case g.chance(0.03) && p.Type == autoscalingv2.PodsScalingPolicy:
		// The limit wraps below the count, on any processor.
		p.Value = 2147483647
	}
	return p
}

// directions returns the rules of both directions, which a stored behavior has.
func directions(b *autoscalingv2.HorizontalPodAutoscalerBehavior) []*autoscalingv2.HPAScalingRules {
	return []*autoscalingv2.HPAScalingRules{b.ScaleUp, b.ScaleDown}
}

// stored fills in a spec's defaults, as the API server does.
func stored(spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	hpa := autoscalingv2.HorizontalPodAutoscaler{Spec: *spec}
	kubernetes.Defaults(&hpa)
	*spec = hpa.Spec
}
