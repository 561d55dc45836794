package recommender

import (
	"slices"
	"time"
)

// Path is the branch of the controller that a decision took.
type Path uint8

// The paths.
const (
	// PathMetrics: the metrics determined the count.
	PathMetrics Path = iota
	// PathMetricsFailed: the metrics failed, or one failed while the others would have
	// scaled down; the count is kept.
	PathMetricsFailed
	// PathSelectorFailed: the pods could not be selected; the count is kept.
	PathSelectorFailed
	// PathScaleUnavailable: the scale could not be read; the current count is unknown.
	PathScaleUnavailable
	// PathScalingDisabled: a user scaled to zero.
	PathScalingDisabled
	// PathAboveMax and PathBelowMin: the bounds are enforced at once.
	PathAboveMax
	PathBelowMin
)

// pathNames are the API's words for the paths.
var pathNames = [...]string{
	PathMetrics:          "Metrics",
	PathMetricsFailed:    "MetricsFailed",
	PathSelectorFailed:   "SelectorFailed",
	PathScaleUnavailable: "ScaleUnavailable",
	PathScalingDisabled:  "ScalingDisabled",
	PathAboveMax:         "AboveMax",
	PathBelowMin:         "BelowMin",
}

// String returns the API's word for the path.
func (p Path) String() string { return pathNames[p] }

// PathNames returns the words for all paths, in order.
func PathNames() []string { return slices.Clone(pathNames[:]) }

// Decision is the result of one evaluation.
type Decision struct {
	// ID is the input's, and names the change in Settle.
	ID ID
	// At is the instant of the decision: the requested one, or the newest record's if
	// that is later.
	At   time.Time
	Path Path
	// Current is the replicas before the decision, Desired those after it. They are equal
	// where no count could be computed.
	Current, Desired int32
	// Reason is why the count changes, in upstream's words; it may be empty although
	// the count changes.
	Reason string
	// Error is the error that upstream's reconcile would return; empty for none. It may be
	// set although the count changes.
	Error string
	// Status is the status after the decision; a change in it is still pending.
	Status Status
	// Events in upstream's order, without that of a change, which Settle returns.
	Events []Event
	// SettledBefore is the outcome of a change that was still pending.
	SettledBefore Settled
	// HistoryLimited reports whether the limit of the history may have kept a count that
	// upstream would have changed.
	HistoryLimited bool
	// Basis is what limited the decision, in numbers.
	Basis Basis
	// Adjusted is what stages made of the decision; nil: there are none.
	Adjusted *Adjusted
	// Explanation is nil unless the input asked for it.
	Explanation *Explanation
}

// Changes reports whether the decision changes the count.
func (d *Decision) Changes() bool { return d.Desired != d.Current }

// Explanation is the trace of a decision: the results of its steps.
type Explanation struct {
	Profile string
	// Metrics are in the spec's order; empty on paths that read none.
	Metrics    []MetricEvaluation
	Tolerances Tolerances
	// Proposal is the largest proposal, at least 0, of the metric at Winner (-1: none);
	// Decided reports whether it counted.
	Decided  bool
	Proposal int32
	Winner   int
	// Stabilization, RateLimit and Bounds are set where Decided, Bounds also
	// where bounds are enforced at once.
	Stabilization Stabilization
	RateLimit     RateLimit
	Bounds        Bounds
	// Withheld is the scale-down that HoldDown withheld; nil: none. The steps above are
	// as without HoldDown.
	Withheld *Withheld
	// History summarizes the history before this decision.
	History HistorySummary
	// Warnings are sentences.
	Warnings []string
}

// HistorySummary summarizes a history.
type HistorySummary struct {
	Recommendations, ScaleUps, ScaleDowns int
	// Oldest is the oldest recommendation, and Since the first one ever, in nanoseconds
	// since the Unix epoch; 0: there is none.
	Oldest, Since int64
	// Younger reports whether the first recommendation was made within the longest
	// window that applies.
	Younger bool
}
