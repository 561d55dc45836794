package explain

import "strings"

// bareVerdict is the verdict for an answer without an explanation, from its reason and
// conditions.
func (c *oneCase) bareVerdict(v *verdict) {
	able, active := c.condition("AbleToScale"), c.condition("ScalingActive")
	switch {
	case able.GetStatus() == conditionFalse:
		v.style = loud
		if able.GetReason() == "FailedGetScale" { // no count of now
			v.head = c.leftAs(c.current > 0)
		}
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
	c.conditionsVerdict(v)
	if len(v.why) == 0 && len(c.resp.GetAdjustments()) > 0 {
		for _, a := range c.resp.GetAdjustments() {
			v.because(plain, clean(a.GetMessage()))
		}
		return
	}
	if len(v.why) == 0 && active.GetStatus() == "Unknown" { // a member's fleet has not decided
		v.because(plain, clean(active.GetMessage()))
	}
	if len(v.why) == 0 && c.desired == c.current {
		v.because(plain, "the metrics ask for no change")
	}
}

// conditionsVerdict says what the conditions do of windows, policies and bounds.
func (c *oneCase) conditionsVerdict(v *verdict) {
	if able := c.condition("AbleToScale"); strings.HasSuffix(able.GetReason(), "Stabilized") {
		v.because(yellow, clean(able.GetMessage()))
	}
	if limited := c.condition("ScalingLimited"); limited.GetStatus() == conditionTrue {
		v.because(yellow, clean(limited.GetMessage()))
	}
}
