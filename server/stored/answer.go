package stored

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// mostOutcomes limits what the cached outcomes take in memory, about, in bytes, and mostCached what each of them would take
	// encoded. As a message it takes encodedInMemory times as much where it is of labels, and leastInMemory without any.
	mostOutcomes, mostCached       = 32 << 20, 4 << 10
	encodedInMemory, leastInMemory = 12, 1 << 10
)

// outcome is a decision with the stored spec and its bounds, which answers all polls of a
// period. It is immutable.
type outcome struct {
	// recommendation is shared by all that receive it.
	recommendation *setpointv1.Recommendation
	// undecided is why the count could not be computed; nil: it was.
	undecided *UndecidedError
	// period is how long it counts.
	period time.Duration
}

// newOutcome returns the outcome of a recommendation with a spec. Without any readable metric
// there is no count, unless an override says which: the controller keeps its own then, and so must the
// caller, whose count may differ.
func newOutcome(r *setpointv1.Recommendation, failed string, spec *setpointv1.TargetSpec) *outcome {
	o := &outcome{recommendation: r, period: period(spec)}
	r.MinReplicas, r.MaxReplicas = validation.MinReplicas(spec.GetSpec()), spec.GetSpec().GetMaxReplicas()
	if r.GetAction() != conversion.NoAction || held(r) {
		return o
	}
	if failed != "" && len(r.GetStatus().GetConditions()) == 0 {
		// The profile design-2015 has no conditions, and keeps the count.
		o.undecided = &UndecidedError{"FailedGetMetrics", failed}
	}
	for _, c := range r.GetStatus().GetConditions() {
		if c.GetType() == recommender.ScalingActive && c.GetStatus() != recommender.ConditionTrue && c.GetReason() != recommender.ScalingDisabled {
			o.undecided = &UndecidedError{c.GetReason(), c.GetMessage()}
		}
	}
	return o
}

// answer returns the answer to a poll. What narrows the poller's bounds is the answer, as the
// controller would enforce them, and never the decision, which others get as well.
func (o *outcome) answer(poll Poll) (*setpointv1.Recommendation, error) {
	r := o.recommendation
	least, most, err := poll.within(r.GetMinReplicas(), r.GetMaxReplicas())
	if err != nil {
		return nil, err
	}
	from, to := r.GetCurrentReplicas(), r.GetDesiredReplicas()
	bounded := to
	switch {
	case least == r.GetMinReplicas() && most == r.GetMaxReplicas():
	case from == 0 && to == 0 && (o.undecided != nil || o.off()): // bounds switch nothing on
	default:
		bounded = min(max(to, least), most)
	}
	// Beyond these counts something else has scaled since, and nothing was decided about that.
	if n := poll.Current; n != nil && (*n < min(from, to, bounded) || *n > max(from, to, bounded)) {
		at := r.GetEvaluationTime().AsTime()
		return nil, &OtherCountError{Told: *n, From: from, To: to, At: at, Next: at.Add(o.period)}
	}
	switch {
	case bounded == to && o.undecided != nil:
		return nil, o.undecided
	case least == r.GetMinReplicas() && most == r.GetMaxReplicas():
		return r, nil
	}
	if held(r) { // the poller's count is kept, whatever its bounds
		return r, nil
	}
	own := &setpointv1.Recommendation{
		DesiredReplicas: bounded, CurrentReplicas: from, Action: conversion.Action(from, bounded),
		RecommendationId: r.GetRecommendationId(), Reason: r.GetReason(), EvaluationTime: r.GetEvaluationTime(),
		Status: r.GetStatus(), MinReplicas: least, MaxReplicas: most,
		Adjustments: r.GetAdjustments(),
	}
	if r.PlainDesiredReplicas != nil {
		own.PlainDesiredReplicas = new(min(max(r.GetPlainDesiredReplicas(), least), most))
	}
	if bounded != to {
		own.Status = limited(r, bounded)
		switch {
		case own.GetAction() == r.GetAction(): // by the bound not as far
		case bounded > from:
			own.Reason = recommender.BelowMinReplicas
		case bounded < from:
			own.Reason = recommender.AboveMaxReplicas
		default:
			own.Reason = ""
		}
	}
	return own, nil
}

