package stored

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/labels"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Poll is a caller's request for a recommendation from stored observations. Nothing of it
// reaches other callers but the count, and that only by the decision that the poll causes.
type Poll struct {
	// Current is the number of replicas that the caller observes. Nil: not sent.
	Current *int32
	// Min and Max narrow the bounds of the spec in the answer. Nil: they don't.
	Min, Max *int32
	// CapMin and CapMax are the operator's for the caller, and narrow the answer further. Nil:
	// there are none.
	CapMin, CapMax *int32
	// DryRun is set if the operator lets the caller record nothing.
	DryRun bool
}

// Recommendation returns the recommendation of a target from its stored spec and observations,
// within the bounds of the poll: by the last decision, if it is not older than the spec's period
// and made with this spec, else by a new one. An UndecidedError or an OtherCountError means that
// there is no count. Concurrent callers that need a new decision share one.
func (t *Targets) Recommendation(ctx context.Context, key store.Key, poll Poll) (*setpointv1.Recommendation, error) {
	known, err := t.outcome(ctx, key, poll)
	if err != nil {
		return nil, err
	}
	return known.answer(poll)
}

// outcome returns the outcome that answers a poll.
func (t *Targets) outcome(ctx context.Context, key store.Key, poll Poll) (*outcome, error) {
	var l lease
	defer func() { l.end() }()
	var fetched *Fetched
	var fetchedFor store.Version // of the spec
	decisions := t.decisions.of(key)
	for {
		before := decisions.Load()
		records, err := t.parts.LoadParts(ctx, key, l.most(), store.Specs, "")
		if err != nil {
			return nil, err
		}
		q := &question{key: key, poll: poll, records: records, now: t.options.Clock()}
		by := asker{key, poll.DryRun, poll.Current != nil && *poll.Current == 0}
		if known, ok := t.outcomes.Get(by); ok && known.counts(records, q.now) {
			return known.outcome, nil
		}
		if records[0].Cut || records[1].Cut {
			if err := t.turn(ctx, &l); err != nil {
				return nil, err
			}
			continue
		}
		if err := q.decode(); err != nil {
			return nil, err
		}
		// By a caller's word alone nobody else's workload is switched off.
		q.unrecorded = by.off && validation.MinReplicas(q.spec.GetSpec()) > 0
		answered := answers(&q.record, q.spec, q.now)
		var decided *outcome
		if answered {
			decided = newOutcome(last(&q.record), q.record.Last.Error, q.spec)
			if q.record.Last.To > 0 && decided.undecided == nil {
				t.remember(by, records, q.record.Last.At, decided)
				return decided, nil
			}
		}
		observed, err := t.parts.LoadParts(ctx, key, l.most(), store.Observations)
		if err != nil {
			return nil, err
		}
		if q.observed = observed[0]; q.observed.Cut {
			if err := t.turn(ctx, &l); err != nil {
				return nil, err
			}
			continue
		}
		scaled, newest, err := instants(q.observed)
		if err != nil {
			return nil, err
		}
		// A target leaves zero, and a count that could not be computed is computed, as soon as a
		// report allows it, not a period later; fetched metrics are evaluated once per period.
		if answered && (len(q.spec.GetQueries()) > 0 || !newest.After(time.Unix(0, q.record.Last.At))) {
			return decided, nil
		}
		if poll.Current == nil && !q.spec.GetAssumeApplied() && !(ages{q.now, maxAge(q.spec)}).fresh(scaled) {
			return nil, q.noScale() // before anything is fetched or decoded
		}
		if !answered && fetchedFor != records[0].Version {
			// Sources may take long, and their queries may need memory: who waits for that must hold none.
			large := l.leave != nil
			l.end()
			pods, err := podNames(q.spec, q.observed, q.now)
			if err != nil {
				return nil, err
			}
			spec, version := q.spec, records[0].Version
			if large {
				q, records, observed, decided = nil, nil, nil, nil
			}
			if fetched, err = t.fetch(ctx, key, spec, pods); err != nil {
				return nil, err
			}
			if fetchedFor = version; large {
				continue
			}
		}
		if !l.decodes {
			free := func() { q, records, observed, decided = nil, nil, nil, nil }
			freed, err := t.room(ctx, &l, len(q.observed.Value)+len(records[0].Value), free)
			if err != nil {
				return nil, err
			}
			if freed || decisions.Load() != before { // another poll may have decided meanwhile
				free()
				continue
			}
		}
		known, err := t.decide(ctx, q, fetched)
		if err != nil {
			return nil, err
		}
		if known.undecided == nil && (poll.DryRun || q.unrecorded) {
			t.remember(by, records, known.recommendation.GetEvaluationTime().AsTime().UnixNano(), known)
		}
		decisions.Add(1)
		return known, nil
	}
}

// counters count the decisions of polls. Several targets share one, so that there are few.
type counters struct {
	seed   maphash.Seed
	counts [1024]atomic.Uint64
}

// of returns the counter of a target.
func (c *counters) of(key store.Key) *atomic.Uint64 {
	return &c.counts[maphash.Comparable(c.seed, key)%uint64(len(c.counts))]
}

