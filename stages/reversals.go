package stages

import "time"

// Reversals is a budget of turns.
type Reversals struct {
	Count        int
	Period, Hold time.Duration
}

// reversals holds scale-downs of a count that turned too often.
func (r *run) reversals(current, decided int32) (replicas int32, reason string) { return decided, "" }