// held reports whether an override keeps the current count. Where the count would have stayed anyway, as it does
// while metrics fail, only the condition tells.
func held(r *setpointv1.Recommendation) bool {
	return r.GetAction() == conversion.NoAction && (slices.ContainsFunc(r.GetAdjustments(), func(a *setpointv1.Adjustment) bool {
		return a.GetStage() == recommender.StageOverride.String()
	}) || slices.ContainsFunc(r.GetStatus().GetConditions(), func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
		return c.GetType() == stages.Overridden && c.GetStatus() == recommender.ConditionTrue
	}))
}

// off reports whether the target is switched off: at zero where the autoscaler leaves it alone.
func (o *outcome) off() bool {
	for _, c := range o.recommendation.GetStatus().GetConditions() {
		if c.GetType() == recommender.ScalingActive {
			return c.GetStatus() != recommender.ConditionTrue
		}
	}
	return o.recommendation.GetMinReplicas() > 0 // a profile without that condition
}

// limited returns the status of a recommendation that a poller's bounds limit to a count.
func limited(r *setpointv1.Recommendation, bounded int32) *setpointv1.HorizontalPodAutoscalerStatus {
	status := proto.Clone(r.GetStatus()).(*setpointv1.HorizontalPodAutoscalerStatus)
	status.DesiredReplicas = bounded
	reason := recommender.TooManyReplicas
	if bounded > r.GetDesiredReplicas() {
		reason = recommender.TooFewReplicas
	}
	if len(status.GetConditions()) == 0 {
		return status // of the profile design-2015
	}
	var condition *setpointv1.HorizontalPodAutoscalerCondition
	for _, c := range status.GetConditions() {
		if c.GetType() == recommender.ScalingLimited {
			condition = c
		}
	}
	if condition == nil {
		condition = &setpointv1.HorizontalPodAutoscalerCondition{Type: recommender.ScalingLimited}
		status.Conditions = append(status.Conditions, condition)
	}
	if condition.GetStatus() != recommender.ConditionTrue {
		condition.Status, condition.LastTransitionTime = recommender.ConditionTrue, r.GetEvaluationTime()
	}
	condition.Reason, condition.Message = string(reason), reason.Message()
	return status
}

// within returns the bounds of a spec, narrowed by the poller's own, which must leave a count, and
// by the operator's caps of the poller, which win.
func (p Poll) within(least, most int32) (narrowLeast, narrowMost int32, err error) {
	blamed := "minReplicas"
	if p.Max != nil && *p.Max < max(least, 1) {
		blamed = "maxReplicas"
	}
	if p.Min != nil {
		least = max(least, *p.Min)
	}
	if p.Max != nil {
		most = min(most, *p.Max)
	}
	if least > most || most == 0 {
		return 0, 0, &BoundsError{blamed, least, most}
	}
	if p.CapMax != nil {
		most = min(most, *p.CapMax)
		least = min(least, most)
	}
	if p.CapMin != nil {
		least = max(least, min(*p.CapMin, most))
	}
	return least, most, nil
}

// asker is the key of polls that share an outcome.
type asker struct {
	store.Key
	dryRun bool
	// off is set if the poll tells 0.
	off bool
}

// cached is an outcome in the cache. Most polls are answered from it: while the versions of
// both records are unchanged, neither needs decoding.
type cached struct {
	*outcome
	spec, history store.Version
	at            int64
	// size is that of the history, in bytes: the outcome's texts are parts of all that it has.
	size int
}

// failure is why polls get no count from records, of spec, history and observation.
type failure struct {
	*outcome
	err error
	of  [3]store.Version
	at  int64
}

// weight is about what the outcome takes in memory, in bytes; nil: there is none.
func (o *outcome) weight() int {
	if o == nil {
		return leastInMemory
	}
	return leastInMemory + encodedInMemory*proto.Size(o.recommendation)
}

// counts reports whether the outcome was made from these records of spec and history, and
// answers polls at that time.
func (c *cached) counts(records []store.Record, now time.Time) bool {
	return c.spec == records[0].Version && c.history == records[1].Version && counts(c.at, c.period, now)
}

// remember caches an outcome made from records.
func (t *Targets) remember(by asker, records []store.Record, at int64, o *outcome) {
	if proto.Size(o.recommendation) <= mostCached {
		t.outcomes.Put(by, &cached{o, records[0].Version, records[1].Version, at, len(records[1].Value)})
	}
}