// question is a poll with the records that answer it.
type question struct {
	key     store.Key
	poll    Poll
	records []store.Record // of the spec and the history
	now     time.Time

	spec     *setpointv1.TargetSpec
	record   record.Record
	observed store.Record
	// unrecorded is set if the decision is the poller's own.
	unrecorded bool
	// begins is set if nothing says how many replicas there are.
	begins bool
}

// decode decodes the spec and the history. The error is the poller's if its bounds exclude those
// of the spec.
func (q *question) decode() (err error) {
	if q.spec, err = decodeSpec(q.key, q.records[0]); err != nil {
		return err
	}
	if q.spec.GetFleet() != nil {
		return ErrIsFleet
	}
	if _, _, err := q.poll.within(validation.MinReplicas(q.spec.GetSpec()), q.spec.GetSpec().GetMaxReplicas()); err != nil {
		return err
	}
	if q.records[1].Exists() {
		if q.record, err = record.Decode(q.records[1].Value); err != nil {
			return &UnreadableError{"history", err}
		}
	}
	return nil
}

func (q *question) noScale() error {
	return fmt.Errorf("%w: it was not reported in the last %s", ErrNoScale, maxAge(q.spec))
}

// decide decides on a poll, unless an earlier one of the period had the same records, and it is known that no count comes of
// them: nothing is recorded then, and each poll would decode the observation again.
func (t *Targets) decide(ctx context.Context, q *question, fetched *Fetched) (*outcome, error) {
	by := asker{q.key, q.poll.DryRun, q.poll.Current != nil && *q.poll.Current == 0}
	now := t.options.Clock()
	f := &failure{of: [...]store.Version{q.records[0].Version, q.records[1].Version, q.observed.Version}, at: now.UnixNano()}
	if known, ok := t.failures.Get(by); ok && known.of == f.of && counts(known.at, period(q.spec), now) {
		return known.outcome, known.err
	}
	var unreadable *UnreadableError
	f.outcome, f.err = t.decideAnew(ctx, q, fetched)
	switch o := f.outcome; {
	// What the records do not tell is not known for other polls.
	case f.err != nil && !errors.Is(f.err, ErrSelectorTerms) && !errors.As(f.err, &unreadable):
	case f.err != nil, o.undecided != nil && (q.poll.DryRun || q.unrecorded) && proto.Size(o.recommendation) <= mostCached:
		t.failures.Put(by, f)
	}
	return f.outcome, f.err
}

func (t *Targets) decideAnew(ctx context.Context, q *question, fetched *Fetched) (*outcome, error) {
	observed, err := decodeObservation(q.observed)
	if err != nil {
		return nil, err
	}
	q.now = t.options.Clock() // fetching and waiting may have taken a while
	request, err := t.request(q, observed, fetched)
	if err != nil {
		return nil, err
	}
	if q.begins {
		t.begin(ctx, request)
	}
	request.DryRun = request.DryRun || q.unrecorded
	response, err := t.options.Recommend(ctx, request, record.Poll{Spec: q.spec.GetEtag(), After: q.record.Last.ID, AfterAt: q.record.Last.At, Shadows: shadows.Specs(q.spec)})
	if err != nil {
		return nil, err
	}
	return newOutcome(&setpointv1.Recommendation{
		DesiredReplicas: response.GetDesiredReplicas(), CurrentReplicas: response.GetCurrentReplicas(),
		Action: response.GetAction(), RecommendationId: response.GetRecommendationId(), Reason: response.GetReason(),
		EvaluationTime: response.GetEvaluationTime(), Status: response.GetStatus(),
		Adjustments: response.GetAdjustments(), PlainDesiredReplicas: response.PlainDesiredReplicas,
	}, response.GetError(), q.spec), nil
}

// begin has a target whose count nobody knows begin where its metrics want it, if that is more than assumed: a workload
// whose history is lost has its full load, and policies that count from the minimum would take most of it away.
func (t *Targets) begin(ctx context.Context, request *setpointv1.RecommendRequest) {
	asked := proto.CloneOf(request)
	asked.DryRun = true
	if asked.Spec.Behavior == nil {
		asked.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{}
	}
	if asked.Spec.Behavior.ScaleUp == nil {
		asked.Spec.Behavior.ScaleUp = &setpointv1.HPAScalingRules{}
	}
	up, most := asked.Spec.Behavior.ScaleUp, max(1, asked.GetSpec().GetMaxReplicas()-asked.GetScale().GetSpecReplicas())
	up.StabilizationWindowSeconds, up.SelectPolicy = proto.Int32(0), proto.String("Max")
	up.Policies = []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: most, PeriodSeconds: 1}}
	if response, err := t.options.Recommend(ctx, asked, record.Poll{}); err == nil && response.GetError() == "" {
		request.Scale.SpecReplicas = max(request.GetScale().GetSpecReplicas(), response.GetDesiredReplicas())
	}
}

