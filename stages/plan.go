package stages

import "time"

// Plan is the stages of a spec, read and checked. It is immutable. The zero value has none.
type Plan struct {
	// Freshness is nil without limit.
	Freshness *Freshness
	// Fallbacks and ZeroGuards are by the index of their metric, each at most once.
	Fallbacks  []Fallback
	ZeroGuards []ZeroGuard
	// Combine is nil for the largest proposal.
	Combine *Combine
	// Schedules are as the spec lists them.
	Schedules []Schedule
	// Forecast is nil without one.
	Forecast *Forecast
	// Idle is nil without activation and cooldown: then HPA's scale to zero counts.
	Idle *Idle
	// Reversals is nil without budget.
	Reversals *Reversals
	// IgnoreSurge is Guards.ignore_surge.
	IgnoreSurge bool
	// WindowThroughFailures records the current count where failed metrics hold it.
	WindowThroughFailures bool
	// Metrics are the names of the spec's metrics, by index: "External:queue".
	Metrics []string
}

// Proposal is a count that the caller proposes.
type Proposal struct {
	Name     string
	Replicas int32
	Role     Role
	Expires  time.Time
}

// Role is what a proposal is.
type Role uint8

// The roles.
const (
	Voter Role = iota + 1
	Floor
	Cap
)
