package stored

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/labels"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/store"
)

// Poll is a caller's request for a recommendation from stored observations.
type Poll struct {
	// Current is the number of replicas that the caller observes. Nil: not sent.
	Current *int32
	// Min and Max narrow the bounds of the spec. Nil: they don't.
	Min, Max *int32
	// As identifies the caller's own options, if the operator has set some; empty: none.
	As string
}

// Recommendation returns the recommendation of a target from its stored spec and observations: the
// last one, if it is not older than the spec's period and made with this spec, else a new one. An
// UndecidedError means that the count could not be computed. Concurrent callers that need a new one
// share one decision.
func (t *Targets) Recommendation(ctx context.Context, key store.Key, poll Poll) (*setpointv1.Recommendation, error) {
	records, err := t.parts.LoadParts(ctx, key, store.Specs, "")
	if err != nil {
		return nil, err
	}
	asker := askerOf(key, poll)
	if known, ok := t.answers.Get(asker); ok && known.answers(records, poll, t.options.Clock()) {
		return known.recommendation, known.err
	}
	spec, err := decodeSpec(key, records[0])
	if err != nil {
		return nil, err
	}
	least, most, err := bounds(spec.GetSpec(), poll)
	if err != nil {
		return nil, err
	}
	var history recommender.History
	if records[1].Exists() {
		if history, err = encoding.DecodeHistory(records[1].Value); err != nil {
			return nil, &UnreadableError{"history", err}
		}
	}
	now := t.options.Clock()
	asked := question(spec, least, most, poll)
	answered := answers(&history, spec, asked, poll, now)
	if answered && history.Last.To > 0 {
		recommendation, err := finish(last(&history), history.Last.Error, least, most)
		t.remember(asker, records, spec, &history, recommendation, err)
		return recommendation, err
	}
	record, err := t.observations.Load(ctx, key)
	if err != nil {
		return nil, err
	}
	var fetched *Fetched
	if !answered {
		if fetched, err = t.fetch(ctx, key, spec, record, now); err != nil {
			return nil, err
		}
		now = t.options.Clock() // fetching may have taken a while
	}
	leave, err := t.options.Room(ctx, len(record.Value)+len(records[0].Value))
	if err != nil {
		return nil, err
	}
	defer leave()
	observed, err := decodeObservation(record)
	if err != nil {
		return nil, err
	}
	// A target leaves zero as soon as a report says so, not a period later; fetched metrics
	// are evaluated once per period.
	if answered {
		if len(spec.GetQueries()) > 0 || !newest(observed).After(time.Unix(0, history.Last.At)) {
			return finish(last(&history), history.Last.Error, least, most)
		}
	}
	request, err := t.request(key, spec, observed, fetched, &history, poll, now)
	if err != nil {
		return nil, err
	}
	request.Spec.MinReplicas, request.Spec.MaxReplicas = &least, most
	request.RequestId = fmt.Sprintf("after %s%s%s", history.Last.ID, seen(poll), asked)
	response, err := t.options.Recommend(ctx, request)
	if err != nil {
		return nil, err
	}
	return finish(&setpointv1.Recommendation{
		DesiredReplicas: response.GetDesiredReplicas(), CurrentReplicas: response.GetCurrentReplicas(),
		Action: response.GetAction(), RecommendationId: response.GetRecommendationId(), Reason: response.GetReason(),
		EvaluationTime: response.GetEvaluationTime(), Status: response.GetStatus(),
	}, response.GetError(), request.GetSpec().GetMinReplicas(), request.GetSpec().GetMaxReplicas()) // the operator's caps may have narrowed it
}

// question identifies a poll: the version of the spec, the bounds and the options. The
// last decision, whoever caused it, answers only the same question.
func question(spec *setpointv1.TargetSpec, least, most int32, poll Poll) string {
	return fmt.Sprintf(" %s %d-%d %s", spec.GetEtag(), least, most, poll.As)
}

// seen is the count that the caller observes.
func seen(poll Poll) string {
	if poll.Current == nil {
		return ""
	}
	return "@" + strconv.Itoa(int(*poll.Current))
}

// bounds are those of the spec, narrowed by the caller's.
func bounds(spec *setpointv1.HorizontalPodAutoscalerSpec, poll Poll) (least, most int32, err error) {
	least, most = 1, spec.GetMaxReplicas()
	if spec.MinReplicas != nil {
		least = spec.GetMinReplicas()
	}
	if poll.Min != nil {
		least = max(least, *poll.Min)
	}
	if poll.Max != nil {
		most = min(most, *poll.Max)
	}
	if least > most {
		return 0, 0, fmt.Errorf("%w: at least %d, at most %d", ErrBounds, least, most)
	}
	return least, most, nil
}

