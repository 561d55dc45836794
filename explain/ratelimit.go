package explain

import (
	"slices"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// selectDisabled is the selectPolicy that forbids a direction.
const selectDisabled = "Disabled"

// writeRateLimit explains the limits of the scaling policies.
func (c *oneCase) writeRateLimit(p *page) {
	r := c.trace.GetRateLimit()
	if r == nil || c.habits.perPodPercentages { // the profile has no policies
		return
	}
	p.heading("Rate limit", c.rateOutcome(r))
	if len(r.GetPolicies()) == 0 {
		return
	}
	c.policyTable(r).write(p)
	if text := c.policyNote(r); text != "" {
		p.line(2, 2, plain, text)
	}
}

// rateOutcome is the section in one line.
func (c *oneCase) rateOutcome(r *setpointv1.RateLimitExplanation) string {
	wanted := c.trace.GetBounds().GetWantedReplicas()
	switch {
	case wanted == c.current:
		return "none, the count does not change"
	case c.habits.delays && wanted < c.current:
		return "none downwards"
	case c.habits.delays:
		return c.limited(r, wanted) + " (" + growthText + ")"
	case !c.hasBehavior() && wanted < c.current:
		return "none downwards without behavior"
	case !c.hasBehavior():
		return c.limited(r, wanted) + " (without behavior: " + growthText + ")"
	case r.GetSelectPolicy() == selectDisabled:
		return directionField(r) + " is disabled (selectPolicy: Disabled), so the count stays at " + number(c.current)
	}
	if c.minBlocks(r) {
		return c.limited(r, wanted) + " (" + directionField(r) + ", Min: " + c.profile() + " then allows no change)"
	}
	return c.limited(r, wanted) + " (" + directionField(r) + ", " + clean(r.GetSelectPolicy()) + ": the policy that allows " + selects(r) + ")"
}

// growthText is how far a count may grow without behavior.
const growthText = "at most twice the replicas, or 4, per evaluation"

// minBlocks reports whether selecting the smallest change resulted in no change, by a bug of
// the first versions with policies.
func (c *oneCase) minBlocks(r *setpointv1.RateLimitExplanation) bool {
	return c.habits.minBlocks && r.GetSelectPolicy() == "Min"
}

// limited is "5 passes, up to 8 is allowed", "12 is limited to 8", or "none beyond maxReplicas 6, up to 8 is allowed".
func (c *oneCase) limited(r *setpointv1.RateLimitExplanation, wanted int32) string {
	limit, b := max(0, r.GetLimit()), c.trace.GetBounds()
	towards, bound, beyond := "up to ", "maxReplicas "+number(b.GetMaxReplicas()), wanted > limit
	if wanted < c.current {
		towards, bound, beyond = "down to ", "minReplicas "+number(b.GetMinReplicas()), wanted < limit
	}
	passes := number(wanted) + " passes"
	switch {
	case r.GetLimited():
		return number(wanted) + " is limited to " + number(r.GetLimit())
	case beyond:
		passes = "none beyond " + bound
	}
	return passes + ", " + towards + number(limit) + " is allowed"
}

// selects is which policy counts.
func selects(r *setpointv1.RateLimitExplanation) string {
	if r.GetSelectPolicy() == "Min" {
		return "least"
	}
	return "most"
}

// directionField is the direction's field of behavior.
func directionField(r *setpointv1.RateLimitExplanation) string {
	if r.GetDirection() == down {
		return "scaleDown"
	}
	return "scaleUp"
}

func policyName(l *setpointv1.PolicyExplanation) string {
	return clean(l.GetType()) + nbsp + number(l.GetValue()) + "/" + number(l.GetPeriodSeconds()) + "s"
}

func (c *oneCase) policyTable(r *setpointv1.RateLimitExplanation) *table {
	allows := "UP TO"
	if r.GetDirection() == down {
		allows = "DOWN TO"
	}
	t := &table{
		header: []string{"POLICY", "PERIOD FROM", "BEGAN WITH", "ADDED", "REMOVED", allows, "OLDEST CHANGE LEAVES"},
		right:  []bool{false, false, true, true, true, true, false},
	}
	for _, l := range r.GetPolicies() {
		s, name, next := plain, policyName(l), none
		if l.GetSelected() {
			s, name = bold, name+" ← selected"
		}
		if l.GetReleaseTime() != nil {
			next = c.clock.at(l.GetReleaseTime())
		}
		t.add(s, name, c.clock.time(l.GetPeriodStart().AsTime()), number(l.GetPeriodStartReplicas()),
			number(l.GetScaledUp()), number(l.GetScaledDown()), number(l.GetLimit()), next)
	}
	return t
}

// selectedPolicy returns the selected policy, nil if there is none.
func selectedPolicy(r *setpointv1.RateLimitExplanation) *setpointv1.PolicyExplanation {
	for _, l := range r.GetPolicies() {
		if l.GetSelected() {
			return l
		}
	}
	return nil
}

// policyNote explains a limit that is not the selected policy's.
func (c *oneCase) policyNote(r *setpointv1.RateLimitExplanation) string {
	l := selectedPolicy(r)
	if l == nil || l.GetLimit() == r.GetLimit() {
		return ""
	}
	return "A limit never reverses the direction: instead of " + number(l.GetLimit()) + " it is the current " + number(r.GetLimit()) + "."
}

// roomText is when the selected policy allows more, empty if that depends on more than its own
// direction's changes, if what it allows may still not be a change then, or if another policy
// may allow more before, or no more then.
func (c *oneCase) roomText(r *setpointv1.RateLimitExplanation) string {
	l := selectedPolicy(r)
	if l == nil || l.GetReleaseTime() == nil || l.GetLimit() != r.GetLimit() {
		return ""
	}
	own, other := l.GetScaledUp(), l.GetScaledDown()
	if r.GetDirection() == down {
		own, other = other, own
	}
	if own == 0 || other != 0 || slices.ContainsFunc(r.GetPolicies(), func(p *setpointv1.PolicyExplanation) bool {
		if p.GetReleaseTime() == nil {
			return false
		}
		after := p.GetReleaseTime().AsTime().Compare(l.GetReleaseTime().AsTime())
		if r.GetSelectPolicy() == "Min" {
			return after > 0 && p.GetLimit() == l.GetLimit()
		}
		return after < 0
	}) {
		return ""
	}
	return "it allows more at " + c.clock.at(l.GetReleaseTime())
}

// limitText is the verdict's clause on rate limits.
func (c *oneCase) limitText() string {
	r := c.trace.GetRateLimit()
	field := directionField(r)
	switch {
	case c.habits.delays:
		return "limited to " + number(r.GetLimit()) + ": " + growthText
	case !c.hasBehavior():
		return "limited to " + number(r.GetLimit()) + ": without behavior " + growthText
	case r.GetSelectPolicy() == selectDisabled:
		return field + " is disabled (selectPolicy: Disabled), so the count stays at " + number(r.GetLimit())
	}
	if c.minBlocks(r) {
		return field + " allows no change: selectPolicy Min does so in " + c.profile() + ", whatever the policies allow"
	}
	text := "limited to " + number(r.GetLimit()) + " by " + field + " policies"
	if l := selectedPolicy(r); l != nil {
		text = "limited to " + number(r.GetLimit()) + " by " + field + " policy " + policyName(l)
		if r.GetLimit() == c.current {
			text = field + " policy " + policyName(l) + " allows no change: " + exhaustion(r, l)
		}
	}
	if room := c.roomText(r); room != "" {
		text += "; " + room
	}
	return text
}

// exhaustion is why a policy allows no further change.
func exhaustion(r *setpointv1.RateLimitExplanation, l *setpointv1.PolicyExplanation) string {
	start := l.GetPeriodStartReplicas()
	switch {
	case r.GetDirection() == up && start >= 0 && l.GetLimit() < start:
		return "its value is too large for the arithmetic, which comes to " + number(l.GetLimit())
	case r.GetDirection() == up && start == 0 && l.GetType() == "Percent":
		return "a percentage of 0 replicas is 0"
	case l.GetScaledUp() == 0 && l.GetScaledDown() == 0:
		return "it allows no change from " + number(start)
	}
	text := ""
	if n := l.GetScaledUp(); n != 0 {
		text = number(n) + " added"
	}
	if n := l.GetScaledDown(); n != 0 {
		if text != "" {
			text += " and "
		}
		text += number(n) + " removed"
	}
	return text + " in its period"
}
