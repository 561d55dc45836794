package simulation

import (
	"fmt"
	"math"
	"time"
)

// never is an instant that never comes.
const never = time.Duration(1<<63 - 1)

// Span is the time for which a load is generated. Instants are real ones with a zone, so
// that a day is a calendar day, even one of 23 hours.
type Span struct {
	Start    time.Time
	Duration time.Duration
}

// Constant is a constant load.
func Constant(value float64) (*Trace, error) { return NewTrace([]Point{{0, value}}) }

// Jump switches from one load to another at an instant.
func Jump(from, to float64, at time.Duration) (*Trace, error) {
	return NewTrace([]Point{{at, from}, {at, to}})
}

// Ramp changes linearly from one load to another in that time.
func Ramp(from, to float64, at, length time.Duration) (*Trace, error) {
	return NewTrace([]Point{{at, from}, {at + length, to}})
}

// Spike is a load for a while, and none before and after.
func Spike(height float64, at, length time.Duration) (*Trace, error) {
	if length <= 0 {
		return nil, fmt.Errorf("a spike of %s: must be longer", length)
	}
	return NewTrace([]Point{{at, 0}, {at, height}, {at + length, height}, {at + length, 0}})
}

// FlashCrowd rises linearly to a height, then is halved ten times, and ends.
func FlashCrowd(height float64, at, rise, halfLife time.Duration) (*Trace, error) {
	if rise <= 0 || halfLife < 10*time.Second {
		return nil, fmt.Errorf("a crowd that rises in %s and halves in %s: must rise in more than 0s and halve in at least 10s", rise, halfLife)
	}
	points := []Point{{at, 0}, {at + rise, height}}
	const parts = 8 // per half-life
	for i := 1; i <= 10*parts; i++ {
		part := exp(mul(-half(half(half(float64(i)))), math.Ln2))
		points = append(points, Point{at + rise + time.Duration(i)*halfLife/parts, mul(height, part)})
	}
	last := points[len(points)-1].At
	return NewTrace(append(points, Point{last, 0}))
}

// Sawtooth rises from low to high in each period, and falls at once.
func Sawtooth(low, high float64, period time.Duration, span Span) (*Trace, error) {
	return periodic(period, span, func(at time.Duration) []Point {
		return []Point{{at, low}, {at + period, high}}
	})
}

// OnOff alternates between high and low.
func OnOff(low, high float64, on, off time.Duration, span Span) (*Trace, error) {
	if on <= 0 || off <= 0 {
		return nil, fmt.Errorf("on for %s and off for %s: must be longer", on, off)
	}
	return periodic(on+off, span, func(at time.Duration) []Point {
		return []Point{{at, high}, {at + on, high}, {at + on, low}, {at + on + off, low}}
	})
}

func periodic(period time.Duration, span Span, points func(at time.Duration) []Point) (*Trace, error) {
	if period < time.Second || 4*(span.Duration/period+1) > MaxPoints {
		return nil, fmt.Errorf("a period of %s: must be at least 1s, and give at most %d points", period, MaxPoints)
	}
	all := make([]Point, 0, 4*(span.Duration/period+1))
	for at := time.Duration(0); at <= span.Duration; at += period {
		all = append(all, points(at)...)
	}
	return NewTrace(all)
}

// dailyGrid is the distance of the points of a daily load.
const dailyGrid = 5 * time.Minute

// Daily is a cosine between low and high over the hours of the day in the start's zone,
// highest at the given time of day; weekend, 0 to 1, scales the rise on Saturdays and
// Sundays. When clocks change the load jumps with them.
func Daily(low, high float64, peak time.Duration, weekend float64, span Span) (*Trace, error) {
	if span.Duration/dailyGrid > MaxPoints/2 {
		return nil, fmt.Errorf("a daily load over %s has more than %d points", span.Duration, MaxPoints)
	}
	value := func(at time.Duration) float64 {
		now := span.Start.Add(at)
		clock := time.Duration(now.Hour())*time.Hour + time.Duration(now.Minute())*time.Minute +
			time.Duration(now.Second())*time.Second + time.Duration(now.Nanosecond())
		turns := float64(clock-peak) / float64(24*time.Hour)
		height := high - low
		if day := now.Weekday(); day == time.Saturday || day == time.Sunday {
			height = mul(height, weekend)
		}
		return low + mul(height, half(1+cosine(turns)))
	}
	var points []Point
	for at := time.Duration(0); at <= span.Duration; at += dailyGrid {
		points = append(points, Point{at, value(at)})
	}
	return NewTrace(points)
}