// answers reports whether the last decision answers a poll.
func answers(h *recommender.History, spec *setpointv1.TargetSpec, asked string, poll Poll, now time.Time) bool {
	switch {
	case h.Last.At == 0, !strings.HasPrefix(h.Last.RequestID, "after "), !strings.HasSuffix(h.Last.RequestID, asked):
		return false
	}
	return counts(h.Last.At, period(spec), now) && sees(poll, h.Last.From, h.Last.To)
}

// counts reports whether a decision is neither too old nor in the future of this clock.
func counts(at int64, period time.Duration, now time.Time) bool {
	return now.UnixNano()-at < int64(period) && now.UnixNano() >= at-int64(time.Second)
}

// sees reports whether the caller observes a count that the decision explains: otherwise
// something else has scaled.
func sees(poll Poll, from, to int32) bool {
	return poll.Current == nil || *poll.Current == from || *poll.Current == to
}

// last returns the last decision of a history.
func last(h *recommender.History) *setpointv1.Recommendation {
	d := &h.Last
	action := "NONE"
	switch {
	case d.To > d.From:
		action = "SCALE_UP"
	case d.To < d.From:
		action = "SCALE_DOWN"
	}
	return &setpointv1.Recommendation{
		DesiredReplicas: d.To, CurrentReplicas: d.From, Action: action,
		RecommendationId: d.ID.String(), Reason: d.Reason,
		EvaluationTime: timestamppb.New(time.Unix(0, d.At)), Status: conversion.Status(&h.Status),
	}
}

// finish adds the bounds to a recommendation. Without any readable metric it returns an error:
// the controller keeps its count then, and so must the caller, whose count may differ.
func finish(r *setpointv1.Recommendation, failed string, least, most int32) (*setpointv1.Recommendation, error) {
	if r.GetAction() == "NONE" && failed != "" && len(r.GetStatus().GetConditions()) == 0 {
		// The profile design-2015 has no conditions, and keeps the count.
		return nil, &UndecidedError{"FailedGetMetrics", failed, r.GetEvaluationTime().AsTime()}
	}
	for _, c := range r.GetStatus().GetConditions() {
		if c.GetType() == "ScalingActive" && c.GetStatus() != "True" && c.GetReason() != "ScalingDisabled" && r.GetAction() == "NONE" {
			return nil, &UndecidedError{c.GetReason(), c.GetMessage(), r.GetEvaluationTime().AsTime()}
		}
	}
	r.MinReplicas, r.MaxReplicas = least, most
	return r, nil
}

// request builds the request of a caller with the stored spec and observations.
func (t *Targets) request(key store.Key, spec *setpointv1.TargetSpec, observed *storedv1.Observation, fetched *Fetched, h *recommender.History, poll Poll, now time.Time) (*setpointv1.RecommendRequest, error) {
	request := &setpointv1.RecommendRequest{
		Target: key.String(), Spec: proto.Clone(spec.GetSpec()).(*setpointv1.HorizontalPodAutoscalerSpec), Options: spec.GetOptions(),
	}
	a := ages{now, maxAge(spec)}
	scale, err := a.scale(observed, spec, h, poll)
	if err != nil {
		return nil, err
	}
	request.Scale = scale
	if err := a.samples(request, spec, observed, fetched, cost.BudgetOf(proto.Size(observed)+proto.Size(spec))); err != nil {
		return nil, err
	}
	return request, nil
}

// newest is the instant of the newest observation.
func newest(o *storedv1.Observation) (at time.Time) {
	later := func(t *timestamppb.Timestamp) {
		if t != nil && t.AsTime().After(at) {
			at = t.AsTime()
		}
	}
	later(o.GetScaleTime())
	later(o.GetPodsTime())
	later(o.GetPodMetricsTime())
	for _, m := range o.GetCustomMetrics() {
		later(m.GetTime())
	}
	for _, m := range o.GetExternalMetrics() {
		later(m.GetTime())
	}
	return at
}

// ages decides which observations are too old.
type ages struct {
	now  time.Time
	most time.Duration
}

// fresh reports whether observations of that instant count.
func (a ages) fresh(at *timestamppb.Timestamp) bool {
	return at != nil && a.now.Sub(at.AsTime()) <= a.most
}

