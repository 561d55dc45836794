package stages

import "time"

// Freshness is the limit of samples' ages.
type Freshness struct {
	// MaxAge is the greatest age, inclusive, and FutureTolerance how far ahead a sample may be.
	MaxAge, FutureTolerance time.Duration
}

// freshness removes what is too old from the input.
func (r *run) freshness() {}
