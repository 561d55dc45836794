package stages

import "github.com/setpoint-dev/setpoint/recommender"

// Method is how proposals become one.
type Method uint8

// The methods.
const (
	Max Method = iota
	Min
	Quorum
	Weighted
	Sum
)

// Combine is how the metrics' proposals become one.
type Combine struct {
	Method Method
	// Quorum is how many metrics must want as much.
	Quorum int
	// Weights are by metric, in a common unit, at least 0 and not all 0.
	Weights []int64
}

// combine makes one proposal of all, within the caps.
func (r *run) combine(c *recommender.Combining) {}
