package stages

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Idle is when a workload goes to zero.
type Idle struct {
	// Activation are the values that metrics must exceed, in milli-units, by the index of the metric; a
	// metric without one is not looked at.
	Activation map[int]int64
	// Cooldown is how long a workload at one replica must be inactive, InitialCooldown the same for a new
	// target.
	Cooldown, InitialCooldown time.Duration
}

// idle keeps one replica until the cooldown is over, and at zero lets only activity count.
func (r *run) idle(history *recommender.History) {}
