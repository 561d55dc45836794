package explain

import (
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// writeHistory explains the known history, and its consequences.
func (c *oneCase) writeHistory(p *page) {
	h := c.trace.GetHistory()
	if h == nil {
		return
	}
	if c.habits.delays {
		c.writeDelayHistory(p)
		return
	}
	p.heading("History", c.historyOutcome(h))
	switch {
	case c.trace.GetPath() != pathMetrics: // which alone looks at it
	case c.noHistory():
		p.line(2, 2, yellow, c.noHistoryText())
	case c.youngHistory():
		p.line(2, 2, yellow, "That is less than the longest stabilization window"+c.longestWindow()+
			": the first count seen still counts as a recommendation, and earlier recommendations are unknown.")
	}
}

// noHistoryText explains what a running controller may know that is unknown here.
func (c *oneCase) noHistoryText() string {
	text := "A running controller may decide otherwise: it remembers "
	windows := c.youngHistory()
	if windows {
		text += "the recommendations" + c.longestWindow()
	}
	if windows && c.hasBehavior() {
		text += " and "
	}
	if !windows || c.hasBehavior() {
		text += "its own changes within the policies' periods"
	}
	return text + "."
}

func (c *oneCase) historyOutcome(h *setpointv1.HistoryExplanation) string {
	if c.noHistory() {
		return "none is known"
	}
	text := count(h.GetRecommendations(), "recommendation")
	if h.GetOldestRecommendationTime() != nil {
		text += " since " + c.clock.at(h.GetOldestRecommendationTime())
	}
	return text + ", " + count(h.GetScaleUps(), "scale-up") + ", " + count(h.GetScaleDowns(), "scale-down")
}

// longestWindow is " of the last 5m", or empty where it is not known.
func (c *oneCase) longestWindow() string {
	var longest float64
	for _, w := range c.trace.GetStabilization().GetWindows() {
		longest = max(longest, w.GetWindowSeconds())
	}
	if longest == 0 {
		return ""
	}
	if c.noHistory() {
		return " of the last " + seconds(longest)
	}
	return ", " + seconds(longest)
}

// writeWarnings explains unusual inputs of the arithmetic.
func (c *oneCase) writeWarnings(p *page) {
	warnings := c.trace.GetWarnings()
	if len(warnings) == 0 {
		return
	}
	p.heading("Warnings", "")
	for _, text := range warnings {
		p.line(2, 2, yellow, clean(text))
	}
}
