package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Upper limits of the API server, seconds.
const (
	maxStabilizationWindowSeconds = 3600
	maxPeriodSeconds              = 1800
)

// Both sorted.
var (
	selectPolicies = []string{"Disabled", "Max", "Min"}
	policyTypes    = []string{"Percent", "Pods"}
)

// behavior checks the rules of both directions. Defaults are valid, so it checks only
// what is set.
func (c *checker) behavior(p *field.Path, behavior *setpointv1.HorizontalPodAutoscalerBehavior) {
	c.scalingRules(p.Child("scaleUp"), behavior.GetScaleUp())
	c.scalingRules(p.Child("scaleDown"), behavior.GetScaleDown())
}

func (c *checker) scalingRules(p *field.Path, rules *setpointv1.HPAScalingRules) {
	if rules == nil {
		return
	}
	c.stabilizationWindow(p.Child("stabilizationWindowSeconds"), rules.GetStabilizationWindowSeconds())
	if rules.SelectPolicy != nil && !slices.Contains(selectPolicies, rules.GetSelectPolicy()) {
		c.unsupported(p.Child("selectPolicy"), enum(rules.GetSelectPolicy()), selectPolicies)
	}
	// The message can't distinguish an empty list of policies, which the API server
	// refuses, from an absent one.
	for i, policy := range rules.GetPolicies() {
		c.scalingPolicy(p.Child("policies").Index(i), policy)
	}
	if rules.Tolerance != nil {
		c.notNegative(p.Child("tolerance"), rules.GetTolerance())
	}
}

func (c *checker) stabilizationWindow(p *field.Path, seconds int32) {
	switch {
	case seconds < 0:
		c.invalid(p, seconds, "must be greater than or equal to zero")
	case seconds > maxStabilizationWindowSeconds:
		c.invalid(p, seconds, fmt.Sprintf("must be less than or equal to %d", maxStabilizationWindowSeconds))
	}
}

func (c *checker) scalingPolicy(p *field.Path, policy *setpointv1.HPAScalingPolicy) {
	if !slices.Contains(policyTypes, policy.GetType()) {
		c.unsupported(p.Child("type"), enum(policy.GetType()), policyTypes)
	}
	if policy.GetValue() <= 0 {
		c.invalid(p.Child("value"), policy.GetValue(), "must be greater than zero")
	}
	switch seconds := policy.GetPeriodSeconds(); {
	case seconds <= 0:
		c.invalid(p.Child("periodSeconds"), seconds, "must be greater than zero")
	case seconds > maxPeriodSeconds:
		c.invalid(p.Child("periodSeconds"), seconds, fmt.Sprintf("must be less than or equal to %d", maxPeriodSeconds))
	}
}
