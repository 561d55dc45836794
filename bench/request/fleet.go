package request

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Fleets are fleets of so many members each, one a cluster. Their Set has the members; where it is divided into as
// many parts as there are fleets, or into so many that divide their number, the members of a fleet are in one part,
// and are called one after the other: the first call of each period decides.
type Fleets struct {
	*Set
	Fleets, Members int
}

// NewFleets encodes the requests of the members, with that many pods.
func NewFleets(fleets, members, pods int) (*Fleets, error) {
	now := time.Now()
	f := &Fleets{&Set{began: now.Add(-24 * time.Hour).Unix(), asked: make([]int32, fleets*members)}, fleets, members}
	for i := range fleets * members {
		req := For(i, pods, now.Add(-25*time.Hour))
		req.Target, req.Fleet = f.member(i%fleets, i/fleets), f.name(i%fleets)
		data, err := proto.Marshal(req)
		if err != nil {
			return nil, err
		}
		f.encoded = append(f.encoded, data)
	}
	return f, nil
}

func (f *Fleets) name(fleet int) string {
	return fmt.Sprintf("clusters/fleets-of-%d/namespaces/shop-%05d/targets/web-%02d", f.Fleets, fleet/100, fleet%100)
}

func (f *Fleets) member(fleet, member int) string {
	return fmt.Sprintf("clusters/of-%d-%02d/namespaces/shop-%05d/targets/web-%02d", f.Fleets, member, fleet/100, fleet%100)
}

// Specs are the requests that store the fleets.
func (f *Fleets) Specs() []*setpointv1.SetTargetSpecRequest {
	all := make([]*setpointv1.SetTargetSpecRequest, f.Fleets)
	for i := range all {
		spec := &setpointv1.TargetSpec{Spec: For(0, 0, time.Now()).GetSpec(), Period: durationpb.New(period), Fleet: &setpointv1.FleetSpec{}}
		spec.Spec.MinReplicas, spec.Spec.MaxReplicas = new(int32(f.Members)), int32(100*f.Members)
		for m := range f.Members {
			spec.Fleet.Members = append(spec.Fleet.Members, &setpointv1.FleetMember{Target: f.member(i, m)})
		}
		all[i] = &setpointv1.SetTargetSpecRequest{Name: f.name(i), TargetSpec: spec}
	}
	return all
}
