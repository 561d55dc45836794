package v1

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/target"
)

// FleetAnnotation is the whole name of the fleet that the workload of a HorizontalPodAutoscaler is a member
// of, clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET.
const FleetAnnotation = "setpoint.dev/fleet"

// misnamedFleet are what FleetAnnotation may be taken for: without its fleet a member would be decided alone.
var misnamedFleet = []string{"autoscaling.setpoint.dev/fleet", "autoscaling.setpoint.dev/fleets", "setpoint.dev/fleets"}

// AnnotatedFleet returns the fleet of a HorizontalPodAutoscaler with these annotations; empty: it is in none.
// The error says where it is wrong; the empty name is an error.
func AnnotatedFleet(annotations map[string]string) (string, error) {
	for _, name := range misnamedFleet {
		if _, ok := annotations[name]; ok {
			return "", fmt.Errorf("annotation %s: is not read; did you mean %s?", name, FleetAnnotation)
		}
	}
	name, ok := annotations[FleetAnnotation]
	if !ok {
		return "", nil
	}
	if err := target.CheckFleet(name); err != nil {
		return "", fmt.Errorf("annotation %s: %w", FleetAnnotation, err)
	}
	return name, nil
}

// FleetName returns the fleet of the workload; empty: it is in none. The error says what the schema should
// have refused.
func (s *AutoscalerSpec) FleetName() (string, error) {
	if s.Fleet == "" {
		return "", nil
	}
	if err := target.CheckFleet(s.Fleet); err != nil {
		return "", fmt.Errorf("spec.fleet: %w", err)
	}
	return s.Fleet, nil
}
