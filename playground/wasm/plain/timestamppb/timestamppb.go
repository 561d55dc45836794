// Package timestamppb stands in for the package of that name where messages are plain
// structs: with its functions that are used, and nothing of protobuf.
package timestamppb

import (
	"errors"
	"time"
)

// Timestamp is google.protobuf.Timestamp: seconds since the Unix epoch, and nanoseconds.
type Timestamp struct {
	Seconds int64
	Nanos   int32
}

// The years 1 to 9999, in seconds since the Unix epoch.
const (
	least = -62135596800
	most  = +253402300799
)

// New returns the timestamp of an instant.
func New(t time.Time) *Timestamp {
	return &Timestamp{Seconds: t.Unix(), Nanos: int32(t.Nanosecond())}
}

// GetSeconds returns the seconds, 0 of nil.
func (x *Timestamp) GetSeconds() int64 {
	if x == nil {
		return 0
	}
	return x.Seconds
}

// GetNanos returns the nanoseconds, 0 of nil.
func (x *Timestamp) GetNanos() int32 {
	if x == nil {
		return 0
	}
	return x.Nanos
}

// AsTime returns the instant in UTC, the epoch of nil.
func (x *Timestamp) AsTime() time.Time {
	return time.Unix(x.GetSeconds(), int64(x.GetNanos())).UTC()
}

// IsValid reports whether the timestamp is one.
func (x *Timestamp) IsValid() bool { return x.CheckValid() == nil }

// CheckValid returns an error if the timestamp is none.
func (x *Timestamp) CheckValid() error {
	if x == nil || x.Seconds < least || x.Seconds > most || x.Nanos < 0 || x.Nanos >= 1e9 {
		return errors.New("invalid timestamp")
	}
	return nil
}
