package simulate

import (
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/simulation"
)

// FromMessage reads a spec as the service reads one in a request: with the API's rules and
// defaults, and the options given, which may be nil. With violations there is no autoscaler.
func FromMessage(namespace string, spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions) (*simulation.Autoscaler, []validation.Violation) {
	read, chosen, violations := conversion.Spec(spec, options, recommender.DefaultOptions())
	violations = append(violations, validation.Spec(spec, validation.SpecOptions{ScaleToZero: chosen.ScaleToZero})...)
	if len(violations) > 0 {
		return nil, validation.Distinct(violations)
	}
	return &simulation.Autoscaler{Namespace: namespace, Spec: read, Options: chosen}, nil
}
