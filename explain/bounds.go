package explain

// Reasons of bounds, in the trace's words.
const (
	tooManyReplicas = "TooManyReplicas"
	tooFewReplicas  = "TooFewReplicas"
	scaleUpLimit    = "ScaleUpLimit"
	scaleDownLimit  = "ScaleDownLimit"
)

// writeBounds explains the effect of minReplicas and maxReplicas.
func (c *oneCase) writeBounds(p *page) {
	if b := c.trace.GetBounds(); b != nil {
		p.heading("Bounds", c.boundsOutcome())
	}
}

func (c *oneCase) boundsOutcome() string {
	b := c.trace.GetBounds()
	lowest, highest := "minReplicas "+number(b.GetMinReplicas()), "maxReplicas "+number(b.GetMaxReplicas())
	wanted := number(b.GetWantedReplicas())
	switch path := c.trace.GetPath(); {
	case path == pathBelowMin && b.GetBoundedReplicas() > b.GetMinReplicas():
		return wanted + " is below " + c.leastText() + ", which is enforced at once: no metric or delay is considered"
	case c.habits.delays && path == pathAboveMax:
		return wanted + " is above " + highest + ", which is enforced at once: no metric or delay is considered"
	case c.habits.delays && path == pathBelowMin:
		return wanted + " is below " + lowest + ", which is enforced at once: no metric or delay is considered"
	case path == pathAboveMax:
		return wanted + " is above " + highest + ", which is enforced at once: no metric, window or policy is considered"
	case path == pathBelowMin:
		return wanted + " is below " + lowest + ", which is enforced at once: no metric, window or policy is considered"
	case c.floored():
		return number(b.GetBoundedReplicas()) + " is below " + lowest + ", the lowest count for a scale-up from zero: " + number(c.desired)
	case b.GetReason() == tooManyReplicas && b.GetBoundedReplicas() != b.GetWantedReplicas():
		return wanted + " is capped at " + highest
	case b.GetReason() == tooFewReplicas && b.GetBoundedReplicas() != b.GetWantedReplicas():
		return wanted + " is raised to " + lowest
	}
	return number(b.GetBoundedReplicas()) + " is within " + lowest + " and " + highest
}

// leastText is the least count of a version that scales neither to nor from zero.
func (c *oneCase) leastText() string {
	return number(c.trace.GetBounds().GetBoundedReplicas()) + ", the lowest count of " + c.profile()
}

// floored reports whether the count was raised when scaling up from zero.
func (c *oneCase) floored() bool {
	switch c.trace.GetPath() {
	case pathMetrics, pathMetricsFailed, pathSelectorFailed:
		return c.current == 0 && c.desired != c.trace.GetBounds().GetBoundedReplicas()
	}
	return false
}

// boundText is the verdict's clause on limits and bounds, empty if they had no effect.
func (c *oneCase) boundText() string {
	b := c.trace.GetBounds()
	if b == nil || b.GetBoundedReplicas() == b.GetWantedReplicas() {
		return ""
	}
	already := b.GetBoundedReplicas() == c.current
	switch b.GetReason() {
	case scaleUpLimit, scaleDownLimit:
		return c.limitText()
	case tooManyReplicas:
		if already {
			return "at maxReplicas " + number(b.GetMaxReplicas()) + " already"
		}
		return "capped at maxReplicas " + number(b.GetMaxReplicas())
	case tooFewReplicas:
		if already {
			return "at minReplicas " + number(b.GetMinReplicas()) + " already"
		}
		if b.GetBoundedReplicas() > c.current {
			return "raised to minReplicas " + number(b.GetMinReplicas())
		}
		return "not below minReplicas " + number(b.GetMinReplicas())
	}
	return ""
}
