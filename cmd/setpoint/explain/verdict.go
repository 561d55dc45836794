package explain

import (
	"strings"
)

// verdict is what happens and the decisive why.
type verdict struct {
	// head is "3 → 5 replicas (scale up)" or "stays at 3 replicas".
	head  string
	style style
	why   []clause
}

// clause is one reason, without a capital and a full stop.
type clause struct {
	style style
	text  string
}

func (v *verdict) because(s style, text string) {
	if text != "" {
		v.why = append(v.why, clause{s, text})
	}
}

// writeVerdict writes the first lines.
func (c *oneCase) writeVerdict(p *page) {
	v := c.verdict()
	head := v.head
	if target := c.target(); target != "" {
		head = target + ": " + head
	}
	p.line(0, 2, v.style, head)
	for _, s := range v.why {
		p.line(2, 2, s.style, s.text)
	}
	if text := c.warningCount(); text != "" {
		p.line(2, 2, yellow, text)
	}
	p.blank()
	p.line(0, 2, dim, c.circumstances())
}

// circumstances is what was decided, when and how.
func (c *oneCase) circumstances() string {
	what := c.workload()
	if what == "the workload" {
		what = "Decided"
	}
	if cluster := c.cluster(); cluster != "" {
		what += " in cluster " + cluster
	}
	text := what + ", at " + c.clock.date(c.clock.now)
	if c.trace == nil {
		return text + "; the answer came without an explanation (explain was not set)"
	}
	return text + ", as Kubernetes " + clean(c.trace.GetProfile()) + " decides"
}

func (c *oneCase) warningCount() string {
	n := len(c.trace.GetWarnings())
	if n == 0 {
		return ""
	}
	return count(n, "warning") + ", see the end"
}

func (c *oneCase) verdict() *verdict {
	v := &verdict{head: c.headline(), style: c.headStyle()}
	switch c.trace.GetPath() {
	case pathMetrics:
		c.metricsVerdict(v)
	case pathMetricsFailed:
		c.failedVerdict(v)
	case pathSelectorFailed:
		v.style = loud
		v.because(red, "the pods can't be chosen: "+clean(c.condition("ScalingActive").GetMessage()))
		v.because(plain, "no metric is computed then, and the count is held")
	case pathScaleUnavailable:
		v.style = loud
		v.head = "left as it is (last known count: " + number(c.current) + ")"
		v.because(red, "the scale can't be read: "+clean(c.resp.GetError()))
	case pathScalingDisabled:
		v.style = notice
		v.head = "stays at 0 replicas (scaling is disabled)"
		c.disabledVerdict(v)
	case pathAboveMax:
		v.because(plain, number(c.current)+" is above maxReplicas "+number(c.trace.GetBounds().GetMaxReplicas())+", which is enforced at once")
	case pathBelowMin:
		v.because(plain, number(c.current)+" is below minReplicas "+number(c.trace.GetBounds().GetMinReplicas())+", which is enforced at once")
	default:
		c.bareVerdict(v)
	}
	return v
}

func (c *oneCase) headline() string {
	change := number(c.current) + " → " + count(c.desired, "replica")
	switch {
	case c.desired > c.current && c.current == 0:
		return change + " (scale up from zero)"
	case c.desired > c.current:
		return change + " (scale up)"
	case c.desired < c.current && c.desired == 0:
		return change + " (scale down to zero)"
	case c.desired < c.current:
		return change + " (scale down)"
	}
	return "stays at " + count(c.desired, "replica")
}

func (c *oneCase) headStyle() style {
	switch {
	case c.desired > c.current:
		return good
	case c.desired < c.current:
		return notice
	}
	return bold
}

// metricsVerdict is that of a count that metrics decided.
func (c *oneCase) metricsVerdict(v *verdict) {
	v.because(plain, c.winnerText())
	v.because(yellow, c.heldText())
	if text := c.anywayText(); text != "" {
		v.because(plain, text)
	} else {
		v.because(yellow, c.youngText())
	}
	if c.floored() {
		v.because(plain, "lifted to minReplicas "+number(c.desired)+", the least that it comes back to from zero")
	} else {
		v.because(yellow, c.boundText())
	}
	c.failures(v, " (that would only block a scale-down)")
}

// failures tells of the first metric that failed, which is the one that HPA's
// conditions quote, and counts the others.
func (c *oneCase) failures(v *verdict, remark string) {
	failed := c.failedMetrics()
	if len(failed) == 0 {
		return
	}
	v.because(red, failed[0].label+" can't be computed"+remark+": "+clean(failed[0].GetError()))
	if n := len(failed) - 1; n > 0 {
		v.because(red, "nor can "+count(n, "other metric"))
	}
}

func (c *oneCase) failedMetrics() []*metric {
	var failed []*metric
	for _, m := range c.metrics {
		if m.failed() {
			failed = append(failed, m)
		}
	}
	return failed
}

