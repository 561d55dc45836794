package recommender

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/packed"
)

// reconcile follows one of upstream's paths. Upstream: reconcileAutoscaler.
func (d *decider) reconcile() {
	switch d.profile.algorithm {
	case cooldownAlgorithm:
		d.reconcileWithCooldown()
	case designAlgorithm:
		d.reconcileByDesign()
	case controllerAlgorithm:
		d.reconcileByController()
	}
}

func (d *decider) reconcileByController() {
	if d.in.ScaleError != nil {
		d.scaleUnavailable(d.in.ScaleError)
		return
	}
	d.setCondition(AbleToScale, ConditionTrue, SucceededGetScale, "the HPA controller was able to get the target's current scale")
	if !d.next.Initialized {
		d.next.Initialized, d.next.Since = true, d.nowNanos
		d.next.Recommendations = []TimedRecommendation{{d.current, d.nowNanos}}
	}
	spec := &d.in.Spec
	switch {
	case d.followsMetrics():
		d.followMetrics()
	case d.current == 0:
		d.scalingDisabled()
	case d.current > spec.MaxReplicas:
		d.enforceBound(PathAboveMax, spec.MaxReplicas, AboveMaxReplicas)
	default:
		d.enforceBound(PathBelowMin, spec.MinReplicas, BelowMinReplicas)
	}
}

// followsMetrics reports whether the count is not left alone, and within the bounds.
func (d *decider) followsMetrics() bool {
	if d.current == 0 {
		return !d.leftAlone()
	}
	return d.current >= d.in.Spec.MinReplicas && d.current <= d.in.Spec.MaxReplicas
}

// leftAlone reports whether a workload without replicas stays at zero.
func (d *decider) leftAlone() bool {
	switch d.profile.zero {
	case zeroByMinimum:
		return d.ownMin() != 0
	case zeroAlways:
		return true
	}
	return !d.scalesFromZero()
}

// ownMin is the spec's minimum, whatever stages make of it.
func (d *decider) ownMin() int32 {
	if d.in.OwnMin != nil {
		return *d.in.OwnMin
	}
	return d.in.Spec.MinReplicas
}

// scalesFromZero reports whether the autoscaler itself scaled to zero, and so may scale up
// again.
func (d *decider) scalesFromZero() bool {
	return d.scaledToZero() && (d.in.Spec.MinReplicas != 0 || d.hasTotalMetric())
}

func (d *decider) scaledToZero() bool {
	c := conditionByType(d.next.Status.Conditions, ScaledToZero)
	return d.in.Options.ScaleToZero && d.profile.zero == zeroByCondition && c != nil && c.Status == ConditionTrue
}

// hasTotalMetric reports whether a metric can be read without pods.
func (d *decider) hasTotalMetric() bool {
	for i := range d.in.Spec.Metrics {
		if t := d.in.Spec.Metrics[i].Type; t == ObjectMetric || t == ExternalMetric {
			return true
		}
	}
	return false
}

// Beginnings of the errors of a scale that could not be read, in upstream's words.
const (
	invalidAPIVersion = "invalid API version in scale target reference: "
	unknownKind       = "unable to determine resource for scale target reference: "
	noScale           = "failed to query scale subresource for "
)

func (d *decider) scaleUnavailable(e *ScaleError) {
	d.decision.Path = PathScaleUnavailable
	d.setCondition(AbleToScale, ConditionFalse, FailedGetScale, "the HPA controller was unable to get the target's current scale: "+e.Message)
	d.event(FailedGetScale, e.Message)
	switch e.Reason {
	case ScaleInvalidAPIVersion:
		d.decision.Error = invalidAPIVersion + e.Message
	case ScaleUnknownKind:
		d.decision.Error = unknownKind + e.Message
	default:
		d.decision.Error = noScale + d.ref() + ": " + e.Message
	}
	d.current = d.next.Status.CurrentReplicas
	d.decision.Current, d.decision.Desired = d.current, d.current
}

