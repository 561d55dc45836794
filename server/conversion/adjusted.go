package conversion

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Adjusted converts what stages made of a decision; nil without stages.
func Adjusted(a *recommender.Adjusted) (adjustments []*setpointv1.Adjustment, plain *int32) {
	if a == nil {
		return nil, nil
	}
	return converted(a.Adjustments), plainOf(a)
}

// Logged is Adjusted for the log, which has the overrides that began or ended, too, before the others.
func Logged(a *recommender.Adjusted) (adjustments []*setpointv1.Adjustment, plain *int32) {
	if a == nil {
		return nil, nil
	}
	return append(converted(a.Overrides), converted(a.Adjustments)...), plainOf(a)
}

func plainOf(a *recommender.Adjusted) *int32 {
	if a.Plain == recommender.NoPlain {
		return nil
	}
	return &a.Plain
}

func converted(all []recommender.Adjustment) (adjustments []*setpointv1.Adjustment) {
	for i := range all {
		one := &all[i]
		out := &setpointv1.Adjustment{Stage: one.Stage.String(), Rule: one.Rule, Metric: one.Metric, Message: one.Message}
		if one.Before >= 0 {
			out.Before = &one.Before
		}
		if one.After >= 0 {
			out.After = &one.After
		}
		if !one.Until.IsZero() {
			out.UntilTime = timestamppb.New(one.Until)
		}
		adjustments = append(adjustments, out)
	}
	return adjustments
}
