package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// target checks each field of a metric's target. Which of them must be set depends on
// the source; whether the type matches them is not checked.
func (c *checker) target(p *field.Path, target *setpointv1.MetricTarget) {
	c.targetType(p.Child("type"), target.GetType())
	if hasValue(target) {
		c.positive(p.Child("value"), target.GetValue())
	}
	if hasAverageValue(target) {
		c.positive(p.Child("averageValue"), target.GetAverageValue())
	}
	if hasAverageUtilization(target) && target.GetAverageUtilization() < 1 {
		c.invalid(p.Child("averageUtilization"), target.GetAverageUtilization(), "must be greater than 0")
	}
}

func (c *checker) targetType(p *field.Path, targetType string) {
	switch targetType {
	case "Utilization", "Value", "AverageValue":
		return
	case "":
		// Both are reported.
		c.required(p, "must specify a metric target type")
	}
	c.invalid(p, enum(targetType), "must be either Utilization, Value, or AverageValue")
}

// resourceTarget checks the target of a Resource or ContainerResource metric.
func (c *checker) resourceTarget(p *field.Path, target *setpointv1.MetricTarget) {
	c.target(p, target)
	switch utilization, average := hasAverageUtilization(target), hasAverageValue(target); {
	case !utilization && !average:
		c.required(p.Child("averageUtilization"), "must set either a target raw value or a target utilization")
	case utilization && average:
		c.forbidden(p.Child("averageValue"), "may not set both a target raw value and a target utilization")
	}
}

func hasValue(t *setpointv1.MetricTarget) bool        { return t != nil && t.Value != nil }
func hasAverageValue(t *setpointv1.MetricTarget) bool { return t != nil && t.AverageValue != nil }
func hasAverageUtilization(t *setpointv1.MetricTarget) bool {
	return t != nil && t.AverageUtilization != nil
}
