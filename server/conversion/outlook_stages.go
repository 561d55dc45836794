//go:build !js

package conversion

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// WithStages ends the problem of an outlook that can't be given, after the stage.
const WithStages = " takes part in the decisions, so what comes next is not known in advance"

// OutlookWithStages is Outlook of a target in whose decisions stages or overrides take part. It says which one if what
// that does is not known in advance; unforeseen, 0 for none, is one that around does not have.
func OutlookWithStages(h *recommender.History, in *recommender.Input, basis *recommender.Basis, start time.Time, interval time.Duration, around *stages.Around, unforeseen recommender.Stage) (out *setpointv1.Outlook) {
	if unforeseen == 0 {
		unforeseen = around.Unforeseen(h.Updated)
	}
	if unforeseen != 0 {
		out = &setpointv1.Outlook{StartTime: timestamppb.New(start), Interval: durationpb.New(interval), Problem: unforeseen.String() + WithStages}
	} else if o, known := around.Outlook(h, in, basis, start, interval); known {
		out = outlookOf(&o, h, nil, start, interval)
	} else {
		return nil
	}
	out.Bounds = Bounds(around.Plan, &in.Spec, start)
	return out
}

// Bounds returns what the schedules of a plan, which may be nil, make of a spec's bounds from an instant on.
func Bounds(plan *stages.Plan, spec *recommender.Spec, from time.Time) (out []*setpointv1.OutlookBounds) {
	if plan == nil {
		return nil
	}
	for _, b := range plan.Ahead(spec.MinReplicas, spec.MaxReplicas, from) {
		out = append(out, &setpointv1.OutlookBounds{Time: timestamppb.New(b.At), MinReplicas: b.Min, MaxReplicas: b.Max, Event: b.Event})
	}
	return out
}
