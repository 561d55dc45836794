package agent

import (
	"fmt"
	"regexp"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
)

// explanation returns a sentence about the count of an Autoscaler, and one about its share of a
// fleet and one about what stages and overrides changed.
func explanation(d *agent.Decision, status *autoscalingv2.HorizontalPodAutoscalerStatus) string {
	text, by := decided(d, status), agent.AdjustedBy(d.Answer)
	if share := agent.FleetOf(d.Answer, d.Request.GetFleet()); share != "" {
		text += " " + strings.ToUpper(share[:1]) + share[1:] + "."
	}
	if by == "" {
		return text
	}
	text += " Adjusted: " + by + "."
	if plain := d.Answer.PlainDesiredReplicas; plain != nil && *plain != d.Answer.GetDesiredReplicas() {
		text += " W" + adjusted.Without(*plain)[1:] + "."
	}
	return text
}

// passing matches what changes in a text from one decision to the next while nothing else does: how
// long something has lasted.
var passing = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b`)

// alike reports whether two explanations differ at most in durations.
func alike(a, b string) bool {
	return passing.ReplaceAllString(a, "") == passing.ReplaceAllString(b, "")
}

func decided(d *agent.Decision, status *autoscalingv2.HorizontalPodAutoscalerStatus) string {
	from, to := d.Answer.GetCurrentReplicas(), d.Answer.GetDesiredReplicas()
	able := conditionOf(status, autoscalingv2.AbleToScale)
	active := conditionOf(status, autoscalingv2.ScalingActive)
	switch {
	case from != to && d.ApplyError != nil:
		return fmt.Sprintf("Could not scale from %d to %d: %v.", from, to, d.ApplyError)
	case from != to && d.Answer.GetReason() == "":
		return fmt.Sprintf("Scaled from %d to %d.", from, to)
	case from != to:
		return fmt.Sprintf("Scaled from %d to %d: %s.", from, to, d.Answer.GetReason())
	case able != nil && able.Status == corev1.ConditionFalse:
		return fmt.Sprintf("Not scaled: %s.", able.Message)
	case active != nil && active.Status == corev1.ConditionFalse:
		return fmt.Sprintf("Kept at %d: %s.", to, active.Message)
	case able != nil:
		return fmt.Sprintf("Kept at %d: %s.", to, able.Message)
	}
	return fmt.Sprintf("Kept at %d.", to)
}
