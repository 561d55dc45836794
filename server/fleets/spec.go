package fleets

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// spec is a fleet's stored spec, read. It is immutable.
type spec struct {
	key     store.Key // of the fleet
	version store.Version
	// size is that of the stored spec, in bytes.
	size   int
	stored *setpointv1.TargetSpec
	// members are the names of its members.
	members map[string]bool
	fleet   fleet.Spec
	// fresh is what of the stages is for the members' readings, and plan what is for the decision; either may be
	// nil.
	fresh, plan *stages.Plan
	// hash is that of the spec, for the log.
	hash uint64
	// problem is why it can't be used; nil: it can.
	problem error
}

// readSpec reads a stored spec; nil if it is none of a fleet.
func readSpec(key store.Key, r store.Record, defaults recommender.Options) (*spec, error) {
	stored := &setpointv1.TargetSpec{}
	if err := proto.Unmarshal(r.Value, stored); err != nil {
		return nil, err
	}
	if stored.GetFleet() == nil {
		return nil, nil
	}
	s := &spec{key: key, version: r.Version, size: len(r.Value), stored: stored, members: make(map[string]bool)}
	for _, name := range conversion.FleetMembers(stored.GetFleet()) {
		s.members[name] = true
	}
	in, violations := conversion.Input(&setpointv1.RecommendRequest{
		Target: key.String(), Spec: stored.GetSpec(), Options: stored.GetOptions(), Scale: &setpointv1.Scale{},
	}, defaults)
	of, more := conversion.Fleet(key.String(), stored, in)
	s.fleet = *of
	violations = append(violations, more...)
	plan, wrong := conversion.Stages(stored.GetSpec(), stored.GetStages(), in)
	violations = append(violations, wrong...)
	if plan != nil {
		decides := *plan
		decides.Freshness = nil
		s.fresh, s.plan = plan, &decides
	}
	if len(violations) > 0 { // another version stored it
		s.problem = fmt.Errorf("%s: %s", violations[0].Field, violations[0].Description)
	}
	s.hash = conversion.HashOfSpec(stored.GetSpec(), stored.GetOptions(), stored.GetStages())
	return s, nil
}
