package explain

import (
	"slices"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// afterTheSteps are the stages that replace the count that the controller's steps decided.
var afterTheSteps = []string{recommender.StageReversals.String(), recommender.StageOverride.String()}

// decidedBefore is the count that the controller's steps decided.
func decidedBefore(resp *setpointv1.RecommendResponse) int32 {
	for _, a := range resp.GetAdjustments() {
		if a.Before != nil && slices.Contains(afterTheSteps, a.GetStage()) {
			return a.GetBefore()
		}
	}
	return resp.GetDesiredReplicas()
}

// Adjustment is what a stage changed, in one line: "OVERRIDE hold: 20 → 10: held at 10 by alice …".
func Adjustment(a *setpointv1.Adjustment) string {
	text := clean(a.GetStage())
	if rule := clean(a.GetRule()); rule != "" {
		text += " " + rule
	}
	if a.Before != nil && a.After != nil && a.GetBefore() != a.GetAfter() {
		text += ": " + number(a.GetBefore()) + " → " + number(a.GetAfter())
	}
	if message := clean(a.GetMessage()); message != "" {
		text += ": " + message
	}
	return text
}

// byStage reports whether a stage proposed in place of a metric, or beside the metrics: nothing was computed.
func (c *oneCase) byStage(m *metric) bool {
	return c.resp.PlainDesiredReplicas != nil && m.Proposal != nil && m.UsageRatio == nil
}

// stagesVerdict says which stages replaced the count; the reasons after it are those of the count that
// they replaced.
func (c *oneCase) stagesVerdict(v *verdict) {
	if c.final == c.desired {
		return
	}
	for _, a := range c.resp.GetAdjustments() {
		if slices.Contains(afterTheSteps, a.GetStage()) {
			v.because(yellow, clean(a.GetMessage()))
		}
	}
}

// writeStages writes what the stages changed, and the count without them.
func (c *oneCase) writeStages(p *page) {
	if c.resp.PlainDesiredReplicas == nil {
		return
	}
	plainCount := "without them " + count(c.resp.GetPlainDesiredReplicas(), "replica")
	if len(c.resp.GetAdjustments()) == 0 {
		p.heading("Stages", "they changed nothing; "+plainCount)
		return
	}
	p.heading("Stages", plainCount)
	for _, a := range c.resp.GetAdjustments() {
		p.line(2, 2, plain, Adjustment(a))
	}
}
