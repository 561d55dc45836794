package stages

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Fallback is what counts in place of a metric that fails.
type Fallback struct {
	// Metric is the index of the metric.
	Metric int
	// After is for how long it must have failed.
	After time.Duration
	// Replicas is the proposal; 0: LastGood for that long, or if that is 0, the metric is left out.
	Replicas int32
	LastGood time.Duration
	// UpOnly takes the current count where the proposal is below it.
	UpOnly bool
}

// fallbacks gives failed metrics a proposal, and remembers since when they fail and what they proposed.
func (r *run) fallbacks(c *recommender.Combining) {}
