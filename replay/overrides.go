package replay

import (
	"strings"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// overridesOf are the overrides that a step's outcome tells of: a recording has no others. Those that changed
// nothing are there as one that does nothing.
func overridesOf(step *recording.Step) []stages.Override {
	if step.Expect == nil {
		return nil
	}
	for i := range step.Expect.Conditions {
		c := &step.Expect.Conditions[i]
		switch {
		case c.Type != stages.Overridden:
		case c.Status != string(recommender.ConditionTrue):
			return stages.Retold("", "")
		default:
			return stages.Retold(c.Message.Value, changeOf(step.Expect.Events))
		}
	}
	return nil
}

// changeOf is the reason of the change that was recommended; empty: there was none.
func changeOf(events []recording.Event) string {
	for i := range events {
		e := &events[i]
		_, reason, ok := strings.Cut(e.Message.Value, "; reason: ")
		if !ok || e.Reason != recommender.SuccessfulRescale && e.Reason != recommender.FailedRescale {
			continue
		}
		if e.Reason == recommender.FailedRescale {
			if at := strings.LastIndex(reason, "; error: "); at >= 0 {
				reason = reason[:at]
			}
		}
		return reason
	}
	return ""
}
