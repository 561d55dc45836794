// Package historytest makes histories for tests.
package historytest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// t0 is an arbitrary instant.
var t0 = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

type generator struct{ *rand.Rand }

func (r generator) chance(percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r generator, values ...T) T { return values[r.IntN(len(values))] }

// usualTexts are reasons with the beginning and end of their messages, some of which the
// encoding knows.
var usualTexts = []struct{ reason, begin, end string }{
	{recommender.SucceededGetScale, "the HPA controller was able to get the target's current scale", ""},
	{recommender.ReadyForNewScale, "recommended size matches current size", ""},
	{recommender.SucceededRescale, "the HPA controller was able to update the target scale to ", ""},
	{recommender.ValidMetricFound, "the HPA was able to successfully calculate a replica count from ", ""},
	{recommender.ValidMetricFound, "the HPA was able to successfully calculate a replica count from ", " resource utilization (percentage of request)"},
	{recommender.FailedGetPodsMetric, "the HPA was unable to compute the replica count: ", ""},
	{string(recommender.TooFewReplicas), "the desired replica count is less than the minimum replica count", ""},
	{recommender.HistoryUnavailable, "the history store can't be reached; a scale-down from ", " is withheld until it answers"},
	{"Other", "", ""},
}

// Random returns a random history, including ones that no sequence of decisions
// produces.
func Random(random *rand.Rand) recommender.History {
	r := generator{random}
	instant := func() time.Time {
		return oneOf(r, time.Time{}, t0, t0.Add(time.Duration(r.Int64N(1e12))), time.Unix(r.Int64(), r.Int64N(1e9)).UTC())
	}
	id := func() (id recommender.ID) {
		for i := range id {
			id[i] = byte(r.IntN(256))
		}
		return id
	}
	number := func() int64 { return int64(r.Uint64()) >> r.IntN(64) }
	text := func() string {
		return oneOf(r, "", "x", "ä€\x00", recommender.AbleToScale, "ReadyForNewScale", fmt.Sprint(number()))
	}
	object := func() recommender.ObjectReference {
		return recommender.ObjectReference{Kind: text(), Name: text(), APIVersion: text()}
	}
	status := func() recommender.Status {
		s := recommender.Status{LastScaleTime: instant(), CurrentReplicas: int32(number()), DesiredReplicas: int32(number())}
		if r.chance(50) {
			s.ObservedGeneration = new(number())
		}
		for range r.IntN(4) {
			s.CurrentMetrics = append(s.CurrentMetrics, r.metricStatus(text, number))
			known := oneOf(r, usualTexts...)
			s.Conditions = append(s.Conditions,
				recommender.Condition{Type: text(), Status: text(), Reason: text(), Message: text(), LastTransitionTime: instant()},
				recommender.Condition{Type: recommender.ScalingActive, Status: oneOf(r, recommender.ConditionTrue, "Maybe"), Reason: known.reason, Message: known.begin + text() + known.end, LastTransitionTime: instant()},
				recommender.Condition{Type: oneOf(r, recommender.AbleToScale, "Other"), Status: recommender.ConditionUnknown, Reason: known.reason, Message: text(), LastTransitionTime: instant()})
		}
		return s
	}
	h := recommender.History{
		Seen: r.chance(50), Initialized: r.chance(50), Updated: instant(), Since: number(), Target: object(), Status: status(),
		Last: recommender.LastDecision{ID: id(), At: number(), From: int32(number()), To: int32(number()), Reason: text(), Error: text(), Outcome: recommender.Outcome(r.IntN(5))},
	}
	if r.chance(50) {
		h.Pending = &recommender.Pending{
			ID: id(), At: number(), From: int32(number()), To: int32(number()), PreviousDesired: int32(number()),
			RecordsEvent: r.chance(50), LongestPeriod: int32(number()), Zero: recommender.ZeroTransition(r.IntN(int(recommender.ZeroUnknown) + 1)), Bare: r.chance(50),
			KeepsMetrics: r.chance(50), Reason: text(), Error: text(),
		}
		if h.Pending.KeepsMetrics {
			h.Pending.PreviousMetrics = status().CurrentMetrics
		}
	}
	for range r.IntN(6) {
		h.Recommendations = append(h.Recommendations, recommender.TimedRecommendation{Replicas: int32(number()), At: number()})
		h.ScaleUps = append(h.ScaleUps, recommender.ScaleEvent{Change: int32(number()), Outdated: r.chance(50), At: number()})
		h.Settled = append(h.Settled, recommender.Settled{ID: id(), Outcome: recommender.Outcome(r.IntN(5))})
	}
	if r.chance(30) {
		h.RecommendationsLimited, h.EventsLimited = true, r.chance(50)
		h.LastingUntil = number()
		for i := range h.ScaleUps {
			h.ScaleUps[i].Span = oneOf(r, 0, number())
		}
	}
	for range r.IntN(3) {
		h.ScaleDowns = append(h.ScaleDowns, recommender.ScaleEvent{Change: int32(number()), Outdated: r.chance(50), At: number()})
	}
	return h
}

func (r generator) metricStatus(text func() string, number func() int64) recommender.MetricStatus {
	m := recommender.MetricStatus{
		Type: oneOf(r, "", recommender.ResourceMetric, recommender.ExternalMetric, "Foo"), Resource: text(), Container: text(),
		Metric: recommender.MetricIdentifier{Name: text()}, DescribedObject: recommender.ObjectReference{Kind: text(), Name: text(), APIVersion: text()},
		Current: recommender.MetricValue{Binary: r.chance(50)},
	}
	if r.chance(50) {
		m.Current.Value, m.Current.HasValue = number(), true
	}
	if r.chance(50) {
		m.Current.AverageValue, m.Current.HasAverageValue = number(), true
	}
	if r.chance(50) {
		m.Current.AverageUtilization, m.Current.HasAverageUtilization = int32(number()), true
	}
	if r.chance(50) {
		m.Metric.Selector = &recommender.LabelSelector{}
		for range r.IntN(3) {
			m.Metric.Selector.MatchLabels = append(m.Metric.Selector.MatchLabels, recommender.Label{Key: text(), Value: text()})
			m.Metric.Selector.MatchExpressions = append(m.Metric.Selector.MatchExpressions, recommender.LabelRequirement{Key: text(), Operator: text(), Values: oneOf(r, nil, []string{text(), text()})})
		}
	}
	return m
}