// scale returns the caller's scale, else the observed one, else the recommended one.
func (a ages) scale(o *storedv1.Observation, spec *setpointv1.TargetSpec, h *recommender.History, poll Poll) (*setpointv1.Scale, error) {
	switch {
	case poll.Current != nil:
		scale := &setpointv1.Scale{SpecReplicas: *poll.Current}
		if a.fresh(o.GetScaleTime()) {
			scale.Selector = o.GetScale().GetSelector()
		}
		return scale, nil
	case a.fresh(o.GetScaleTime()):
		return o.GetScale(), nil
	case !spec.GetAssumeApplied():
		return nil, fmt.Errorf("%w: it was not reported in the last %s", ErrNoScale, a.most)
	}
	least, _, err := bounds(spec.GetSpec(), poll)
	if h.Last.At != 0 {
		least = max(least, h.Last.To)
	}
	// At zero the controller acts only if it scaled there itself.
	if least == 0 && !scaledToZero(h) {
		least = 1
	}
	return &setpointv1.Scale{SpecReplicas: least}, err
}

// scaledToZero reports whether, by its last status, the autoscaler scaled to zero.
func scaledToZero(h *recommender.History) bool {
	for _, c := range conversion.Status(&h.Status).GetConditions() {
		if c.GetType() == "ScaledToZero" {
			return c.GetStatus() == "True"
		}
	}
	return false
}

// samples adds current pods and samples, and errors for metrics whose samples are too
// old.
func (a ages) samples(request *setpointv1.RecommendRequest, spec *setpointv1.TargetSpec, o *storedv1.Observation, fetched *Fetched, budget *cost.Budget) error {
	if a.fresh(o.GetPodsTime()) {
		request.Pods = o.GetPods()
	}
	if a.fresh(o.GetPodMetricsTime()) {
		request.PodMetrics = o.GetPodMetrics()
	}
	var names namer
	s := sampler{ages: a, request: request, names: &names, budget: budget, usage: o.GetPodMetricsTime(), custom: names.customOf(o), external: names.externalOf(o), taken: make(map[string]bool)}
	metrics := request.GetSpec().GetMetrics()
	for _, m := range metrics {
		if m.GetType() == "Pods" {
			s.wanted = append(s.wanted, names.pods(m.GetPods().GetMetric()))
		}
	}
	s.addFetched(spec, fetched)
	queried := queriedMetrics(spec)
	for i, m := range metrics {
		if slices.Contains(queried, i) {
			continue
		}
		if err := s.add(m); err != nil {
			return err
		}
	}
	return nil
}

// sampler adds the samples of metrics to a request, each once.
type sampler struct {
	ages
	request  *setpointv1.RecommendRequest
	names    *namer
	budget   *cost.Budget
	usage    *timestamppb.Timestamp // when usage of pods was observed
	custom   map[string]*storedv1.CustomMetricValues
	external map[string]*storedv1.ExternalMetricSeries
	// taken are identities already added, and wanted those of Pods metrics.
	taken  map[string]bool
	wanted []string
}

// add adds the samples of a metric, or the error why there are none.
func (s *sampler) add(m *setpointv1.MetricSpec) (err error) {
	var failed *setpointv1.MetricError
	var at *timestamppb.Timestamp
	switch m.GetType() {
	case "Resource":
		failed, at = &setpointv1.MetricError{Metric: "Resource:" + m.GetResource().GetName()}, s.usage
	case "ContainerResource":
		failed, at = &setpointv1.MetricError{Metric: "ContainerResource:" + m.GetContainerResource().GetName() + ":" + m.GetContainerResource().GetContainer()}, s.usage
	case "Pods":
		id := m.GetPods().GetMetric()
		failed, at = metricError("Pods", id), s.addCustom(s.names.pods(id))
	case "Object":
		id, of := m.GetObject().GetMetric(), m.GetObject().GetDescribedObject()
		failed, at = metricError("Object", id), s.addObject(of, id)
		failed.DescribedObject = of
	case "External":
		id := m.GetExternal().GetMetric()
		failed = metricError("External", id)
		if at, err = s.addExternal(id); err != nil {
			return err
		}
	default:
		return nil
	}
	if s.fresh(at) {
		return nil
	}
	failed.Message = "it was never reported"
	if at != nil {
		failed.Message = fmt.Sprintf("it was reported %s ago; the maximum age is %s", seconds(s.now.Sub(at.AsTime())), seconds(s.most))
	}
	s.request.MetricErrors = append(s.request.MetricErrors, failed)
	return nil
}

