package stages

import "time"

// Schedule is bounds at certain times.
type Schedule struct {
	Name string
	// Min and Max are the bounds; below 0: none.
	Min, Max int32
	// RampUp is before the start, RampDown after the end.
	RampUp, RampDown time.Duration
	// MinPaced and MaxAtOnce are the paces that are not the usual ones.
	MinPaced, MaxAtOnce bool
	Suspended           bool
}
