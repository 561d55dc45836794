package recommender

import "time"

// Path is the way a decision took through the controller.
type Path uint8

// The paths.
const (
	// PathMetrics: metrics decided.
	PathMetrics Path = iota
	// PathMetricsFailed: they could not, or would have scaled down without one
	// that failed; the count is held.
	PathMetricsFailed
	// PathSelectorFailed: the pods could not be chosen; the count is held.
	PathSelectorFailed
	// PathScaleUnavailable: the scale could not be read; nothing is known.
	PathScaleUnavailable
	// PathScalingDisabled: someone scaled to zero.
	PathScalingDisabled
	// PathAboveMax and PathBelowMin: the bounds are enforced at once.
	PathAboveMax
	PathBelowMin
)

// PathNames are the API's words for the paths.
var PathNames = [...]string{
	PathMetrics:          "Metrics",
	PathMetricsFailed:    "MetricsFailed",
	PathSelectorFailed:   "SelectorFailed",
	PathScaleUnavailable: "ScaleUnavailable",
	PathScalingDisabled:  "ScalingDisabled",
	PathAboveMax:         "AboveMax",
	PathBelowMin:         "BelowMin",
}

// String returns the API's word for the path.
func (p Path) String() string { return PathNames[p] }

// Decision is the answer to one evaluation.
type Decision struct {
	// ID is the input's, and names the change in Settle.
	ID ID
	// RequestID is the request's, for the answer to say. Nothing is decided by it.
	RequestID string
	// At is the instant decided for: the one asked for, or the newest record's if
	// that is later.
	At   time.Time
	Path Path
	// Current are the replicas before, Desired those to have now. Where no count
	// could be computed they are the same.
	Current, Desired int32
	// Reason is why the count changes, in upstream's words; it may be empty
	// although it changes.
	Reason string
	// Error is what upstream's reconcile would return; empty for none. It may be
	// there although the count changes.
	Error string
	// Status is the status after the decision; a change in it is still pending.
	Status Status
	// Events in upstream's order, without that of a change, which Settle returns.
	Events []Event
	// SettledBefore is what became of a change that was still pending.
	SettledBefore Settled
	// HistoryLimited says that the limit of the history may have held the count where
	// upstream would have changed it.
	HistoryLimited bool
	// Explanation is nil unless it was asked for.
	Explanation *Explanation
}

// Changes reports whether the decision changes the count.
func (d *Decision) Changes() bool { return d.Desired != d.Current }

// Explanation is the trace of a decision: what its steps returned.
type Explanation struct {
	Profile string
	// Metrics are in the spec's order; empty on paths that read none.
	Metrics    []MetricEvaluation
	Tolerances Tolerances
	// Proposal is the largest proposal, at least 0, of the metric at Winner (-1:
	// none); Decided says that it counted.
	Decided  bool
	Proposal int32
	Winner   int
	// Stabilization, RateLimit and Bounds are set where Decided, Bounds also
	// where bounds are enforced at once.
	Stabilization Stabilization
	RateLimit     RateLimit
	Bounds        Bounds
	// Withheld is the scale-down that HoldDown kept from being asked for, nil:
	// none. The steps above are as without it.
	Withheld *Withheld
	// History is what was known before this decision.
	History HistorySummary
	// Warnings are sentences.
	Warnings []string
}

// HistorySummary is what a history held, in numbers.
type HistorySummary struct {
	Recommendations, ScaleUps, ScaleDowns int
	// Oldest recommendation, and when the first one was made, nanoseconds since the
	// Unix epoch; 0: there is none.
	Oldest, Since int64
	// Younger says that the first was made within the longest window that applies.
	Younger bool
}
