package kubernetes

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns the violations of the API server's rules for an autoscaler that
// a request to the service can't show: those for metadata, a target without kind
// or name, and an empty list of policies. They are worded as by the API server. It
// is to be called before [Defaults]. The rules for the values of spec are the
// service's to apply.
func Validate(autoscaler *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	violations := validation.ValidateObjectMeta(&autoscaler.ObjectMeta, true,
		validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	spec := field.NewPath("spec")
	ref := autoscaler.Spec.ScaleTargetRef
	if ref.Kind == "" {
		violations = append(violations, field.Required(spec.Child("scaleTargetRef", "kind"), ""))
	}
	if ref.Name == "" {
		violations = append(violations, field.Required(spec.Child("scaleTargetRef", "name"), ""))
	}
	if behavior := autoscaler.Spec.Behavior; behavior != nil {
		at := spec.Child("behavior")
		violations = append(violations, validatePolicies(behavior.ScaleUp, at.Child("scaleUp"))...)
		violations = append(violations, validatePolicies(behavior.ScaleDown, at.Child("scaleDown"))...)
	}
	return violations
}

// validatePolicies refuses policies that are there and empty; the contract of the
// service can't tell them from absent ones, which mean the defaults.
func validatePolicies(rules *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	if rules == nil || rules.Policies == nil || len(rules.Policies) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(at.Child("policies"), "must specify at least one Policy")}
}
