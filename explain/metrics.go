package explain

import (
	"math"
	"strconv"
)

// writeMetrics writes a paragraph for each metric.
func (c *oneCase) writeMetrics(p *page) {
	if len(c.metrics) == 0 {
		return
	}
	p.heading("Metrics", c.metricsOutcome())
	for i, m := range c.metrics {
		if i > 0 {
			p.blank()
		}
		title, s := c.title(m)
		p.line(2, 2, s, title)
		p.rows(4, c.metricRows(m))
	}
	if text := c.failureEffect(); text != "" && len(c.failedMetrics()) > 0 {
		p.blank()
		p.line(2, 2, yellow, text)
	}
}

// metricsOutcome is the joint result of the metrics.
func (c *oneCase) metricsOutcome() string {
	w := c.winner()
	switch {
	case c.trace.GetPath() == pathMetricsFailed && c.aborted():
		return "the first that can't be computed ends the evaluation, so the count is held"
	case c.trace.GetPath() == pathMetricsFailed && c.successes() > 0:
		return "not all can be computed, so the count is held"
	case c.trace.GetPath() == pathMetricsFailed && c.floored():
		return "none can be computed"
	case c.trace.GetPath() == pathMetricsFailed:
		return "none can be computed, so the count is held"
	case w == nil:
		return count(c.trace.GetProposal().GetReplicas(), "replica") + " proposed"
	case c.successes() == 1:
		return count(c.trace.GetProposal().GetReplicas(), "replica") + " proposed by " + w.label
	}
	return count(c.trace.GetProposal().GetReplicas(), "replica") + " proposed by " + w.label +
		", the largest of " + number(int32(c.successes())) + " proposals"
}

func (c *oneCase) successes() int {
	n := 0
	for _, m := range c.metrics {
		if !m.failed() {
			n++
		}
	}
	return n
}

// title is "cpu (Resource, utilization): asks for 5".
func (c *oneCase) title(m *metric) (string, style) {
	kind := clean(m.GetType())
	switch m.GetCalculation() {
	case utilization:
		kind += ", utilization"
	case averageValue:
		kind += ", average per pod"
	case totalValue:
		kind += ", total"
	case averageValuePerReplica:
		kind += ", total per replica"
	}
	text := m.label + " (" + kind + "): "
	if m.failed() {
		return text + "can't be computed", loud
	}
	if m.Proposal == nil {
		return text + "what it asked for is not known", plain
	}
	if c.byStage(m) {
		text = m.label + ", by a stage: "
	}
	text += "asks for " + number(m.GetProposal())
	if m.GetProposal() == c.current {
		text += ", no change"
	}
	if m == c.winner() {
		if len(c.metrics) > 1 {
			text += "  ← decides"
		}
		return text, bold
	}
	return text, plain
}

func (c *oneCase) metricRows(m *metric) []row {
	if m.failed() {
		return []row{{"error", red, clean(m.GetError())}}
	}
	if c.byStage(m) {
		return nil
	}
	var rows []row
	if m.hasUsage {
		rows = append(rows, row{"usage", plain, c.usageText(m)})
	}
	if m.hasUsage || m.UsageRatio != nil {
		rows = append(rows, row{"ratio", plain, c.ratioLine(m)})
	}
	if text := m.leftOut(); text != "" {
		rows = append(rows, row{"left out", plain, text})
	}
	if text := m.dampeningText(); text != "" {
		rows = append(rows, row{"assumed", yellow, text})
	}
	if text := c.toleranceText(m); text != "" {
		rows = append(rows, row{"tolerance", plain, text})
	}
	if m.Proposal == nil {
		return rows
	}
	return append(rows, row{"proposal", plain, c.proposalText(m)})
}

// failureEffect explains the effect of a metric that can't be computed.
func (c *oneCase) failureEffect() string {
	const rule = "HPA does not scale down while a metric is unknown"
	largest, any := c.largestProposal()
	switch {
	case c.habits.failures == failureIgnored && any:
		return "The metrics that can't be computed make no difference: " + c.profile() + " uses the other metrics."
	case c.aborted():
		return c.profile() + " ends an evaluation with the first metric that can't be computed, whatever the others ask for."
	case c.trace.GetPath() != pathMetricsFailed:
		return "The metrics that can't be computed make no difference now: " + rule + ", but the proposal is not below the current " + number(c.current) + "."
	case !any || largest >= c.current: // then stages made fewer of it, which they tell
		return ""
	}
	return "The largest remaining proposal is " + number(largest) + ", below the current " + number(c.current) + ": " + rule + "."
}