func (d *decider) scalingDisabled() {
	d.decision.Path = PathScalingDisabled
	d.setCondition(ScalingActive, ConditionFalse, ScalingDisabled, "scaling is disabled since the replica count of the target is zero")
	if !d.in.Options.ScaleToZero && d.profile.zero == zeroByCondition {
		d.next.Status.Conditions = removeCondition(d.next.Status.Conditions, ScaledToZero)
	}
	d.setStatus(d.current, nil)
}

// Reasons of changes to a bound, in upstream's words.
const (
	AboveMaxReplicas = "Current number of replicas above Spec.MaxReplicas"
	BelowMinReplicas = "Current number of replicas below Spec.MinReplicas"
	notAboveZero     = "Current number of replicas must be greater than 0"
)

// enforceBound moves to a bound at once, without stabilization, policies or metrics.
func (d *decider) enforceBound(path Path, bound int32, reason string) {
	d.decision.Path = path
	d.trace.Bounds = newBounds(&d.in.Spec, d.current)
	d.trace.Bounds.Bounded, d.trace.Bounds.Reason = bound, TooManyReplicas
	if path == PathBelowMin {
		d.trace.Bounds.Reason = TooFewReplicas
	}
	d.rescale(bound, reason, nil)
}

// followMetrics lets the metrics decide, as in most evaluations.
func (d *decider) followMetrics() {
	metrics, statuses, s, ok := d.readMetrics()
	if !ok {
		return
	}
	d.decision.Error = s.problem
	name := s.name
	if name == "" {
		name = d.winnerName(metrics, s.winner)
	}
	d.setCondition(ScalingActive, ConditionTrue, ValidMetricFound, d.validMetricMessage(name))
	proposal := d.decideFor(&s)
	reason := rescaleReason(name, proposal, d.current)
	switch {
	case proposal == d.current:
	case s.limited:
		reason = name + " limits the proposal"
	case s.name != "" && proposal < d.current: // not all metrics need be
		reason = name + " below target"
	case s.winner >= 0 && metrics[s.winner].Instead != "" && proposal > d.current:
		reason = name + " proposes more"
	}
	desired, reason := d.raisedFromZero(d.normalize(proposal), reason)
	if desired == d.current {
		d.setStatus(desired, statuses)
		return
	}
	d.rescale(desired, reason, statuses)
}

// raisedFromZero lets a workload that is not left alone at zero return to a minimum that was raised since.
func (d *decider) raisedFromZero(desired int32, reason string) (int32, string) {
	least := d.in.Spec.MinReplicas
	if d.current != 0 || desired >= least {
		return desired, reason
	}
	return least, cmp.Or(reason, BelowMinReplicas)
}

// readMetrics evaluates the metrics of the spec and combines them. If they give no proposal
// the evaluation ends, and ok is false.
func (d *decider) readMetrics() (metrics []MetricEvaluation, statuses []MetricStatus, s selection, ok bool) {
	if p := d.in.SelectorProblem; p != nil && (p.Reason != AmbiguousSelector || !d.profile.sharedPods) {
		d.selectorFailed(p)
		return nil, nil, s, false
	}
	metrics = d.evaluateAll()
	statuses = d.status.Metrics[:]
	if len(metrics) != len(statuses) {
		statuses = make([]MetricStatus, len(metrics))
	}
	for i := range metrics {
		if f := metrics[i].Failure; f != nil {
			d.event(f.Reason, f.Inner)
			if d.profile.partialFailure == lastFailureBlocksDown {
				// That version sets the condition for each failure, so that its
				// transition is new.
				d.setCondition(ScalingActive, ConditionFalse, f.Reason, failureMessage(f))
			}
			continue
		}
		statuses[i] = metrics[i].status(d.profile)
	}
	if d.in.Seam == nil {
		s = selectProposal(metrics, d.current, d.profile)
	} else {
		metrics, s = d.combine(metrics)
	}
	if s.failed != nil {
		d.metricsFailed(&s, statuses)
		return nil, nil, s, false
	}
	return metrics, statuses, s, true
}

