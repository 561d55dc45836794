package explain

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// writeDelays explains the effect of the delays after the last change on the count within the
// bounds.
func (c *oneCase) writeDelays(p *page) {
	s := c.trace.GetStabilization()
	if s == nil {
		return
	}
	p.heading("Delays", c.delaysOutcome(s))
	var rows []row
	for _, w := range s.GetWindows() {
		rows = append(rows, row{windowDirection(w) + " " + seconds(w.GetWindowSeconds()), plain, c.delayText(w)})
	}
	p.rows(2, rows)
	if c.habits.toReading {
		p.line(2, 2, dim, "A delay runs from the last change, in either direction, to the time of the deciding metric's reading.")
	} else {
		p.line(2, 2, dim, "A delay runs from the last change, in either direction.")
	}
}

func (c *oneCase) delaysOutcome(s *setpointv1.StabilizationExplanation) string {
	wanted := number(s.GetProposedReplicas())
	switch {
	case s.GetProposedReplicas() == c.current:
		return "none, the count does not change"
	case s.GetStabilizedReplicas() == s.GetProposedReplicas():
		return wanted + " passes"
	case c.holding() == nil:
		return wanted + " is not followed, " + c.unfollowed()
	}
	return wanted + " is held at " + number(c.current)
}

// delayText describes one delay.
func (c *oneCase) delayText(w *setpointv1.WindowExplanation) string {
	if w.GetRecommendationTime() != nil {
		return "since the last change, at " + c.clock.at(w.GetRecommendationTime()) + "; over at " + c.clock.at(w.GetReleaseTime())
	}
	if last := c.lastChange(); last != nil {
		return "over: the last change was at " + c.clock.at(last)
	}
	return "none: no change is known"
}

// lastChange is when the count was last changed before this decision, nil if that is not
// known.
func (c *oneCase) lastChange() *timestamppb.Timestamp {
	for _, w := range c.trace.GetStabilization().GetWindows() {
		if w.GetRecommendationTime() != nil {
			return w.GetRecommendationTime()
		}
	}
	return c.resp.GetStatus().GetLastScaleTime()
}

// delayedText is the verdict's clause on delays, empty if they had no effect.
func (c *oneCase) delayedText() string {
	if w := c.holding(); w != nil {
		return "held at " + number(c.current) + " by the " + windowDirection(w) + " delay: for " + seconds(w.GetWindowSeconds()) +
			" after the last change, of " + c.clock.at(w.GetRecommendationTime()) + ", no change " + adverb(w) + ", until " + c.clock.at(w.GetReleaseTime())
	}
	s := c.trace.GetStabilization()
	if s == nil || s.GetStabilizedReplicas() == s.GetProposedReplicas() {
		return ""
	}
	return number(s.GetProposedReplicas()) + " is not followed, " + c.unfollowed()
}

// adverb is the direction of a delay as an adverb.
func adverb(w *setpointv1.WindowExplanation) string {
	if w.GetDirection() == down {
		return "downwards"
	}
	return "upwards"
}

// unfollowed is why a count is not followed although no delay runs: its ratio is within
// tolerance, or on the other side of 1.
func (c *oneCase) unfollowed() string {
	m := c.winner()
	if m == nil {
		return "as no metric asks for it"
	}
	ratio := m.tolerance.ratioText(m.GetUsageRatio())
	if m.tolerance.holds(m.GetUsageRatio()) {
		return "as the ratio " + ratio + " is within the tolerance, " + m.tolerance.text()
	}
	return "as the ratio " + ratio + " points in the other direction"
}

// writeDelayHistory explains the known last change.
func (c *oneCase) writeDelayHistory(p *page) {
	last := c.lastChange()
	if last != nil {
		p.heading("History", "the last change was at "+c.clock.at(last))
		return
	}
	p.heading("History", "no change is known")
	if c.trace.GetPath() == pathMetrics {
		p.line(2, 2, yellow, "A running controller may decide otherwise: it knows its last change (status.lastScaleTime), and delays the next one.")
	}
}
