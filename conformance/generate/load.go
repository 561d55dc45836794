package generate

import (
	"math"
	"time"
)

// load is the demand in one metric over time, in replicas: as many as would meet the
// target exactly.
type load struct {
	shape shape
	// low and high are the range of the demand, period is the time of one cycle, phase
	// its start, 0 to 1.
	low, high, phase float64
	period           time.Duration
	// noise is the relative deviation of a single step.
	noise float64
	// level is the position of a random walk, with its time.
	level float64
	turn  int
}

// shape is the curve of a load.
type shape int

const (
	constant shape = iota
	sine
	ramp
	stairs
	spikes
	walk
	// near stays near what the workload can just serve.
	near
	// pulse is zero for part of the time.
	pulse
)

// newLoad returns a load in and near the bounds of the spec.
func (g *generator) newLoad() load {
	least, most := float64(g.spec.min()), float64(min(g.spec.MaxReplicas, 60))
	l := load{
		shape: pick(g.random, []weighted[shape]{
			{1, constant}, {2, sine}, {2, ramp}, {3, stairs}, {2, spikes}, {2, walk}, {2, near}, {1, pulse},
		}),
		low:    least * g.real(0, 1.5),
		high:   max(most*g.real(0.3, 1.6), 1),
		phase:  g.Float64(),
		period: g.seconds(60, 1200),
		noise:  oneOf(g.random, 0, 0, 0.02, 0.1, 0.3),
	}
	if g.spec.min() == 0 && g.chance(0.7) {
		l.shape, l.period = pulse, g.seconds(60, 400)
	}
	if l.low > l.high {
		l.low, l.high = l.high, l.low
	}
	l.level = g.real(l.low, l.high)
	return l
}

// demand returns the replicas that the load requires at the time since the scenario's
// start, while there are current ones.
func (l *load) demand(r random, since time.Duration, current float64) float64 {
	turns := l.phase + since.Seconds()/l.period.Seconds()
	part := turns - math.Floor(turns)
	if whole := int(turns); whole != l.turn {
		l.turn = whole
		l.level = r.real(l.low, l.high)
	}
	d := l.level
	switch l.shape {
	case sine:
		d = l.low + (l.high-l.low)*(1+math.Sin(2*math.Pi*turns))/2
	case ramp:
		d = l.low + (l.high-l.low)*part
	case spikes:
		if d = l.low; r.chance(0.15) {
			d = l.high * r.real(1, 3)
		}
	case walk:
		l.level = max(0, l.level+r.NormFloat64()*(l.high-l.low)/8)
		d = l.level
	case near:
		d = current * r.real(0.85, 1.15)
	case pulse:
		if d = l.high; part < 0.6 {
			d = 0
		}
	case constant, stairs:
	}
	return max(0, d*(1+l.noise*r.NormFloat64()))
}

// level is a metric's value relative to its target: a fraction of it plus an offset.
type level struct {
	ratio float64
	// exact levels are whole thousandths, for edges that a floating-point ratio would
	// miss, and delta is added to them, in milli-units.
	exact     bool
	thousands int64
	delta     int64
}

// of returns the level of a number of milli-units. It stays in a range in which sums of
// some thousand, and a hundred times those, don't wrap.
func (l level) of(milli int64) int64 {
	if l.exact && milli < 1e14 {
		return milli*l.thousands/1000 + l.delta
	}
	if l.exact {
		return bounded(float64(milli) * float64(l.thousands) / 1000)
	}
	return bounded(float64(milli) * l.ratio)
}

func bounded(f float64) int64 {
	const most = 1e15
	return int64(max(-most, min(f, most)))
}

// levelOf returns the value of a metric with the load, if base replicas or pods shared
// the demand. Sometimes it is at an edge of the arithmetic.
func (g *generator) levelOf(l *load, base float64) level {
	current := float64(g.cluster.replicas)
	demand := l.demand(g.random, g.since(), current)
	base = max(base, 1)
	if !g.chance(g.spec.edges) {
		return level{ratio: demand / base}
	}
	edges := g.tolerances()
	if g.chance(0.4) {
		return level{exact: true, thousands: oneOf(g.random, edges...), delta: oneOf(g.random, int64(0), 0, 0, -1, 1)}
	}
	// Edges of the count: the bounds and the maximum growth without behavior.
	count := oneOf(g.random, float64(g.spec.min()), float64(min(g.spec.MaxReplicas, 1000)), current, 2*current, 4, 0)
	return level{ratio: max(0, count+oneOf(g.random, 0.0, 0, -1, 1, -0.001, 0.001)) / base}
}

// tolerances returns the ratios at which scaling begins in either direction, and 1, in
// thousandths.
func (g *generator) tolerances() []int64 {
	up, down := g.scenario.Config.Tolerance, g.scenario.Config.Tolerance
	if b := g.spec.Behavior; b != nil {
		if b.ScaleUp.Tolerance != nil {
			up = b.ScaleUp.Tolerance.AsApproximateFloat64()
		}
		if b.ScaleDown.Tolerance != nil {
			down = b.ScaleDown.Tolerance.AsApproximateFloat64()
		}
	}
	return []int64{1000 + int64(math.Round(1000*up)), 1000 - int64(math.Round(1000*down)), 1000}
}
