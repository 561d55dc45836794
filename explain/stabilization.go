package explain

import (
	"strconv"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// writeStabilization explains what the windows made of the proposal.
func (c *oneCase) writeStabilization(p *page) {
	s := c.trace.GetStabilization()
	if s == nil {
		return
	}
	p.heading("Stabilization", c.stabilizationOutcome(s))
	var rows []row
	for _, w := range s.GetWindows() {
		rows = append(rows, row{windowDirection(w) + " " + seconds(w.GetWindowSeconds()), plain, c.windowText(w)})
	}
	p.rows(2, rows)
}

func (c *oneCase) stabilizationOutcome(s *setpointv1.StabilizationExplanation) string {
	proposed, stabilized := number(s.GetProposedReplicas()), number(s.GetStabilizedReplicas())
	switch {
	case s.GetProposedReplicas() == s.GetStabilizedReplicas():
		return proposed + " passes"
	case s.GetStabilizedReplicas() == c.current:
		return proposed + " is held at " + stabilized
	case s.GetStabilizedReplicas() > max(c.current, s.GetProposedReplicas()):
		return proposed + " is raised to " + stabilized
	case s.GetStabilizedReplicas() < min(c.current, s.GetProposedReplicas()):
		return proposed + " is lowered to " + stabilized
	}
	return proposed + " is held back to " + stabilized
}

func windowDirection(w *setpointv1.WindowExplanation) string {
	if w.GetDirection() == down {
		return "scale-down"
	}
	return "scale-up"
}

// holding returns the window, or delay, that kept the proposal from passing, nil if none
// did.
func (c *oneCase) holding() *setpointv1.WindowExplanation {
	s := c.trace.GetStabilization()
	if w := c.holdingDelay(); c.habits.delays {
		return w
	}
	switch {
	case s.GetStabilizedReplicas() > s.GetProposedReplicas():
		return c.window(down)
	case s.GetStabilizedReplicas() < s.GetProposedReplicas():
		return c.window(up)
	}
	return nil
}

// holdingDelay returns the delay that holds the count, nil if none does.
func (c *oneCase) holdingDelay() *setpointv1.WindowExplanation {
	s := c.trace.GetStabilization()
	direction := up
	if s.GetProposedReplicas() < c.current {
		direction = down
	}
	w := c.window(direction)
	// Where the ratio is within tolerance the delay makes no difference.
	if s.GetStabilizedReplicas() == s.GetProposedReplicas() || w.GetRecommendationTime() == nil || c.habits.perPodPercentages && c.pointsElsewhere(direction) {
		return nil
	}
	return w
}

// pointsElsewhere reports whether the ratio is not out of tolerance in that direction.
func (c *oneCase) pointsElsewhere(direction string) bool {
	m := c.winner()
	return m == nil || m.tolerance.holds(m.GetUsageRatio()) || (m.GetUsageRatio() > 1) != (direction == up)
}

// windowText describes one window.
func (c *oneCase) windowText(w *setpointv1.WindowExplanation) string {
	proposed := c.trace.GetStabilization().GetProposedReplicas()
	if c.hasBehavior() && !c.habits.oneSided {
		if w.GetDirection() == up && proposed <= c.current {
			return "does not apply: the proposal is not above the current " + number(c.current)
		}
		if w.GetDirection() == down && proposed >= c.current {
			return "does not apply: the proposal is not below the current " + number(c.current)
		}
	}
	if w.GetWindowSeconds() == 0 && w.GetRecommendations() == 0 {
		return "uses only the proposal"
	}
	if w.GetRecommendations() == 0 {
		if w.GetDirection() == down && proposed < c.current {
			return "no recommendation in it: none was made for that long, so nothing holds the count"
		}
		return "no recommendation in it"
	}
	if w.GetRecommendationTime() == nil {
		return count(w.GetRecommendations(), "recommendation") + " in it, none " + beyond(w) + " " + number(proposed)
	}
	text := count(w.GetRecommendations(), "recommendation") + " in it, the " + safest(w) + " is " + number(w.GetReplicas()) +
		" of " + c.clock.at(w.GetRecommendationTime())
	return text + c.stay(w, proposed) + c.releaseText(w, proposed)
}

// stay says that the window would even go past the current count, which it can't.
func (c *oneCase) stay(w *setpointv1.WindowExplanation, proposed int32) string {
	past := w.GetDirection() == down && w.GetReplicas() > c.current || w.GetDirection() == up && w.GetReplicas() < c.current
	switch {
	case !past || w.GetReplicas() == proposed:
		return ""
	case !c.hasBehavior():
		return ", which counts, without behavior, even above the current " + number(c.current)
	case c.habits.oneSided && w.GetDirection() == down:
		return ", which counts in " + c.profile() + " even above the current " + number(c.current)
	case c.habits.oneSided:
		return ", which counts in " + c.profile() + " even below the current " + number(c.current)
	}
	return ", so the current " + number(c.current) + " stays"
}

// releaseText says when the window lets go.
func (c *oneCase) releaseText(w *setpointv1.WindowExplanation, proposed int32) string {
	then := ", and then " + number(proposed) + " passes if it is still proposed"
	text := "; it leaves the window at " + c.clock.at(w.GetReleaseTime()) + c.latest()
	if sameInstant(w.GetReleaseTime(), w.GetFullReleaseTime()) {
		return text + then
	}
	return text + ", the last one " + beyond(w) + " " + number(proposed) + " at " + c.clock.at(w.GetFullReleaseTime()) + then
}

// beyond is which recommendations a window holds by.
func beyond(w *setpointv1.WindowExplanation) string {
	if w.GetDirection() == down {
		return "above"
	}
	return "below"
}

func safest(w *setpointv1.WindowExplanation) string {
	if w.GetDirection() == down {
		return "highest"
	}
	return "lowest"
}

// heldText is the verdict's clause on the windows, empty where they did nothing.
func (c *oneCase) heldText() string {
	w := c.holding()
	if w == nil {
		return ""
	}
	stabilized := c.trace.GetStabilization().GetStabilizedReplicas()
	name := "the " + windowDirection(w) + " stabilization window (" + seconds(w.GetWindowSeconds()) + ")"
	switch {
	case stabilized > c.current && w.GetDirection() == down:
		return "raised to " + number(stabilized) + " by " + name + ": " + c.beyondCurrent() + " the highest recommendation in it counts, " +
			number(stabilized) + " of " + c.clock.at(w.GetRecommendationTime())
	case stabilized < c.current && w.GetDirection() == up:
		return "lowered to " + number(stabilized) + " by " + name + ": " + c.beyondCurrent() + " the lowest recommendation in it counts, " +
			number(stabilized) + " of " + c.clock.at(w.GetRecommendationTime())
	case stabilized == c.current:
		return "held at " + number(stabilized) + " by " + name + " " + c.until(w)
	}
	return "held back to " + strconv.Itoa(int(stabilized)) + " by " + name + " " + c.until(w)
}

// beyondCurrent is where windows are followed beyond the current count.
func (c *oneCase) beyondCurrent() string {
	if c.hasBehavior() {
		return "in " + c.profile()
	}
	return "without behavior"
}

// latest is what an instant has beside it that is not known without a history: a running controller may have recommended less
// for a while.
func (c *oneCase) latest() string {
	if c.noHistory() {
		return " at the latest"
	}
	return ""
}

// until is when the count that a window holds can change.
func (c *oneCase) until(w *setpointv1.WindowExplanation) string {
	stabilized := c.trace.GetStabilization().GetStabilizedReplicas()
	if w.GetReplicas() == stabilized || sameInstant(w.GetReleaseTime(), w.GetFullReleaseTime()) {
		return "until " + c.clock.at(w.GetReleaseTime()) + c.latest()
	}
	// What leaves first is beyond the current count; others that are may remain.
	return "until " + c.clock.at(w.GetReleaseTime()) + " at the earliest, " + c.clock.at(w.GetFullReleaseTime()) + " at the latest"
}
