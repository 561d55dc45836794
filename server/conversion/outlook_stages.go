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

// WithStages is the problem of an outlook that the engine can't give.
const WithStages = "stages or overrides take part in the decisions, so what comes next is not known in advance"

// OutlookWithStages is the outlook of a target in whose decisions stages or overrides take part: the
// engine, which computes outlooks, knows none of them. plan, which may be nil, has the schedules.
func OutlookWithStages(start time.Time, interval time.Duration, plan *stages.Plan, spec *recommender.Spec) *setpointv1.Outlook {
	return &setpointv1.Outlook{StartTime: timestamppb.New(start), Interval: durationpb.New(interval), Problem: WithStages, Bounds: Bounds(plan, spec, start)}
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
