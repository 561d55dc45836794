package explain

// failures describes the first metric that failed, which is the one that HPA's
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
		if m.failed() && c.instead(m) == nil { // a fallback that leaves a metric out says so itself
			failed = append(failed, m)
		}
	}
	return failed
}

// failedVerdict is the verdict if the metrics yielded no count.
func (c *oneCase) failedVerdict(v *verdict) {
	v.style = loud
	c.failures(v, "")
	largest, any := c.largestProposal()
	switch {
	case c.floored():
		c.flooredVerdict(v)
	case !any && !c.aborted():
		v.because(plain, "so the count is held")
	case c.aborted():
		v.because(plain, c.profile()+" ends an evaluation with the first metric that can't be computed, whatever the others ask for, so the count is held")
	case largest >= c.current && len(c.resp.GetAdjustments()) > 0: // HPA alone would take it
		v.because(plain, "the other metrics ask for at most "+number(largest)+", of which stages make fewer than "+number(c.current)+"; nothing scales down while a metric is unknown, so the count is held")
	case c.successes() == 1:
		v.because(plain, c.onlySuccess().label+" asks for "+number(largest)+", but HPA does not scale down while a metric is unknown, so the count is held")
	default:
		v.because(plain, "the other metrics ask for at most "+number(largest)+", but HPA does not scale down while a metric is unknown, so the count is held")
	}
}

// aborted reports whether a failing metric ended the evaluation of several.
func (c *oneCase) aborted() bool {
	return c.habits.failures == failureAborts && max(len(c.metrics), len(c.req.GetSpec().GetMetrics())) > 1
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
	case c.habits.zero == zeroByMinimum:
		v.because(plain, c.profile()+" does not scale a workload at zero unless minReplicas is 0")
	case c.habits.zero == zeroAlways:
		v.because(plain, c.profile()+" does not scale a workload at zero")
	case feature == nil || feature.ScaleToZero == nil:
		v.because(plain, "HPA does not scale a workload at zero, unless scaling from zero is on (HPAScaleToZero) and HPA itself scaled it to zero")
	case !feature.GetScaleToZero():
		v.because(plain, "HPA does not scale a workload at zero, as scaling to and from zero (HPAScaleToZero) is off")
	case c.condition("ScaledToZero").GetStatus() == conditionTrue:
		v.because(plain, "HPA scaled it to zero, but can't scale it up again without an Object or External metric in the spec")
	default:
		v.because(plain, "HPA does not scale a workload at zero unless HPA itself scaled it to zero")
	}
	v.because(plain, "set its replicas to 1 or more to turn scaling on again")
}
