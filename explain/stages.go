package explain

import (
	"regexp"
	"slices"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
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

// byStage reports whether a stage proposed in place of a metric, or beside the metrics: nothing was read.
func (c *oneCase) byStage(m *metric) bool {
	read := m.GetCurrent()
	return c.resp.PlainDesiredReplicas != nil && m.Proposal != nil &&
		(read == nil || read.Value == nil && read.AverageValue == nil && read.AverageUtilization == nil)
}

// stagesOf are the stages of a list that told of a decision, in their order.
func (c *oneCase) stagesOf(stages ...recommender.Stage) (of []*setpointv1.Adjustment) {
	for _, a := range c.resp.GetAdjustments() {
		if slices.ContainsFunc(stages, func(s recommender.Stage) bool { return s.String() == a.GetStage() }) {
			of = append(of, a)
		}
	}
	return of
}

// proposedBy says how stages came to a proposal that is not the largest of the metrics'; empty: no stage did.
func (c *oneCase) proposedBy(proposal int32) string {
	of := c.stagesOf(recommender.StageProposal, recommender.StageSchedule, recommender.StageCombine, recommender.StageForecast)
	for _, a := range slices.Backward(of) {
		if a.After != nil && a.GetAfter() == proposal {
			return clean(a.GetMessage())
		}
	}
	if c.resp.PlainDesiredReplicas != nil && len(of) > 0 {
		return "stages propose " + number(proposal)
	}
	return ""
}

// instead is what a fallback's adjustment says of a metric; nil: it is in none.
func (c *oneCase) instead(m *metric) *setpointv1.Adjustment {
	name, _, _ := strings.Cut(m.label, "{") // a selector
	name, container, _ := strings.Cut(name, " of ")
	if container, ok := strings.CutPrefix(container, "container "); ok {
		name += ":" + container
	}
	for _, a := range c.stagesOf(recommender.StageFallback) {
		if clean(a.GetMetric()) == m.GetType()+":"+name {
			return a
		}
	}
	return nil
}

// boundsStages says which stages moved the bounds.
func (c *oneCase) boundsStages(v *verdict) {
	for _, a := range c.stagesOf(recommender.StageBounds) {
		v.because(plain, clean(a.GetMessage()))
	}
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

// overriddenUntil matches the end of an override in the sentence about it.
var overriddenUntil = regexp.MustCompile(` until (\S+Z)(?: \(the end of the (?:floor|ceiling)\))?: "`)

// overriddenBefore reports whether that sentence is of an override that was over by now.
func overriddenBefore(now time.Time, message string) bool {
	m := overriddenUntil.FindStringSubmatch(message)
	if m == nil {
		return false
	}
	until, err := time.Parse(time.RFC3339, m[1])
	return err == nil && until.Before(now)
}

// unaskedVerdict says what the target's status has of overrides, where nobody was asked for those in force.
func (c *oneCase) unaskedVerdict(v *verdict) {
	if !c.unasked {
		return
	}
	for _, cond := range c.req.GetPreviousStatus().GetConditions() {
		if cond.GetType() == "Overridden" && cond.GetStatus() == conditionTrue {
			if overriddenBefore(c.clock.now, cond.GetMessage()) {
				v.because(plain, "its status still tells of an override that is over, as nothing was decided since: "+clean(cond.GetMessage()))
				continue
			}
			v.style = notice
			v.because(yellow, "its status says that an override holds it: "+clean(cond.GetMessage()))
			v.because(yellow, "this is the count without: the service, which has the overrides, is not asked; see setpoint override list")
		}
	}
}

// writeStages writes what the stages changed, and the count without them.
func (c *oneCase) writeStages(p *page) {
	if c.resp.PlainDesiredReplicas == nil && len(c.resp.GetAdjustments()) == 0 {
		return
	}
	plainCount := "none acts any more" // an override has ended
	if c.resp.PlainDesiredReplicas != nil {
		plainCount = adjusted.Without(c.resp.GetPlainDesiredReplicas())
	}
	if len(c.resp.GetAdjustments()) == 0 && c.resp.GetPlainDesiredReplicas() == c.final {
		plainCount = "they changed nothing; " + plainCount
	}
	p.heading("Stages", plainCount)
	for _, a := range c.resp.GetAdjustments() {
		p.line(2, 2, plain, Adjustment(a))
	}
}