func (d *decider) winnerName(metrics []MetricEvaluation, winner int) string {
	if winner < 0 {
		return ""
	}
	if instead := metrics[winner].Instead; instead != "" {
		return instead
	}
	return metrics[winner].Spec.name(&d.profile.texts)
}

// decideFor records the metrics' proposal and returns it.
func (d *decider) decideFor(s *selection) int32 {
	proposal := max(0, s.replicas)
	d.trace.Decided, d.trace.Proposal, d.trace.Winner = true, proposal, s.winner
	return proposal
}

func rescaleReason(metric string, proposal, current int32) string {
	switch {
	case proposal > current:
		return metric + " above target"
	case proposal < current:
		return "All metrics below target"
	}
	return ""
}

// validMetricMessage is the sentence of ValidMetricFound. Usually the condition already
// has it; that string is reused.
func (d *decider) validMetricMessage(name string) string {
	const prefix = "the HPA was able to successfully calculate a replica count from "
	if c := conditionByType(d.next.Status.Conditions, ScalingActive); c != nil &&
		len(c.Message) == len(prefix)+len(name) && strings.HasPrefix(c.Message, prefix) && strings.HasSuffix(c.Message, name) {
		return c.Message
	}
	return prefix + name
}

func (d *decider) evaluateAll() []MetricEvaluation {
	metrics := d.scratch.metrics[:0]
	for i := range d.in.Spec.Metrics {
		metrics = append(metrics, d.evaluate(i))
		if d.in.Explain {
			d.warnOf(i, &metrics[i])
		}
		if metrics[i].Failure != nil && d.profile.partialFailure == failureAborts {
			break
		}
	}
	d.scratch.metrics = metrics
	if d.in.Explain {
		d.trace.Metrics = append([]MetricEvaluation(nil), metrics...)
	}
	return metrics
}

// status returns the reading in the form of the status.
func (e *MetricEvaluation) status(profile *Profile) MetricStatus {
	s := MetricStatus{
		Type: e.Spec.Type, Resource: e.Spec.Resource, Container: e.Spec.Container,
		Metric: e.Spec.Metric, DescribedObject: e.Spec.DescribedObject, Current: e.Current,
	}
	if profile.bareObjectAverages && e.Current.HasAverageValue {
		s.DescribedObject = ObjectReference{}
	}
	if profile.storedAsV1 && (s.Type == ObjectMetric || s.Type == ExternalMetric) {
		s.Current.HasValue = true
	}
	return s
}

func (d *decider) selectorFailed(p *SelectorProblem) {
	d.decision.Path = PathSelectorFailed
	text := p.Message
	switch p.Reason {
	case SelectorRequired:
		text = "selector is required"
		d.setCondition(ScalingActive, ConditionFalse, string(InvalidSelector), "the HPA target's scale is missing a selector")
	case InvalidSelector:
		text = "couldn't convert selector into a corresponding internal selector object: " + p.Message
		d.setCondition(ScalingActive, ConditionFalse, string(p.Reason), d.asFormat(text))
	default:
		if text == "" {
			text = p.ambiguity(&d.profile.texts)
		}
		d.setCondition(ScalingActive, ConditionFalse, string(p.Reason), d.asFormat(text))
	}
	d.event(string(p.Reason), text)
	d.holdCount(d.asFormat(text), nil)
}

// ambiguity is upstream's message for pods that several autoscalers select.
func (p *SelectorProblem) ambiguity(texts *texts) string {
	if texts.oneOtherAutoscaler {
		return fmt.Sprintf("pods by selector %s are controlled by more than one HPA (e.g. %v)", p.Selector, p.Autoscalers[:min(2, len(p.Autoscalers))])
	}
	return fmt.Sprintf("pods by selector %s are controlled by multiple HPAs: %v", p.Selector, p.Autoscalers)
}

// asFormat returns a text as printed when used as a format without arguments.
func (d *decider) asFormat(text string) string {
	if !d.profile.messagesAreFormats || !strings.Contains(text, "%") {
		return text
	}
	return fmt.Sprintf(text, []any(nil)...)
}

