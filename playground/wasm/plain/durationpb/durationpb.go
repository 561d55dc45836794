// Package durationpb stands in for the package of that name where messages are plain
// structs: with its functions that are used, and nothing of protobuf.
package durationpb

import (
	"errors"
	"math"
	"time"
)

// Duration is google.protobuf.Duration: seconds and nanoseconds, of the same sign.
type Duration struct {
	Seconds int64
	Nanos   int32
}

// most is how many seconds there may be: 10,000 years.
const most = 315576000000

// New returns the duration.
func New(d time.Duration) *Duration {
	return &Duration{Seconds: int64(d / time.Second), Nanos: int32(d % time.Second)}
}

// GetSeconds returns the seconds, 0 of nil.
func (x *Duration) GetSeconds() int64 {
	if x == nil {
		return 0
	}
	return x.Seconds
}

// GetNanos returns the nanoseconds, 0 of nil.
func (x *Duration) GetNanos() int32 {
	if x == nil {
		return 0
	}
	return x.Nanos
}

// AsDuration returns the duration, the nearest one where it does not fit; 0 of nil.
func (x *Duration) AsDuration() time.Duration {
	seconds, nanos := x.GetSeconds(), x.GetNanos()
	if whole := float64(seconds) * 1e9; whole >= math.MaxInt64 {
		return math.MaxInt64
	} else if whole <= math.MinInt64 {
		return math.MinInt64
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos)
}

// IsValid reports whether the duration is one.
func (x *Duration) IsValid() bool { return x.CheckValid() == nil }

// CheckValid returns an error if the duration is none.
func (x *Duration) CheckValid() error {
	switch {
	case x == nil, x.Seconds < -most, x.Seconds > most, x.Nanos <= -1e9, x.Nanos >= 1e9,
		x.Seconds > 0 && x.Nanos < 0, x.Seconds < 0 && x.Nanos > 0:
		return errors.New("invalid duration")
	}
	return nil
}
