package stages

import "time"

// ZeroGuard does not believe a fall of a metric at once.
type ZeroGuard struct {
	// Metric is the index of the metric.
	Metric int
	// DropPercent is by how much at least it falls, inclusive; Confirm how long that must last.
	DropPercent int32
	Confirm     time.Duration
}

// zeroGuards makes metrics fail whose fall is not believed yet.
func (r *run) zeroGuards() {}