func (d *decider) metricsFailed(s *selection, statuses []MetricStatus) {
	d.decision.Path = PathMetricsFailed
	message := failureMessage(s.failed)
	if d.profile.partialFailure == failureBlocksDown || d.profile.partialFailure == failureIgnored {
		message = d.asFormat(message) // the older ones print it as an argument
	}
	d.setCondition(ScalingActive, ConditionFalse, s.failed.Reason, message)
	d.recordFailed()
	d.holdCount(s.problem, statuses)
}

// noCount begins the message of ScalingActive where no count could be computed.
const noCount = "the HPA was unable to compute the replica count: "

func failureMessage(f *MetricFailure) string { return noCount + f.Inner }

// holdCount ends an evaluation that computed no count: the status keeps its desired
// replicas.
func (d *decider) holdCount(problem string, statuses []MetricStatus) {
	d.event(FailedComputeMetricsReplicas, problem)
	d.decision.Error = "failed to compute desired number of replicas based on listed metrics for " + d.ref() + ": " + problem
	if d.profile.keepsMetrics {
		statuses = d.next.Status.CurrentMetrics
	}
	d.setStatus(d.previousDesired, statuses)
	if least, reason := d.raisedFromZero(d.current, ""); d.in.OwnMin != nil && least != d.current {
		d.rescale(least, reason, statuses)
	}
}

// normalize applies stabilization, rate limits and bounds to a proposal, and records it. Upstream:
// normalizeDesiredReplicas and its twin with behaviors.
func (d *decider) normalize(proposal int32) int32 {
	t := &d.trace
	t.Stabilization, t.RateLimit, t.Bounds = d.limit(proposal)
	if d.behavior == nil {
		d.warnOfGrowth()
	}
	d.noteHistoryLimit()
	d.record(TimedRecommendation{proposal, d.nowNanos})
	d.setCondition(AbleToScale, ConditionTrue, t.Stabilization.Reason, t.Stabilization.Message)
	d.reportBounds()
	return t.Bounds.Bounded
}

// limit returns what stabilization, rate limits and bounds make of a proposal.
func (d *decider) limit(proposal int32) (s Stabilization, rate RateLimit, bounds Bounds) {
	switch {
	case d.behavior == nil:
		s = stabilizeWithoutBehavior(d.nowNanos, &d.next, d.in.Options.DownscaleStabilization, proposal)
		rate, bounds = boundWithoutBehavior(&d.in.Spec, d.current, s.Stabilized, d.profile)
	case d.profile.oneSidedWindows:
		up, down := d.windows()
		s = stabilizeOneSided(d.nowNanos, &d.next, up, down, d.current, proposal)
		rate, bounds = d.boundWithBehavior(s.Stabilized)
	default:
		up, down := d.windows()
		s = stabilizeWithBehavior(d.nowNanos, &d.next, up, down, d.current, proposal)
		rate, bounds = d.boundWithBehavior(s.Stabilized)
	}
	return s, rate, bounds
}

// record adds a recommendation, in the slot that stabilization found.
func (d *decider) record(r TimedRecommendation) {
	s := &d.trace.Stabilization
	if p := d.next.Packed; p != nil {
		d.next.Packed = p.With(s.slot, packed.Slot(r))
		return
	}
	if !d.next.RecommendationsLimited {
		d.next.Recommendations = recordRecommendation(d.memory, d.next.Recommendations, s.slot, r)
		return
	}
	// Upstream would have reused the slots of some that are in no window now.
	d.next.LastingUntil = max(d.next.LastingUntil, s.obsolete-1)
	d.next.Recommendations = recordBeyondLimit(d.next.Recommendations, d.nowNanos-int64(d.longestWindow()), r)
}

