package explain

// metricsVerdict is that of a count that metrics decided.
func (c *oneCase) metricsVerdict(v *verdict) {
	v.because(plain, c.winnerText())
	if c.trace.GetStabilization() == nil { // the steps of a live target's decision are not known
		c.conditionsVerdict(v)
		c.failures(v, c.failureRemark())
		return
	}
	if c.habits.delays {
		v.because(yellow, c.boundText())
		v.because(yellow, c.delayedText())
		c.failures(v, c.failureRemark())
		return
	}
	v.because(yellow, c.heldText())
	if text := c.anywayText(); text != "" {
		v.because(plain, text)
	} else {
		v.because(yellow, c.youngText())
	}
	if c.floored() {
		c.flooredVerdict(v)
	} else if text := c.boundText(); text != "" {
		v.because(yellow, text)
		if reason := c.trace.GetBounds().GetReason(); reason == tooFewReplicas || reason == tooManyReplicas {
			c.boundsStages(v)
		}
	}
	c.failures(v, c.failureRemark())
}

// flooredVerdict says what raised the count from zero.
func (c *oneCase) flooredVerdict(v *verdict) {
	v.because(plain, "raised to minReplicas "+number(c.desired)+", the lowest count for a scale-up from zero")
	c.boundsStages(v)
}

// failureRemark is the effect of a failing metric if the others decide.
func (c *oneCase) failureRemark() string {
	if c.habits.failures == failureIgnored {
		return " (which " + c.profile() + " ignores)"
	}
	return " (that would only block a scale-down)"
}

// anywayText is the limit that would hold the count without the window.
func (c *oneCase) anywayText() string {
	w, b := c.holding(), c.trace.GetBounds()
	if w == nil || c.trace.GetStabilization().GetStabilizedReplicas() != c.current {
		return ""
	}
	behavior := c.req.GetSpec().GetBehavior()
	if !c.hasBehavior() {
		behavior = nil // the profile may not know it
	}
	switch {
	case w.GetDirection() == down && c.current <= b.GetMinReplicas():
		return "it would not go below minReplicas " + number(b.GetMinReplicas()) + " anyway"
	case w.GetDirection() == up && c.current >= b.GetMaxReplicas():
		return "it would not go above maxReplicas " + number(b.GetMaxReplicas()) + " anyway"
	case w.GetDirection() == down && behavior.GetScaleDown().GetSelectPolicy() == selectDisabled:
		return "scaleDown is disabled anyway (selectPolicy: Disabled)"
	case w.GetDirection() == up && behavior.GetScaleUp().GetSelectPolicy() == selectDisabled:
		return "scaleUp is disabled anyway (selectPolicy: Disabled)"
	}
	return ""
}

// winnerText is the winning metric's proposal with its reason.
func (c *oneCase) winnerText() string {
	m := c.winner()
	proposal := c.trace.GetProposal().GetReplicas()
	if text := c.proposedBy(proposal); m == nil && text != "" {
		return text
	}
	if m == nil && proposal > 0 {
		return "the metrics ask for " + number(proposal)
	}
	if m == nil {
		return "no metric asks for any replicas"
	}
	if a := c.instead(m); a != nil && c.byStage(m) {
		return clean(a.GetMessage())
	}
	if c.byStage(m) {
		return m.label + " asks for " + number(proposal)
	}
	switch m.GetRule() {
	case "":
		return m.reading() + ", and it asks for " + number(proposal)
	case withinTolerance:
		return m.reading() + ": " + c.toleranceClause(m)
	case dampenedWithinTolerance, dampenedReversed:
		return m.reading() + c.dampenedClause(m)
	case dampenedAgainstCurrent:
		return m.reading() + ", but with " + m.assumed() + ": " + m.product() + c.against(m) + ", so it asks for no change"
	}
	text, surprise := m.reading(), c.unexpectedProposal(m)
	if c.desired != proposal && surprise == "" {
		return text + ", so it asks for " + number(proposal)
	}
	if assumed := m.assumed(); assumed != "" {
		text += ", and with " + assumed
	}
	text += ": " + m.product() + surprise
	if proposal == c.current && c.desired == c.current {
		text += ", the current count"
	}
	return text
}

// toleranceClause explains the proposal of a metric on target.
func (c *oneCase) toleranceClause(m *metric) string {
	text := "ratio " + m.tolerance.ratioText(m.GetUsageRatio()) + " is within the tolerance, " + m.tolerance.text()
	if m.GetProposal() != c.current {
		text += ", and HPA then asks for the observed replicas, " + number(m.GetProposal())
	}
	return text
}

// dampenedClause is why assumptions led to no change.
func (c *oneCase) dampenedClause(m *metric) string {
	ratio := m.tolerance.ratioText(m.GetDampenedUsageRatio())
	assumed := m.assumed()
	switch {
	case assumed == "":
		return ": ratio " + ratio + " is within the tolerance, " + m.tolerance.text()
	case m.GetRule() == dampenedReversed:
		return ", but with " + assumed + " the ratio turns from " + ratioText(m.GetUsageRatio()) + " to " + ratio + ", so it asks for no change"
	}
	return ", but with " + assumed + " the ratio is " + ratio + " instead of " + ratioText(m.GetUsageRatio()) +
		", within the tolerance, " + m.tolerance.text()
}

// youngText warns of a count that is held only because little is known.
func (c *oneCase) youngText() string {
	w := c.holding()
	h := c.trace.GetHistory()
	first := h.GetRecommendations() == 0 || sameInstant(w.GetRecommendationTime(), h.GetOldestRecommendationTime())
	if w == nil || !c.youngHistory() || !first {
		return ""
	}
	verb := "hold"
	switch stabilized := c.trace.GetStabilization().GetStabilizedReplicas(); {
	case stabilized > c.current:
		verb = "raise"
	case stabilized < c.current && w.GetDirection() == up:
		verb = "lower"
	}
	if c.noHistory() {
		return "no history is known, so the current count counts as a recommendation made just now; a running controller may not " + verb + " it"
	}
	return "that is the oldest recommendation known, " + c.clock.relative(w.GetRecommendationTime().AsTime()) +
		"; a controller that has been running longer may not " + verb + " it"
}
