package hpa

import (
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Violation is one thing that is wrong with a spec: Field is its path, such as
// spec.metrics[0].external.target, and Description says what is wrong with it.
type Violation = validation.Violation

// FromMessage reads a spec as the service reads one in a request: with the API's rules and
// defaults, and the options given, which may be nil. With violations there is no autoscaler.
func FromMessage(namespace string, spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions) (*simulation.Autoscaler, []Violation) {
	return fromMessages(namespace, spec, options, nil, nil)
}

// fromMessages is FromMessage with the stages of what is stored, and of its metrics; stored may be nil. found are violations
// that are known already.
func fromMessages(namespace string, spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions, stored *setpointv1.TargetSpec, found []Violation) (*simulation.Autoscaler, []Violation) {
	read, chosen, violations := conversion.Spec(spec, options, recommender.DefaultOptions())
	violations = append(violations, validation.Spec(spec, validation.SpecOptions{ScaleToZero: chosen.ScaleToZero})...)
	out := &simulation.Autoscaler{Namespace: namespace, Spec: read, Options: chosen}
	plan, wrong := conversion.Stages(stored.GetSpec(), stored.GetStages(), &recommender.Input{Namespace: namespace, Spec: read, Options: chosen})
	if violations = append(append(found, violations...), wrong...); len(violations) > 0 {
		return nil, validation.Distinct(violations)
	}
	out.Stages = plan
	return out, nil
}
