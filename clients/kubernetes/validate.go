package kubernetes

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns the violations of the API server's rules that the service can't detect from
// a request: those about metadata, about a target without kind or name, and about an empty list
// of policies, in the API server's words. Call it before [Defaults]. The service applies the
// rules for the values of spec.
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

// validatePolicies refuses empty policies; the service's contract can't distinguish them from
// absent ones, which mean the defaults.
func validatePolicies(rules *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	if rules == nil || rules.Policies == nil || len(rules.Policies) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(at.Child("policies"), "must specify at least one Policy")}
}
