package explain

import (
	"cmp"
	"strings"
)

// verdict is the outcome and its deciding reason.
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
	p.line(0, 2, dim, c.summary())
}

// summary are the outcome, its time and the settings.
func (c *oneCase) summary() string {
	var parts []string
	if workload := c.workload(); workload != "" {
		parts = append(parts, workload)
	}
	if cluster := c.cluster(); cluster != "" {
		parts = append(parts, "in cluster "+cluster)
	}
	decided := "decided for " + c.clock.date(c.clock.now)
	if c.trace == nil {
		decided += "; " + cmp.Or(clean(c.missing), "the answer came without an explanation (explain was not set)")
	} else {
		decided += " by profile " + clean(c.trace.GetProfile())
	}
	if len(parts) == 0 {
		return decided
	}
	return strings.Join(parts, " ") + ", " + decided
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
	c.stagesVerdict(v)
	c.unaskedVerdict(v)
	if w := c.trace.GetWithheld(); w != nil {
		v.style = notice
		v.because(yellow, "a scale-down to "+count(w.GetReplicas(), "replica")+" is withheld: the history store can't be reached")
	}
	switch c.trace.GetPath() {
	case pathMetrics:
		c.metricsVerdict(v)
	case pathMetricsFailed:
		c.failedVerdict(v)
	case pathSelectorFailed:
		v.style = loud
		v.because(red, "the pods can't be selected: "+clean(c.condition("ScalingActive").GetMessage()))
		if c.floored() {
			c.flooredVerdict(v)
			break
		}
		v.because(plain, "so no metric is computed, and the count is held")
	case pathScaleUnavailable:
		v.style = loud
		v.head = c.leftAs(c.habits.delays || c.trace.GetHistory() == nil || c.trace.GetHistory().GetStartTime() != nil)
		v.because(red, "the scale can't be read: "+clean(c.resp.GetError()))
	case pathScalingDisabled:
		v.style = notice
		v.head = c.headline() + " (scaling is disabled)"
		c.disabledVerdict(v)
	case pathAboveMax:
		v.because(plain, number(c.current)+" is above maxReplicas "+number(c.trace.GetBounds().GetMaxReplicas())+", which is enforced at once")
		c.boundsStages(v)
	case pathBelowMin:
		defer c.boundsStages(v)
		if b := c.trace.GetBounds(); b.GetBoundedReplicas() > b.GetMinReplicas() {
			v.because(plain, number(c.current)+" is below "+c.leastText()+", which is enforced at once")
			break
		}
		v.because(plain, number(c.current)+" is below minReplicas "+number(c.trace.GetBounds().GetMinReplicas())+", which is enforced at once")
	default:
		c.bareVerdict(v)
	}
	return v
}

// leftAs is the headline where the scale can't be read; known reports whether it ever was.
func (c *oneCase) leftAs(known bool) string {
	if !known {
		return "left as it is (no count is known)"
	}
	return "left as it is (last known count: " + number(c.current) + ")"
}

func (c *oneCase) headline() string {
	change := number(c.current) + " → " + count(c.final, "replica")
	switch {
	case c.final > c.current && c.current == 0:
		return change + " (scale up from zero)"
	case c.final > c.current:
		return change + " (scale up)"
	case c.final < c.current && c.final == 0:
		return change + " (scale down to zero)"
	case c.final < c.current:
		return change + " (scale down)"
	}
	return "stays at " + count(c.final, "replica")
}

func (c *oneCase) headStyle() style {
	switch {
	case c.final > c.current:
		return good
	case c.final < c.current:
		return notice
	}
	return bold
}