// anywayText is what would hold the count where the window now does.
func (c *oneCase) anywayText() string {
	w, b := c.holding(), c.trace.GetBounds()
	if w == nil || c.trace.GetStabilization().GetStabilizedReplicas() != c.current {
		return ""
	}
	behavior := c.req.GetSpec().GetBehavior()
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

// winnerText is what the winning metric asks for and why.
func (c *oneCase) winnerText() string {
	m := c.winner()
	if m == nil {
		return "no metric asks for any replicas"
	}
	proposal := c.trace.GetProposal().GetReplicas()
	switch m.GetRule() {
	case withinTolerance:
		return m.reading() + ": " + c.toleranceClause(m)
	case dampenedWithinTolerance, dampenedReversed:
		return m.reading() + c.dampenedClause(m)
	case dampenedAgainstCurrent:
		return m.reading() + ", but " + m.product() + " would go against the ratio, so it asks for no change"
	}
	text, surprise := m.reading(), c.surprise(m)
	if c.desired != proposal && surprise == "" {
		return text + ", so it asks for " + number(proposal)
	}
	if assumed := m.assumed(); assumed != "" {
		text += ", and with " + assumed
	}
	text += ": " + m.product() + surprise
	if c.desired == c.current && c.desired == proposal {
		text += ", the current count"
	}
	return text
}

// toleranceClause is why a metric on target asks for what it does.
func (c *oneCase) toleranceClause(m *metric) string {
	text := "ratio " + m.tolerance.ratioText(m.GetUsageRatio()) + " is within the tolerance, " + m.tolerance.text()
	if m.GetProposal() != c.current {
		text += ", and HPA then asks for the observed replicas, " + number(m.GetProposal())
	}
	return text
}

// dampenedClause is why assumptions made a metric ask for no change.
func (c *oneCase) dampenedClause(m *metric) string {
	ratio := m.tolerance.ratioText(m.GetDampenedUsageRatio())
	assumed := m.assumed()
	switch {
	case assumed == "":
		return ": ratio " + ratio + " is within the tolerance, " + m.tolerance.text()
	case m.GetRule() == dampenedReversed:
		return ", but with " + assumed + " the ratio turns from " + ratioText(m.GetUsageRatio()) + " to " + ratio + ", so it asks for no change"
	}
	return ", but with " + assumed + " the ratio is " + ratio + " in place of " + ratioText(m.GetUsageRatio()) +
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
	if c.trace.GetStabilization().GetStabilizedReplicas() > c.current {
		verb = "raise"
	}
	if c.noHistory() {
		return "no history is known, so the current count itself counts as just recommended; a running controller may not " + verb + " it"
	}
	return "that is from when the target was first seen, " + c.clock.relative(w.GetRecommendationTime().AsTime()) +
		"; a controller that has been running longer may not " + verb + " it"
}

// failedVerdict is that of metrics that came to no count.
func (c *oneCase) failedVerdict(v *verdict) {
	v.style = loud
	c.failures(v, "")
	largest, any := c.largestProposal()
	switch {
	case !any:
		v.because(plain, "so the count is held")
	case c.successes() == 1:
		v.because(plain, c.onlySuccess().label+" asks for "+number(largest)+", but HPA does not scale down while a metric is unknown, so the count is held")
	default:
		v.because(plain, "the other metrics ask for at most "+number(largest)+", but HPA does not scale down while a metric is unknown, so the count is held")
	}
}

func (c *oneCase) onlySuccess() *metric {
	for _, m := range c.metrics {
		if !m.failed() {
			return m
		}
	}
	return nil
}

// disabledVerdict is that of a workload that someone scaled to zero.
func (c *oneCase) disabledVerdict(v *verdict) {
	feature := c.req.GetOptions()
	switch {
	case feature != nil && feature.ScaleToZero != nil && !feature.GetScaleToZero():
		v.because(plain, "HPA leaves a workload at zero alone, as scaling to and from zero (HPAScaleToZero) is off")
	case c.condition("ScaledToZero").GetStatus() == "True":
		v.because(plain, "HPA scaled it to zero, but without an Object or External metric in the spec nothing can tell when to come back")
	default:
		v.because(plain, "HPA leaves a workload at zero alone unless it was HPA that scaled it there")
	}
	v.because(plain, "set its replicas to 1 or more to turn scaling on again")
}

// bareVerdict is that of an answer without an explanation: what its reason and
// conditions say.
func (c *oneCase) bareVerdict(v *verdict) {
	able, active, limited := c.condition("AbleToScale"), c.condition("ScalingActive"), c.condition("ScalingLimited")
	switch {
	case able.GetStatus() == conditionFalse:
		v.style = loud
		v.because(red, clean(able.GetMessage()))
		return
	case strings.HasPrefix(c.resp.GetReason(), "Current number of replicas"):
		v.because(plain, clean(c.resp.GetReason()))
		return
	case active.GetStatus() == conditionFalse:
		v.style = loud
		v.because(red, clean(active.GetMessage()))
		return
	}
	v.because(plain, clean(c.resp.GetReason()))
	if strings.HasSuffix(able.GetReason(), "Stabilized") {
		v.because(yellow, clean(able.GetMessage()))
	}
	if limited.GetStatus() == "True" {
		v.because(yellow, clean(limited.GetMessage()))
	}
	if len(v.why) == 0 && c.desired == c.current {
		v.because(plain, "the metrics ask for no change")
	}
}
