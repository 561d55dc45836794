package simulation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// MaxPoints limits the points of a trace.
const MaxPoints = 2_000_000

// Point is the load at one instant.
type Point struct {
	// At is the time since the start.
	At time.Duration
	// Value is the load, in units per second, at least 0.
	Value float64
}

// Trace is a load over time, linear between points, constant before the first and after the
// last. Two points at one instant are a jump: from that instant on the later one counts.
type Trace struct{ points []Point }

// NewTrace returns the trace through the points, which it takes over. Offsets must not
// decrease, at most two may be equal, and values must be finite and at least 0.
func NewTrace(points []Point) (*Trace, error) {
	if len(points) == 0 {
		return nil, errors.New("a load needs at least one point")
	}
	if len(points) > MaxPoints {
		return nil, fmt.Errorf("the load has %d points, more than %d", len(points), MaxPoints)
	}
	for i, p := range points {
		switch {
		case math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Value < 0 || p.Value > MaxLoad:
			return nil, fmt.Errorf("point %d, at %s: the load is %g, must be between 0 and %g", i+1, p.At, p.Value, MaxLoad)
		case i > 0 && p.At < points[i-1].At:
			return nil, fmt.Errorf("point %d, at %s: is before the point at %s", i+1, p.At, points[i-1].At)
		case i > 1 && p.At == points[i-2].At:
			return nil, fmt.Errorf("point %d, at %s: is the third one at that instant", i+1, p.At)
		}
	}
	return &Trace{points}, nil
}

// MaxLoad limits a load, so that volumes stay finite.
const MaxLoad = 1e12

// Points returns the points, which are the trace's own.
func (t *Trace) Points() []Point { return t.points }

// End is the offset of the last point.
func (t *Trace) End() time.Duration { return t.points[len(t.points)-1].At }

// At returns the load at an instant; where it jumps, after the jump.
func (t *Trace) At(at time.Duration) float64 {
	return t.between(sort.Search(len(t.points), func(i int) bool { return t.points[i].At > at })-1, at)
}

// before returns the load just before an instant.
func (t *Trace) before(at time.Duration) float64 {
	return t.between(sort.Search(len(t.points), func(i int) bool { return t.points[i].At >= at })-1, at)
}

// between returns the value on the line from point i to the next one.
func (t *Trace) between(i int, at time.Duration) float64 {
	switch {
	case i < 0:
		return t.points[0].Value
	case i == len(t.points)-1:
		return t.points[i].Value
	}
	a, b := t.points[i], t.points[i+1]
	if at == b.At {
		return b.Value
	}
	return a.Value + mul(b.Value-a.Value, float64(at-a.At)/float64(b.At-a.At))
}

// Volume returns the load's volume between two instants.
func (t *Trace) Volume(from, to time.Duration) float64 {
	sum := 0.0
	for from < to {
		next := t.next(from)
		if next > to {
			next = to
		}
		sum += area(t.At(from), t.before(next), next-from)
		from = next
	}
	return sum
}

// next returns the offset of the first point after an instant, the far future if there is none.
func (t *Trace) next(after time.Duration) time.Duration {
	i := sort.Search(len(t.points), func(i int) bool { return t.points[i].At > after })
	if i == len(t.points) {
		return never
	}
	return t.points[i].At
}

// area is the volume under a straight line.
func area(from, to float64, length time.Duration) float64 {
	return half(mul(from+to, length.Seconds()))
}

// Scale returns the trace with all values multiplied by a factor of at least 0.
func (t *Trace) Scale(factor float64) (*Trace, error) {
	points := slices.Clone(t.points)
	for i := range points {
		points[i].Value = mul(points[i].Value, factor)
	}
	return NewTrace(points)
}

// Sum returns the sum of at least one trace.
func Sum(traces ...*Trace) (*Trace, error) {
	if len(traces) == 1 {
		return traces[0], nil
	}
	most := 0
	for _, t := range traces {
		most += len(t.points)
	}
	points := make([]Point, 0, min(most, MaxPoints+1))
	passed := make([]int, len(traces)) // points of each trace that lie behind
	for {
		at := never
		for i, t := range traces {
			if passed[i] < len(t.points) {
				at = min(at, t.points[passed[i]].At)
			}
		}
		if at == never {
			return NewTrace(points)
		}
		left, right := 0.0, 0.0
		for i, t := range traces {
			left += t.between(passed[i]-1, at)
			for passed[i] < len(t.points) && t.points[passed[i]].At <= at {
				passed[i]++
			}
			right += t.between(passed[i]-1, at)
		}
		if left != right {
			points = append(points, Point{at, left})
		}
		points = append(points, Point{at, right})
		if len(points) > MaxPoints {
			return nil, fmt.Errorf("the sum of the loads has more than %d points", MaxPoints)
		}
	}
}

// Noise returns the trace with its values multiplied by 1 + variation·z, at least 0, where z
// is drawn again after every interval (mean 0, variance 1) and interpolated linearly.
func (t *Trace) Noise(seed uint64, variation float64, every, duration time.Duration) (*Trace, error) {
	if every < time.Second || duration/every > MaxPoints {
		return nil, fmt.Errorf("noise every %s: must be at least 1s, and give at most %d points", every, MaxPoints)
	}
	last := int64(duration/every) + 1
	points := make([]Point, 0, min(int(last)+1+len(t.points), MaxPoints+1))
	factor := factors{seed: seed, variation: variation, every: every, last: last, first: -1}
	for next, passed := int64(0), 0; next <= last || passed < len(t.points); {
		at := never
		if next <= last {
			at = time.Duration(next) * every
		}
		if passed < len(t.points) {
			at = min(at, t.points[passed].At)
		}
		if next <= last && at == time.Duration(next)*every {
			next++
		}
		for passed < len(t.points) && t.points[passed].At == at {
			passed++
		}
		f := factor.at(at)
		left, right := mul(t.before(at), f), mul(t.At(at), f)
		if left != right {
			points = append(points, Point{at, left})
		}
		if points = append(points, Point{at, right}); len(points) > MaxPoints {
			return nil, fmt.Errorf("with noise every %s the load has more than %d points", every, MaxPoints)
		}
	}
	return NewTrace(points)
}

// factors are the factors of noise, one for each multiple of an interval up to the last, and linear
// between them. Those around the latest instant are kept: all of them would take as much memory as
// the load.
type factors struct {
	seed      uint64
	variation float64
	every     time.Duration
	last      int64
	first     int64 // -1: nothing is kept
	pair      [2]float64
}

func (f *factors) of(i int64) float64 {
	return max(0, 1+mul(f.variation, normal(f.seed, noiseStream, uint64(i))))
}

func (f *factors) at(at time.Duration) float64 {
	i := int64(at / f.every)
	switch {
	case at <= 0:
		return f.of(0)
	case i >= f.last:
		return f.of(f.last)
	case i != f.first:
		f.first, f.pair = i, [2]float64{f.of(i), f.of(i + 1)}
	}
	a, b := f.pair[0], f.pair[1]
	return a + mul(b-a, float64(at-time.Duration(i)*f.every)/float64(f.every))
}
