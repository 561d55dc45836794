package generate

import "time"

// clock holds the instants of a scenario.
type clock struct {
	start, now time.Time
	// passed are the instants of the steps so far, scaled those at which the scale was
	// written: windows and periods start there.
	passed, scaled []time.Time
	// period is the usual time between steps.
	period time.Duration
	// edges is the share of steps at the edge of a window or period.
	edges float64
}

// newClock starts a clock at some time of a year. Most start at a whole second, so that
// instants of pods and samples, which are whole, can be on edges.
func (g *generator) newClock() clock {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(g.seconds(0, 300*24*3600))
	if g.chance(0.25) {
		start = start.Add(time.Duration(g.Int64N(int64(time.Second))))
	}
	return clock{
		start: start, now: start,
		period: oneOf(g.random, 15*time.Second, 15*time.Second, 15*time.Second, 10*time.Second, 30*time.Second, time.Minute),
		edges:  oneOf(g.random, 0, 0.1, 0.3, 0.6),
	}
}

// nextTime moves the clock to the step with index i.
func (g *generator) nextTime(i int) time.Time {
	c := &g.clock
	if i == 0 {
		return c.now
	}
	next, ok := time.Time{}, false
	if g.chance(c.edges) {
		next, ok = g.edge()
	}
	if !ok {
		next = c.now.Add(g.stride())
		if g.chance(0.3) && !next.Truncate(time.Second).Before(c.now) {
			next = next.Truncate(time.Second)
		}
	}
	c.now = next
	return next
}

// stride is the time to the next step without an edge.
func (g *generator) stride() time.Duration {
	return pick(g.random, []weighted[time.Duration]{
		{20, g.clock.period},
		{4, g.clock.period + time.Duration(g.between(-3, 3))*time.Second},
		{2, g.seconds(1, 120)},
		{1, 0},
		{1, time.Duration(g.between(1, 1e9))},
		{2, g.seconds(120, 1000)},
		{0.5, g.seconds(1000, 10000)},
		{0.2, 24 * time.Hour},
		{0.1, 400 * 24 * time.Hour},
	})
}

// slips are distances of steps from edges.
var slips = []time.Duration{0, 0, 0, -1, 1, -time.Second, time.Second}

// edge returns an instant at the end of a window or period that started at an earlier
// step, or of a pod's first minutes.
func (g *generator) edge() (time.Time, bool) {
	begin := g.clock.passed
	if len(g.clock.scaled) > 0 && g.chance(0.5) {
		begin = g.clock.scaled
	}
	lengths := g.windows()
	if starts := g.cluster.starts(); len(starts) > 0 && g.chance(0.2) {
		begin, lengths = starts, []time.Duration{
			seconds(g.scenario.Config.CPUInitializationPeriodSeconds),
			seconds(g.scenario.Config.InitialReadinessDelaySeconds),
		}
	}
	for range 4 {
		at := oneOf(g.random, begin...).Add(oneOf(g.random, lengths...)).Add(oneOf(g.random, slips...))
		if !at.Before(g.clock.now) && at.Sub(g.clock.now) <= time.Hour {
			return at, true
		}
	}
	return time.Time{}, false
}

// windows returns the lengths of all windows and periods that look back.
func (g *generator) windows() []time.Duration {
	lengths := []time.Duration{seconds(g.scenario.Config.DownscaleStabilizationSeconds)}
	behavior := g.spec.Behavior
	if behavior == nil {
		return lengths
	}
	for _, rules := range directions(behavior) {
		if rules.StabilizationWindowSeconds != nil {
			lengths = append(lengths, seconds(float64(*rules.StabilizationWindowSeconds)))
		}
		for _, policy := range rules.Policies {
			lengths = append(lengths, seconds(float64(policy.PeriodSeconds)))
		}
	}
	return lengths
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