// answers reports whether the last decision answers polls.
func answers(r *record.Record, spec *setpointv1.TargetSpec, now time.Time) bool {
	return r.Last.At != 0 && r.LastPoll == spec.GetEtag() && counts(r.Last.At, period(spec), now)
}

// counts reports whether a decision is neither too old nor, as after a clock was set back, further in the future than a period:
// that of an instance whose clock is ahead counts for those that are behind, too, or each of their polls would decide.
func counts(at int64, period time.Duration, now time.Time) bool {
	age := now.Sub(time.Unix(0, at))
	return -period < age && age < period
}

// last returns the last decision of a record.
func last(r *record.Record) *setpointv1.Recommendation {
	d := &r.Last
	adjustments, plain := conversion.Adjusted(r.Adjusted)
	return &setpointv1.Recommendation{
		Adjustments: adjustments, PlainDesiredReplicas: plain,
		DesiredReplicas: d.To, CurrentReplicas: d.From, Action: conversion.Action(d.From, d.To),
		RecommendationId: d.ID.String(), Reason: d.Reason,
		EvaluationTime: timestamppb.New(time.Unix(0, d.At)), Status: conversion.Status(&r.Status),
	}
}

// request builds the request of a caller with the stored spec and observations.
func (t *Targets) request(q *question, observed *storedv1.Observation, fetched *Fetched) (*setpointv1.RecommendRequest, error) {
	request := &setpointv1.RecommendRequest{
		Target: q.key.String(), Spec: proto.Clone(q.spec.GetSpec()).(*setpointv1.HorizontalPodAutoscalerSpec), Options: q.spec.GetOptions(), Stages: q.spec.GetStages(),
	}
	a := ages{q.now, maxAge(q.spec)}
	scale, err := a.scale(observed, q)
	if err != nil {
		return nil, err
	}
	request.Scale, request.Proposals = scale, a.proposals(observed)
	if err := a.samples(request, q.spec, observed, fetched, cost.BudgetOf(proto.Size(observed)+proto.Size(q.spec))); err != nil {
		return nil, err
	}
	return request, nil
}

// ages decides which observations are too old.
type ages struct {
	now  time.Time
	most time.Duration
}

// proposals returns those that have not expired for long. The clock of an instance that took one may have
// been ahead: it may expire at most an hour from now.
func (a ages) proposals(o *storedv1.Observation) (out []*setpointv1.Proposal) {
	latest := timestamppb.New(a.now.Add(conversion.MostAhead))
	for _, p := range o.GetProposals() {
		expires := p.GetExpireTime().AsTime()
		if a.now.Sub(expires) > a.most {
			continue
		}
		if expires.After(latest.AsTime()) {
			p = proto.Clone(p).(*setpointv1.Proposal)
			p.ExpireTime = latest
		}
		out = append(out, p)
	}
	return out
}

// mostAhead is how far instances' clocks may be apart, by the usual bound of each (--max-clock-skew).
const mostAhead = time.Minute

// fresh reports whether observations of that instant count. How old those of a clock that was ahead are nobody knows.
func (a ages) fresh(at *timestamppb.Timestamp) bool {
	if at == nil {
		return false
	}
	age := a.now.Sub(at.AsTime())
	return age <= a.most && age >= -max(a.most, mostAhead)
}

// scale returns the caller's scale, else the observed one, else the recommended one.
func (a ages) scale(o *storedv1.Observation, q *question) (*setpointv1.Scale, error) {
	switch {
	case q.poll.Current != nil:
		scale := &setpointv1.Scale{SpecReplicas: *q.poll.Current}
		if a.fresh(o.GetScaleTime()) {
			scale.Selector = o.GetScale().GetSelector()
		}
		return scale, nil
	case a.fresh(o.GetScaleTime()):
		return o.GetScale(), nil
	case !q.spec.GetAssumeApplied():
		return nil, q.noScale()
	}
	assumed := max(validation.MinReplicas(q.spec.GetSpec()), q.record.Last.To)
	q.begins = !decidedOnce(q.record.History)
	// At zero the controller acts only if it scaled there itself, so that nothing begins there.
	if assumed == 0 && (q.record.Last.At == 0 || scalingDisabled(&q.record.History)) {
		assumed = 1
	}
	return &setpointv1.Scale{SpecReplicas: assumed}, nil
}

// decidedOnce reports whether the metrics of a history could ever be read: a failure records no recommendation, and the first
// one is the count that was there.
func decidedOnce(h recommender.History) bool {
	h.Unpack()
	return h.Last.At != 0 && (h.Last.Error == "" || len(h.Recommendations) > 1)
}

// scalingDisabled reports whether, at the last decision, the count was 0 and left alone.
func scalingDisabled(h *recommender.History) bool {
	return slices.ContainsFunc(h.Status.Conditions, func(c recommender.Condition) bool {
		return c.Type == recommender.ScalingActive && c.Reason == recommender.ScalingDisabled
	})
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
		if ahead := at.AsTime().Sub(s.now); ahead > 0 {
			failed.Message = fmt.Sprintf("it was reported by a clock that was %s ahead, so its age is not known", seconds(ahead))
		}
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
