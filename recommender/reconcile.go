package recommender

import (
	"strings"
	"time"
)

// reconcile takes one of upstream's ways. Upstream: reconcileAutoscaler.
func (d *decider) reconcile() {
	if d.in.ScaleError != nil {
		d.scaleUnavailable(d.in.ScaleError)
		return
	}
	d.setCondition(AbleToScale, ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	if !d.next.Initialized {
		d.next.Initialized, d.next.Since = true, d.nowNanos
		d.next.Recommendations = []TimedRecommendation{{d.current, d.nowNanos}}
	}
	spec := &d.in.Spec
	switch {
	case d.current == 0 && !d.scalesFromZero():
		d.scalingDisabled()
	case d.current == 0:
		d.followMetrics()
	case d.current > spec.MaxReplicas:
		d.enforceBound(PathAboveMax, spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas")
	case d.current < spec.MinReplicas:
		d.enforceBound(PathBelowMin, spec.MinReplicas, "Current number of replicas below Spec.MinReplicas")
	default:
		d.followMetrics()
	}
}

// scalesFromZero reports whether it was the autoscaler that scaled to zero, and
// may scale up again.
func (d *decider) scalesFromZero() bool {
	return d.scaledToZero() && (d.in.Spec.MinReplicas != 0 || d.hasTotalMetric())
}

func (d *decider) scaledToZero() bool {
	c := conditionByType(d.next.Status.Conditions, ScaledToZero)
	return d.in.Options.ScaleToZero && c != nil && c.Status == ConditionTrue
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

func (d *decider) scaleUnavailable(e *ScaleError) {
	d.decision.Path = PathScaleUnavailable
	d.setCondition(AbleToScale, ConditionFalse, "FailedGetScale", "the HPA controller was unable to get the target's current scale: "+e.Message)
	d.event("FailedGetScale", e.Message)
	switch e.Reason {
	case ScaleInvalidAPIVersion:
		d.decision.Error = "invalid API version in scale target reference: " + e.Message
	case ScaleUnknownKind:
		d.decision.Error = "unable to determine resource for scale target reference: " + e.Message
	default:
		d.decision.Error = "failed to query scale subresource for " + d.ref() + ": " + e.Message
	}
	d.current = d.next.Status.CurrentReplicas
	d.decision.Current, d.decision.Desired = d.current, d.current
}

func (d *decider) scalingDisabled() {
	d.decision.Path = PathScalingDisabled
	d.setCondition(ScalingActive, ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
	if !d.in.Options.ScaleToZero {
		d.next.Status.Conditions = removeCondition(d.next.Status.Conditions, ScaledToZero)
	}
	d.setStatus(0, nil)
}

// enforceBound moves to a bound at once: no stabilization, no policy, no metric.
func (d *decider) enforceBound(path Path, bound int32, reason string) {
	d.decision.Path = path
	d.trace.Bounds = newBounds(&d.in.Spec, d.current)
	d.trace.Bounds.Bounded, d.trace.Bounds.Reason = bound, TooManyReplicas
	if path == PathBelowMin {
		d.trace.Bounds.Reason = TooFewReplicas
	}
	d.rescale(bound, reason, nil)
}

// followMetrics is the usual way.
func (d *decider) followMetrics() {
	if p := d.in.SelectorProblem; p != nil {
		d.selectorFailed(p)
		return
	}
	metrics := d.evaluateAll()
	statuses := d.parts.metrics[:]
	if len(metrics) != len(statuses) {
		statuses = make([]MetricStatus, len(metrics))
	}
	for i := range metrics {
		if f := metrics[i].Failure; f != nil {
			d.event(f.Reason, f.Inner)
			continue
		}
		statuses[i] = metrics[i].status()
	}
	s := selectProposal(metrics, d.current)
	if s.failed != nil {
		d.metricsFailed(&s, statuses)
		return
	}
	d.decision.Error = s.problem
	name := ""
	if s.winner >= 0 {
		name = metrics[s.winner].Spec.Name()
	}
	d.setCondition(ScalingActive, ConditionTrue, "ValidMetricFound", d.validMetricMessage(name))
	proposal := max(0, s.replicas)
	reason := ""
	switch {
	case proposal > d.current:
		reason = name + " above target"
	case proposal < d.current:
		reason = "All metrics below target"
	}
	d.trace.Decided, d.trace.Proposal, d.trace.Winner = true, proposal, s.winner
	desired := d.normalize(proposal)
	// What was scaled to zero comes back to a minimum that has been raised since.
	if spec := &d.in.Spec; d.current == 0 && spec.MinReplicas != 0 && d.scaledToZero() && desired < spec.MinReplicas {
		desired = spec.MinReplicas
		if reason == "" {
			reason = "Current number of replicas below Spec.MinReplicas"
		}
	}
	if desired == d.current {
		d.setStatus(desired, statuses)
		return
	}
	d.rescale(desired, reason, statuses)
}

// validMetricMessage is the sentence of ValidMetricFound. Mostly it is the one
// that the condition has already; that is used again.
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
			d.warnOf(&metrics[i])
		}
	}
	d.scratch.metrics = metrics
	if d.in.Explain {
		d.trace.Metrics = append([]MetricEvaluation(nil), metrics...)
	}
	return metrics
}

// status is the reading as the status shows it.
func (e *MetricEvaluation) status() MetricStatus {
	return MetricStatus{
		Type: e.Spec.Type, Resource: e.Spec.Resource, Container: e.Spec.Container,
		Metric: e.Spec.Metric, DescribedObject: e.Spec.DescribedObject, Current: e.Current,
	}
}

func (d *decider) selectorFailed(p *SelectorProblem) {
	d.decision.Path = PathSelectorFailed
	text, conditionReason := p.Message, string(p.Reason)
	switch p.Reason {
	case SelectorRequired:
		text, conditionReason = "selector is required", string(InvalidSelector)
		d.setCondition(ScalingActive, ConditionFalse, conditionReason, "the HPA target's scale is missing a selector")
	case InvalidSelector:
		text = "couldn't convert selector into a corresponding internal selector object: " + p.Message
		d.setCondition(ScalingActive, ConditionFalse, conditionReason, text)
	default:
		d.setCondition(ScalingActive, ConditionFalse, conditionReason, text)
	}
	d.event(string(p.Reason), text)
	d.holdCount(text, nil)
}

func (d *decider) metricsFailed(s *selection, statuses []MetricStatus) {
	d.decision.Path = PathMetricsFailed
	d.setCondition(ScalingActive, ConditionFalse, s.failed.Reason, failureMessage(s.failed))
	d.holdCount(s.problem, statuses)
}

func failureMessage(f *MetricFailure) string {
	return "the HPA was unable to compute the replica count: " + f.Inner
}

// holdCount ends an evaluation that came to no count: the status keeps the one
// it had.
func (d *decider) holdCount(problem string, statuses []MetricStatus) {
	d.event("FailedComputeMetricsReplicas", problem)
	d.decision.Error = "failed to compute desired number of replicas based on listed metrics for " + d.ref() + ": " + problem
	d.setStatus(d.previousDesired, statuses)
}

// normalize takes a proposal through stabilization, rate limits and bounds, and
// records it. Upstream: normalizeDesiredReplicas and its twin with behaviors.
func (d *decider) normalize(proposal int32) int32 {
	t := &d.trace
	if d.in.Spec.Behavior == nil {
		t.Stabilization = stabilizeWithoutBehavior(d.nowNanos, d.next.Recommendations, d.in.Options.DownscaleStabilization, proposal)
		t.RateLimit, t.Bounds = boundWithoutBehavior(&d.in.Spec, d.current, t.Stabilization.Stabilized)
	} else {
		up, down := d.windows()
		t.Stabilization = stabilizeWithBehavior(d.nowNanos, d.next.Recommendations, up, down, d.current, proposal)
		t.RateLimit, t.Bounds = d.boundWithBehavior(t.Stabilization.Stabilized)
	}
	d.next.Recommendations = recordRecommendation(d.next.Recommendations, t.Stabilization.slot, TimedRecommendation{proposal, d.nowNanos})
	d.setCondition(AbleToScale, ConditionTrue, t.Stabilization.Reason, t.Stabilization.Message)
	limited := ConditionFalse
	if t.Bounds.Bounded != t.Bounds.Wanted {
		limited = ConditionTrue
	}
	d.setCondition(ScalingLimited, limited, string(t.Bounds.Reason), t.Bounds.Reason.message())
	return t.Bounds.Bounded
}

// windows returns the stabilization windows of a spec with behavior. The
// controller's own window counts in whole seconds there.
func (d *decider) windows() (up, down time.Duration) {
	b := d.in.Spec.Behavior
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
	if b := d.in.Spec.Behavior; b != nil {
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
	case !d.in.Options.ScaleToZero:
		return ZeroRemoved
	case d.current > 0 && desired == 0 && d.in.Spec.MinReplicas == 0 && d.hasTotalMetric():
		return ZeroTrue
	}
	return ZeroFalse
}

// setStatus is upstream's full rebuild of a status, which drops the observed
// generation.
func (d *decider) setStatus(desired int32, metrics []MetricStatus) {
	s := &d.next.Status
	s.ObservedGeneration = nil
	s.CurrentReplicas, s.DesiredReplicas, s.CurrentMetrics = d.current, desired, metrics
}