// largestProposal is the largest of the metrics that could be computed.
func (c *oneCase) largestProposal() (largest int32, any bool) {
	largest = math.MinInt32
	for _, m := range c.metrics {
		if !m.failed() && m.Proposal != nil {
			largest, any = max(largest, m.GetProposal()), true
		}
	}
	return largest, any
}

// ratioLine is "90 % / 60 % = 1.50".
func (c *oneCase) ratioLine(m *metric) string {
	if m.UsageRatio == nil {
		return c.ratioTerms(m) + " is no number"
	}
	text := m.tolerance.ratioText(m.GetUsageRatio())
	if !m.hasUsage && m.GetCalculation() == averageValuePerReplica {
		return c.ratioTerms(m) + " ≈ " + text // the average was rounded
	}
	return c.ratioTerms(m) + equals(text)
}

// leftOut describes pods that have no part in the ratio.
func (m *metric) leftOut() string {
	c := m.GetPodCounts()
	text := ""
	add := func(n int32, what, why string) {
		if n == 0 {
			return
		}
		if text != "" {
			text += "; "
		}
		text += count(n, what+" pod") + why
	}
	if m.GetUsageRatio() <= 1 {
		add(c.GetUnready(), "unready", " (would count, at 0, only above target)")
	}
	if m.GetUsageRatio() == 1 && !m.countsMissingOnTarget() {
		add(c.GetMissing(), "missing", " (exactly on target, so nothing is assumed)")
	}
	add(c.GetIgnored()-m.ignoredSamples(), "ignored", "")
	return text
}

// dampeningText explains the assumptions about pods without a usable sample, and their effect.
func (m *metric) dampeningText() string {
	text := m.assumed()
	if text == "" {
		return ""
	}
	text += ": "
	if sums := m.secondPass(); sums != "" {
		text += sums + ", "
	}
	return text + "ratio " + m.tolerance.ratioText(m.GetDampenedUsageRatio())
}

// toleranceText compares the ratio with the tolerance.
func (c *oneCase) toleranceText(m *metric) string {
	if m.GetCalculation() == totalValue && c.current == 0 {
		return "none at 0 replicas"
	}
	if m.UsageRatio == nil || m.GetRule() == "" {
		return ""
	}
	verb := " is outside "
	if m.tolerance.holds(m.decisive()) {
		verb = " is within "
	}
	return m.tolerance.ratioText(m.decisive()) + verb + m.tolerance.text() + m.tolerance.distanceText(m.decisive())
}

// proposalText is how the metric's proposal was computed.
func (c *oneCase) proposalText(m *metric) string {
	keeps := "no change: " + number(m.GetProposal())
	switch m.GetRule() {
	case "":
		return number(m.GetProposal()) + "; pods that have no sample or are not ready count, too, and are not kept"
	case withinTolerance:
		return c.withinText(m)
	case dampenedWithinTolerance:
		return keeps
	case dampenedReversed:
		return "the assumption turns the ratio from " + ratioText(m.GetUsageRatio()) + " to " +
			ratioText(m.GetDampenedUsageRatio()) + ", to the other side of 1; " + keeps
	case dampenedAgainstCurrent:
		return m.product() + c.against(m) + "; " + keeps
	}
	return m.product() + c.unexpectedProposal(m)
}

// withinText is the proposal of a metric on target.
func (c *oneCase) withinText(m *metric) string {
	if m.GetCalculation() != averageValuePerReplica || m.GetProposal() == c.current {
		return "no change: " + number(m.GetProposal())
	}
	return "on target HPA proposes the observed replicas (scale status), " + number(m.GetProposal()) +
		", not the " + number(c.current) + " asked for (scale spec)"
}

// against is why a product was not proposed: ", fewer than the current 8 although
// the ratio is above 1".
func (c *oneCase) against(m *metric) string {
	fewer, above := "fewer", "above"
	if m.decisive() < 1 {
		fewer, above = "more", "below"
	}
	return ", " + fewer + " than the current " + number(c.current) + " although the ratio is " + above + " 1"
}

// unexpectedProposal explains a proposal that one would not expect of its ratio.
func (c *oneCase) unexpectedProposal(m *metric) string {
	ratio, proposal := m.decisive(), m.GetProposal()
	switch {
	case proposal < 0:
		return "; below 0 counts as 0"
	case m.GetCalculation() == totalValue && m.ReplicasBase != nil && m.GetReplicasBase() == 0:
		return ": no pod is running and ready, which makes it 0 whatever the usage is"
	case m.ReplicasBase == nil:
		return ""
	case ratio > 1 && proposal < c.current, ratio < 1 && proposal > c.current:
		return "; HPA multiplies the pods, not the " + strconv.Itoa(int(c.current)) + " replicas, so the result contradicts the ratio"
	}
	return ""
}