// addCustom adds the values of an identity, and returns when they were observed; nil: never.
func (s *sampler) addCustom(identity string) *timestamppb.Timestamp {
	known := s.custom[identity]
	if s.fresh(known.GetTime()) && !s.taken[identity] {
		s.request.CustomMetrics = append(s.request.CustomMetrics, known.GetValues()...)
		s.taken[identity] = true
	}
	return known.GetTime()
}

// addObject adds the value of an object. A pod's value is among those of all pods, or was
// reported separately before; if a Pods metric needs those of all pods, the separate one is
// not added.
func (s *sampler) addObject(of *setpointv1.CrossVersionObjectReference, id *setpointv1.MetricIdentifier) *timestamppb.Timestamp {
	alone := s.names.object(of, id)
	if !isPod(of) {
		return s.addCustom(alone)
	}
	all := s.names.pods(id)
	for i, v := range s.custom[all].GetValues() {
		if v.GetDescribedObject().GetName() != of.GetName() {
			continue
		}
		if slices.Contains(s.wanted, all) {
			return s.addCustom(all)
		}
		if known := s.custom[all]; s.fresh(known.GetTime()) && !s.taken[alone] {
			s.request.CustomMetrics = append(s.request.CustomMetrics, known.GetValues()[i])
			s.taken[alone] = true
		}
		return s.custom[all].GetTime()
	}
	if slices.Contains(s.wanted, all) {
		return nil
	}
	return s.addCustom(alone)
}

// addExternal adds the series of a metric: those queried with its selector, or those without
// a selector whose labels it matches, whichever were observed later. Both together would
// count twice.
func (s *sampler) addExternal(id *setpointv1.MetricIdentifier) (*timestamppb.Timestamp, error) {
	identity, every := s.names.external(id), s.names.series(&setpointv1.MetricIdentifier{Name: id.GetName()})
	exact, all := s.external[identity], s.external[every]
	if s.taken[identity] {
		return later(exact.GetTime(), all.GetTime()), nil
	}
	if !s.fresh(all.GetTime()) || s.fresh(exact.GetTime()) && !exact.GetTime().AsTime().Before(all.GetTime().AsTime()) {
		if s.fresh(exact.GetTime()) {
			s.request.ExternalMetrics = append(s.request.ExternalMetrics, exact.GetSeries()...)
			s.taken[identity] = true
		}
		return later(exact.GetTime(), all.GetTime()), nil
	}
	selector, err := parse(id.GetSelector())
	if err != nil {
		return all.GetTime(), nil // the decision reports it
	}
	if !s.budget.Steps(len(all.GetSeries()) * (1 + terms(id.GetSelector()))) {
		return nil, ErrSelectorTerms
	}
	named := &setpointv1.MetricIdentifier{Name: id.GetName(), Selector: id.GetSelector()}
	if named.Selector == nil {
		named.Selector = &setpointv1.LabelSelector{}
	}
	found := false
	for _, series := range all.GetSeries() {
		if !selector.Matches(labels.Set(series.GetLabels())) {
			continue
		}
		if found = true; s.taken[every] && !s.budget.Copies(1) {
			return nil, ErrSelectorTerms
		}
		s.request.ExternalMetrics = append(s.request.ExternalMetrics, &setpointv1.ExternalMetric{
			Metric: named, Labels: series.GetLabels(), Value: series.GetValue(), Timestamp: series.GetTimestamp(),
		})
	}
	if !found && s.fresh(exact.GetTime()) {
		s.request.ExternalMetrics = append(s.request.ExternalMetrics, exact.GetSeries()...)
	}
	s.taken[identity], s.taken[every] = true, true
	return all.GetTime(), nil
}

// later is the later of two instants, each of which may be nil.
func later(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || b != nil && b.AsTime().After(a.AsTime()) {
		return b
	}
	return a
}

// metricError names a metric of a kind.
func metricError(kind string, id *setpointv1.MetricIdentifier) *setpointv1.MetricError {
	failed := &setpointv1.MetricError{Metric: kind + ":" + id.GetName(), Selector: id.GetSelector()}
	if failed.Selector == nil {
		failed.Selector = &setpointv1.LabelSelector{}
	}
	return failed
}

// seconds is a duration in words, in whole seconds.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Round(d.Seconds())), 10) + " s"
}
