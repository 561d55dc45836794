package services_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// TestAFleetHasNoForecast is that the stored spec of a fleet is refused with one, by its path, and that of a target is not.
func TestAFleetHasNoForecast(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	spec := servertest.QueueSpec(1, 9)
	spec.Stages = &setpointv1.Stages{Forecast: &setpointv1.Forecast{TimeZone: "UTC"}}
	set := func(spec *setpointv1.TargetSpec) error {
		_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: spec})
		return err
	}
	if err := set(spec); err != nil {
		t.Fatalf("a target's: %v", err)
	}
	fleet := proto.CloneOf(spec)
	fleet.Fleet = &setpointv1.FleetSpec{
		Scopes:  map[string]string{"External:queue": "PER_MEMBER"},
		Members: []*setpointv1.FleetMember{{Target: "clusters/a/namespaces/shop/targets/web"}, {Target: "clusters/b/namespaces/shop/targets/web"}},
	}
	servertest.WantViolations(t, set(fleet), "targetSpec.stages.forecast")
}
