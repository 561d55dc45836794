// Package states says in a few words what is the matter with a target. It is the one place of this
// rule: the API, metrics, pages and commands show these words.
package states

import (
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// State is something that is the matter with a target.
type State uint8

// The states, the most urgent first.
const (
	ScaleUnreadable State = iota
	Invalid
	MetricsFailing
	UpdateFailed
	Overridden
	AtMaximum
	Limited
	Held
	AtMinimum
	Disabled
	count
)

// words are the states in the API.
var words = [count]string{
	ScaleUnreadable: "SCALE_UNREADABLE", Invalid: "INVALID", MetricsFailing: "METRICS_FAILING", UpdateFailed: "UPDATE_FAILED",
	Overridden: "OVERRIDDEN",
	AtMaximum:  "AT_MAXIMUM", Limited: "LIMITED", Held: "HELD", AtMinimum: "AT_MINIMUM", Disabled: "DISABLED",
}

// String returns the state as the API has it.
func (s State) String() string { return words[s] }

// Set is a set of states.
type Set uint16

// With returns the set with a state.
func (s Set) With(state State) Set { return s | 1<<state }

// Without returns the set without a state.
func (s Set) Without(state State) Set { return s &^ (1 << state) }

// Has reports whether the set has a state.
func (s Set) Has(state State) bool { return s&(1<<state) != 0 }

// Words are the states in the API, the most urgent first; nil if nothing is the matter.
func (s Set) Words() (all []string) {
	for state := range count {
		if s.Has(state) {
			all = append(all, words[state])
		}
	}
	return all
}

// nothing is the state of a reason with which nothing is the matter.
const nothing = count

// The states by the reasons of their conditions. A reason that is in none, of a status that another
// controller began, has no state.
var (
	ofAbleToScale = map[string]State{
		recommender.FailedGetScale:      ScaleUnreadable,
		recommender.FailedUpdateScale:   UpdateFailed,
		recommender.ScaleUpStabilized:   Held,
		recommender.ScaleDownStabilized: Held,
		recommender.BackoffUpscale:      Held,
		recommender.BackoffDownscale:    Held,
		recommender.BackoffBoth:         Held,
		recommender.HistoryUnavailable:  Held,
		recommender.SucceededGetScale:   nothing,
		recommender.SucceededRescale:    nothing,
		recommender.ReadyForNewScale:    nothing,
	}
	ofScalingActive = map[string]State{
		recommender.FailedGetResourceMetric:          MetricsFailing,
		recommender.FailedGetContainerResourceMetric: MetricsFailing,
		recommender.FailedGetPodsMetric:              MetricsFailing,
		recommender.FailedGetObjectMetric:            MetricsFailing,
		recommender.FailedGetExternalMetric:          MetricsFailing,
		recommender.InvalidMetricSourceType:          Invalid,
		string(recommender.SelectorRequired):         Invalid,
		string(recommender.InvalidSelector):          Invalid,
		string(recommender.AmbiguousSelector):        Invalid,
		recommender.ScalingDisabled:                  Disabled,
		recommender.ValidMetricFound:                 nothing,
	}
	ofScalingLimited = map[string]State{
		string(recommender.TooManyReplicas):    AtMaximum,
		string(recommender.TooFewReplicas):     AtMinimum,
		string(recommender.ScaleUpLimit):       Limited,
		string(recommender.ScaleDownLimit):     Limited,
		string(recommender.DesiredWithinRange): nothing,
	}
)

// Facts are what the states of a decision follow from.
type Facts struct {
	// Able, Active and Limited are the reasons of these conditions; empty: there is none.
	Able, Active, Limited string
	// Reason is why the count changes, and Error what kept a count from being computed, in the
	// controller's words; empty: nothing.
	Reason, Error string
	// FailedMetric reports whether a metric has no reading, Overridden whether an override decides the count.
	FailedMetric, Overridden bool
}

// Of returns the states. A condition that the decision has not renewed says nothing of it: without a
// scale nothing else is evaluated, and bounds and windows not without a count from metrics.
func (f *Facts) Of() (all Set) {
	if f.Overridden {
		all = all.With(Overridden)
	}
	if f.Able == "" { // profile design-2015 has no conditions
		switch {
		case strings.HasPrefix(f.Error, "failed to query scale"):
			all = all.With(ScaleUnreadable)
		case f.Error != "" || f.FailedMetric:
			all = all.With(MetricsFailing)
		}
		return all
	}
	if f.Able == recommender.FailedGetScale {
		return all.With(ScaleUnreadable)
	}
	add := func(of map[string]State, reason string) {
		if state, known := of[reason]; known && state != nothing {
			all = all.With(state)
		}
	}
	add(ofAbleToScale, f.Able)
	if f.Reason == recommender.AboveMaxReplicas || f.Reason == recommender.BelowMinReplicas {
		return all // a bound was enforced without a look at the metrics
	}
	if add(ofScalingActive, f.Active); f.FailedMetric {
		all = all.With(MetricsFailing)
	}
	if f.Able != recommender.SucceededGetScale { // then a count was computed
		add(ofScalingLimited, f.Limited)
	}
	return all
}

// OfStatus returns the states of a decision with that status, reason and error.
func OfStatus(s *recommender.Status, reason, problem string) Set {
	f := Facts{Reason: reason, Error: problem}
	for i := range s.Conditions {
		f.condition(s.Conditions[i].Type, s.Conditions[i].Status, s.Conditions[i].Reason)
	}
	for i := range s.CurrentMetrics {
		f.FailedMetric = f.FailedMetric || s.CurrentMetrics[i].Type == ""
	}
	return f.Of()
}

// OfDecision returns the states of a decision in the API. A proposal of -1 in its basis is a failed
// metric, too, where the log has no room for the readings.
func OfDecision(d *setpointv1.Decision) Set {
	f := Facts{Reason: d.GetReason(), Error: d.GetError()}
	for _, c := range d.GetConditions() {
		f.condition(c.GetType(), c.GetStatus(), c.GetReason())
	}
	for _, m := range d.GetCurrentMetrics() {
		f.FailedMetric = f.FailedMetric || m.GetType() == ""
	}
	for _, n := range d.GetBasis().GetMetricProposals() {
		f.FailedMetric = f.FailedMetric || n < 0
	}
	return f.Of()
}

func (f *Facts) condition(kind, status, reason string) {
	switch kind {
	case recommender.AbleToScale:
		f.Able = reason
	case recommender.ScalingActive:
		f.Active = reason
	case recommender.ScalingLimited:
		f.Limited = reason
	case stages.Overridden:
		f.Overridden = status == recommender.ConditionTrue
	}
}