// noteHistoryLimit records where the history's limit may have affected the decision:
// where a record that keeps the count may count for longer than upstream's.
func (d *decider) noteHistoryLimit() {
	s, b := &d.trace.Stabilization, &d.trace.Bounds
	if d.next.RecommendationsLimited && s.Stabilized != s.Proposed {
		for _, w := range s.Windows[:s.WindowsLen] {
			if w.Held && w.HeldSince <= d.next.LastingUntil {
				d.decision.HistoryLimited = true
				d.warnOfHistoryLimit("recommendations", "the recommendation of "+formatReplicas(w.Replicas)+" replicas")
			}
		}
	}
	if d.changesLast && (b.Reason == ScaleUpLimit || b.Reason == ScaleDownLimit) {
		d.decision.HistoryLimited = true
		d.warnOfHistoryLimit("scale events", "a change that a policy counts")
	}
}

// reportBounds sets ScalingLimited.
func (d *decider) reportBounds() {
	b := &d.trace.Bounds
	limited := ConditionFalse
	if b.Bounded != b.Wanted {
		limited = ConditionTrue
	}
	message := b.Reason.Message()
	if d.profile.floorOfOne && b.Reason == TooFewReplicas {
		// A bug of that version: it loses the sentence.
		_, ceiling := ceilingWithoutBehavior(&d.in.Spec, d.current)
		message = ceiling.Message()
	}
	d.setCondition(ScalingLimited, limited, string(b.Reason), message)
}

// windows returns the stabilization windows of a spec with behavior. The
// controller's own window counts in whole seconds there.
func (d *decider) windows() (up, down time.Duration) {
	b := d.behavior
	if s := b.ScaleUp.StabilizationWindowSeconds; s != nil {
		up = time.Duration(*s) * time.Second
	}
	down = d.in.Options.DownscaleStabilization.Truncate(time.Second)
	if s := b.ScaleDown.StabilizationWindowSeconds; s != nil {
		down = time.Duration(*s) * time.Second
	}
	return up, down
}

// rescale changes the count, unless the change is withheld; it is pending until it
// is settled.
func (d *decider) rescale(desired int32, reason string, statuses []MetricStatus) {
	if d.withholds(desired) {
		d.withhold(desired, reason, statuses)
		return
	}
	d.decision.Desired, d.decision.Reason = desired, reason
	d.next.Pending = &Pending{
		ID: d.in.ID, At: d.nowNanos, From: d.current, To: desired,
		PreviousDesired: d.previousDesired,
		Zero:            d.zeroTransition(desired),
		Reason:          reason, Error: d.decision.Error,
	}
	d.next.Pending.Bare = d.profile.algorithm == designAlgorithm
	if d.profile.keepsMetrics {
		d.next.Pending.KeepsMetrics, d.next.Pending.PreviousMetrics = true, d.next.Status.CurrentMetrics
	}
	if b := d.behavior; b != nil {
		rules := &b.ScaleDown
		if desired > d.current {
			rules = &b.ScaleUp
		}
		d.next.Pending.RecordsEvent, d.next.Pending.LongestPeriod = true, longestPeriod(rules)
	}
	d.setStatus(desired, statuses)
}

func longestPeriod(rules *ScalingRules) int32 {
	var longest int32
	for i := range rules.Policies {
		longest = max(longest, rules.Policies[i].PeriodSeconds)
	}
	return longest
}

func (d *decider) zeroTransition(desired int32) ZeroTransition {
	switch {
	case d.profile.zero != zeroByCondition:
		return ZeroUnknown
	case !d.in.Options.ScaleToZero:
		return ZeroRemoved
	case d.current > 0 && desired == 0 && d.ownMin() == 0 && d.hasTotalMetric():
		return ZeroTrue
	}
	return ZeroFalse
}

// setStatus rebuilds the status as upstream does, which sets the observed generation or
// drops it.
func (d *decider) setStatus(desired int32, metrics []MetricStatus) {
	s := &d.next.Status
	switch {
	case !d.profile.observesGeneration || !d.in.HasGeneration:
		s.ObservedGeneration = nil
	case s.ObservedGeneration == nil || *s.ObservedGeneration != d.in.Generation:
		generation := d.in.Generation // the previous history must not change
		s.ObservedGeneration = &generation
	}
	s.CurrentReplicas, s.DesiredReplicas, s.CurrentMetrics = d.current, desired, metrics
}
