package recommender

// Calculation is the arithmetic of a metric and its target.
type Calculation uint8

// The calculations: percent of the request; average over pods; a total; a total per
// observed replica.
const (
	NoCalculation Calculation = iota
	UtilizationCalculation
	AverageValueCalculation
	ValueCalculation
	AverageValuePerReplicaCalculation
)

// ProposalRule is the rule that made a proposal.
type ProposalRule uint8

// The rules. All but Proportional and Saturated propose no change.
const (
	NoProposal ProposalRule = iota
	// Proportional: usage ratio times the base, rounded up.
	Proportional
	// Saturated: the same, beyond the range of a count.
	Saturated
	// WithinTolerance: the ratio is on target.
	WithinTolerance
	// DampenedWithinTolerance: it is once missing and unready pods are filled in.
	DampenedWithinTolerance
	// DampenedReversed: filling in turned the direction.
	DampenedReversed
	// DampenedAgainstCurrent: the count would have gone against the ratio.
	DampenedAgainstCurrent
)

// MetricEvaluation is the computation of one metric, for the decision and its
// explanation.
type MetricEvaluation struct {
	// Ignored reports whether a stage decides as if the spec did not have the metric.
	Ignored     bool
	Spec        *MetricSpec
	Calculation Calculation
	// Failure is nil if there is a proposal.
	Failure *MetricFailure
	// Instead is where the proposal comes from, if that is not the metric; empty: it is.
	Instead string
	// Current is the reading for the status, from the first pass only.
	Current MetricValue
	// TotalUsage and TotalRequests are milli-units.
	TotalUsage, TotalRequests int64
	// UsageRatio is the first pass' ratio, DampenedRatio the second's.
	UsageRatio, DampenedRatio float64
	// Compared reports whether UsageRatio was computed, Dampened whether DampenedRatio
	// was.
	Compared, Dampened bool
	// Base is the factor of the ratio, where Multiplied.
	Base       int32
	Multiplied bool
	Rule       ProposalRule
	// Proposal is the replicas that the metric proposes.
	Proposal int32
	// Counts and Pods are set for metrics of pods; Pods only for explanations.
	Counts   PodCounts
	Pods     []PodEvaluation
	Unlisted int
	// LeftOut is how many pods are omitted from Pods because there are too many.
	LeftOut int
	// Series is how many values were summed.
	Series int
	// Recalled reports whether only the reading, its target and the proposal are known, see
	// History.Retrace: not the totals, but for ValueCalculation, and no pods. Rule is NoProposal
	// where these would be needed, and Unproposed reports that the proposal is unknown, too.
	Recalled, Unproposed bool
}

// MetricFailure is why a metric could not be computed.
type MetricFailure struct {
	// Reason is the condition's, Inner its error, Outer the error of the reconcile.
	Reason, Inner, Outer string
}

// PodEvaluation is how one pod counted.
type PodEvaluation struct {
	Name  string
	Group PodGroup
	Rule  PodRule
	// Usage and Request are in milli-units, where the pod has them.
	Usage, Request, Assumed          int64
	HasUsage, HasRequest, HasAssumed bool
}

// propose sets a proposal proportional to the ratio.
func (e *MetricEvaluation) propose(count float64, base int, multiplied bool) {
	e.Proposal, e.Rule = toInt32(count), Proportional
	if outOfInt32(count) {
		e.Rule = Saturated
	}
	e.Base, e.Multiplied = int32(base), multiplied
}

// hold proposes no change.
func (e *MetricEvaluation) hold(replicas int32, rule ProposalRule) {
	e.Proposal, e.Rule = replicas, rule
}
