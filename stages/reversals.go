package stages

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Reversals is a budget of turns.
type Reversals struct {
	// Count is how many turns in Period are within the budget, 1 to 15, and Hold how long scale-downs are
	// held from the turn that exceeds it.
	Count        int
	Period, Hold time.Duration
}

// reversals holds scale-downs of a count that turned too often. A count above the maximum is not held:
// somebody lowered that on purpose.
func (r *run) reversals(current, decided int32) (replicas int32) {
	b := r.plan.Reversals
	if b == nil || decided >= current || current > r.in.Spec.MaxReplicas {
		return decided
	}
	turns, until := b.exceeded(r.Turns)
	if turns == 0 || !r.now.Before(until) {
		return decided
	}
	r.tell(recommender.Adjustment{
		Stage: recommender.StageReversals, Rule: "budget", Before: decided, After: current, Until: until,
		Message: fmt.Sprintf("%d reversals in %s, more than %d: no scale-down until %s, %d replicas stay; the recommendation would be %d",
			turns, b.Period, b.Count, until.UTC().Format(time.RFC3339), current, decided),
	})
	return current
}

// exceeded returns how many turns there were within the period before the last one that exceeded the
// budget, 0 for none, and until when scale-downs are held after it.
func (b *Reversals) exceeded(turns []int64) (count int, until time.Time) {
	for last := range turns {
		for count = 1; last+count < len(turns) && turns[last]-turns[last+count] < b.Period.Milliseconds(); count++ {
		}
		if count > b.Count {
			return count, time.UnixMilli(turns[last]).Add(b.Hold)
		}
	}
	return 0, time.Time{}
}
