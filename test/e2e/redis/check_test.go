//go:build linux

package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	kept "github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// record is all answers about one target, and its final state.
type record struct {
	name  string
	calls []*call
	// target is nil if nothing is stored.
	target *setpointv1.Target
	// order is the calls of the target's recommendations, in the order of the history.
	order []*call
}

// targetFunc reads the record of a target, nil if there is none.
type targetFunc func(name string) (*setpointv1.Target, error)

// records sorts the calls of a finished load by target, and reads the state of each.
func (l *load) records(read targetFunc) []*record {
	l.t.Helper()
	byName := make(map[string]*record)
	var all []*record
	for _, c := range l.calls {
		r := byName[c.request.GetTarget()]
		if r == nil {
			r = &record{name: c.request.GetTarget()}
			byName[r.name] = r
			all = append(all, r)
		}
		r.calls = append(r.calls, c)
	}
	for _, r := range all {
		target, err := read(r.name)
		if err != nil {
			l.t.Fatalf("%s is not readable in the end: %v", r.name, err)
		}
		r.target = target
		slices.SortFunc(r.calls, func(a, b *call) int { return cmp.Compare(a.from, b.from) })
	}
	return all
}

// targetReader reads targets from a service.
func targetReader(t *testing.T, s *service.Instance) targetFunc {
	return func(name string) (*setpointv1.Target, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		response, err := s.Targets().GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
		if status.Code(err) == codes.NotFound {
			return nil, nil
		}
		return response.GetTarget(), err
	}
}

// applied reports whether the history has the call's change as applied.
func (r *record) applied(c *call) bool {
	return slices.ContainsFunc(r.target.GetHistory().GetScaleUps(), func(e *setpointv1.ScaleEvent) bool {
		return e.GetReplicaChange() == c.value-c.request.GetScale().GetSpecReplicas()
	})
}

// account counts the fates of the calls of one target or of many.
type account struct {
	// answered calls, and those with unknown outcome, by whether they are in the history.
	answered, unknownKept, unknownGone int
	// lost were answered and are not in the history.
	lost []*call
	// lostReports were answered as applied, and the history does not have them so.
	lostReports []*call
	// faults are violations: lost, doubled, or of unknown origin.
	faults []string
}

func (a *account) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// accountOf compares the calls of each target with its history.
func accountOf(records []*record) *account {
	a := &account{}
	for _, r := range records {
		a.add(r)
	}
	slices.SortFunc(a.lost, func(x, y *call) int { return cmp.Compare(x.to, y.to) })
	return a
}

func (a *account) add(r *record) {
	byValue := make(map[int32]*call)
	for _, c := range r.calls {
		byValue[c.value] = c
	}
	kept := make(map[*call]bool)
	r.order = nil
	for i, recommendation := range r.target.GetHistory().GetRecommendations() {
		c := byValue[recommendation.GetReplicas()]
		switch {
		case i == 0:
			if recommendation.GetReplicas() != 1 {
				a.fault("%s: the first recommendation is %d, not the count at first sight", r.name, recommendation.GetReplicas())
			}
			continue
		case c == nil:
			a.fault("%s: recommendation %d, %d, is nobody's", r.name, i, recommendation.GetReplicas())
		case kept[c]:
			a.fault("%s: %s is there twice", r.name, c.request.GetRequestId())
		}
		kept[c] = true
		r.order = append(r.order, c)
	}
	for _, c := range r.calls {
		switch {
		case c.answer != nil:
			a.answered++
			if !kept[c] {
				a.lost = append(a.lost, c)
			}
		case kept[c]:
			a.unknownKept++
		default:
			a.unknownGone++
		}
		if c.report != nil && len(c.report.answer.GetEvents()) > 0 && !r.applied(c) {
			a.lostReports = append(a.lostReports, c)
		}
	}
}

// # The model
//
// A target is a list of recommendations to which each call appends its own. A call
// shows how many were there and the highest with its own, and how many changes had
// been applied, their sum and the instant of the last. Its change is pending until the
// next call; a report in time applies it.

// state of a target in the model.
type state struct {
	recommendations int32
	highest         int32
	pending         int32 // the recommendation with the pending change, 0: none
	pendingAt       int64
	changes
}

// changes that were applied.
type changes struct {
	count, sum int32
	last       int64 // nanoseconds since the Unix epoch, 0: none
}

// The inputs of the model. Outputs are a sight for appending and reading, and whether
// it was in time for reporting.
type (
	appending struct {
		value int32
		at    int64
	}
	reporting struct{ value int32 }
	reading   struct{ pending int32 }
)

// sight is what an answer shows about a target.
type sight struct {
	recommendations, highest int32
	changes
	// counted says that only recommendations counts: there was no answer to show more.
	counted bool
}

func (s sight) matches(shown sight) bool {
	if shown.counted {
		return s.recommendations == shown.recommendations
	}
	return s == shown
}

// step is the model's step; ok says that the output may be that of the input.
func (s state) step(input, output any) (ok bool, next state) {
	next = s
	switch in := input.(type) {
	case appending:
		if next.recommendations == 0 {
			next.recommendations, next.highest = 1, 1 // the count at first sight
		}
		next.recommendations++
		next.highest = max(next.highest, in.value)
		next.pending, next.pendingAt = in.value, in.at
		return sight{s.recommendations, next.highest, s.changes, false}.matches(output.(sight)), next
	case reporting:
		inTime := s.pending == in.value
		if inTime {
			next.changes = changes{s.count + 1, s.sum + in.value - 1, s.pendingAt}
			next.pending = 0
		}
		return inTime == output.(bool), next
	case reading:
		return s.pending == in.pending && sight{s.recommendations, s.highest, s.changes, false}.matches(output.(sight)), next
	}
	return false, s
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, input, output any) (bool, any) { return s.(state).step(input, output) },
}

// linearizable reports whether there is an order of all calls of the target, and of a final
// read, in which each took effect during its time. Otherwise the error says how far an order
// gets.
func (r *record) linearizable() error {
	operations := r.operations()
	result, info := porcupine.CheckOperationsVerbose(model, operations, time.Minute)
	if result == porcupine.Ok {
		return nil
	}
	longest := 0
	var rest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) <= longest {
			continue
		}
		longest = len(partial)
		placed := make(map[any]bool)
		for _, o := range partial {
			placed[o.Metadata] = true
		}
		rest = nil
		for _, o := range operations {
			if !placed[o.Metadata] {
				rest = append(rest, o)
			}
		}
	}
	text := fmt.Sprintf("%s: %s, %d of %d operations find a place; not among others:", r.name, result, longest, len(operations))
	for _, o := range rest[:min(len(rest), 4)] {
		text += fmt.Sprintf("\n  %T%+v -> %+v from %v to %v", o.Input, o.Input, o.Output, time.Duration(o.Call), time.Duration(o.Return))
	}
	return errors.New(text)
}

// operations of the target, for porcupine. A call with unknown outcome took effect before the
// final read if that shows it, and else never: records are permanent.
func (r *record) operations() []porcupine.Operation {
	const end = math.MaxInt64 - 1
	var all []porcupine.Operation
	add := func(s span, known bool, input, output any) {
		to := int64(s.to)
		if !known {
			to = end
		}
		all = append(all, porcupine.Operation{Input: input, Output: output, Call: int64(s.from), Return: to, Metadata: len(all)})
	}
	places := make(map[*call]int)
	for i, c := range r.order {
		places[c] = i
	}
	for _, c := range r.calls {
		place, kept := places[c]
		switch {
		case c.answer != nil:
			add(c.span, true, appending{c.value, c.answer.GetEvaluationTime().AsTime().UnixNano()}, sightOf(c.answer))
		case kept:
			at := r.target.GetHistory().GetRecommendations()[place+1].GetTime().AsTime().UnixNano()
			before := int32(0)
			if place > 0 {
				before = int32(place + 1)
			}
			add(c.span, false, appending{c.value, at}, sight{recommendations: before, counted: true})
		}
		if c.report != nil {
			inTime := len(c.report.answer.GetEvents()) > 0
			answered := c.report.answer != nil || c.report.unknown
			// The answer to the attempt that was in time may have been lost.
			if !inTime && (c.report.attempts > 1 || !answered) {
				inTime = r.applied(c)
			}
			if answered || inTime {
				add(c.report.span, answered, reporting{c.value}, inTime)
			}
		}
	}
	last := int64(end)
	return append(all, porcupine.Operation{
		Input: reading{r.target.GetHistory().GetPending().GetDesiredReplicas()}, Output: r.lastSight(),
		Call: last, Return: last, Metadata: len(all),
	})
}

// sightOf is what the answer shows.
func sightOf(answer *setpointv1.RecommendResponse) sight {
	e := answer.GetExplanation()
	s := sight{
		recommendations: e.GetHistory().GetRecommendations(),
		changes:         changes{count: e.GetHistory().GetScaleUps(), last: nanoseconds(answer.GetStatus().GetLastScaleTime())},
	}
	for _, window := range e.GetStabilization().GetWindows() {
		if window.GetDirection() == "Down" {
			s.highest = window.GetReplicas()
		}
	}
	for _, policy := range e.GetRateLimit().GetPolicies() {
		s.sum = policy.GetScaledUp()
	}
	return s
}

// lastSight is the final state.
func (r *record) lastSight() sight {
	history := r.target.GetHistory()
	s := sight{
		recommendations: int32(len(history.GetRecommendations())),
		changes:         changes{count: int32(len(history.GetScaleUps())), last: nanoseconds(r.target.GetStatus().GetLastScaleTime())},
	}
	for _, recommendation := range history.GetRecommendations() {
		s.highest = max(s.highest, recommendation.GetReplicas())
	}
	for _, event := range history.GetScaleUps() {
		s.sum += event.GetReplicaChange()
	}
	return s
}

func nanoseconds(t *timestamppb.Timestamp) int64 {
	if t == nil {
		return 0
	}
	return t.AsTime().UnixNano()
}

// engines returns what the engine knows of a target: without the spec in use, and what the service
// makes of it.
func engines(t *setpointv1.Target) *setpointv1.Target {
	t = proto.CloneOf(t)
	t.SpecInUse, t.Outlook, t.Explanation = nil, nil, nil
	if t.LastDecision != nil {
		t.LastDecision.SpecHash = ""
	}
	return t
}

// replay makes the calls again by the recommender alone, in the order of the history,
// and returns where answers or the history come out otherwise. It needs accountOf
// before.
func (r *record) replay() (differences []string) {
	compare := func(what string, got, want proto.Message) {
		if !proto.Equal(got, want) {
			differences = append(differences, fmt.Sprintf("%s: %s:\n  was    %s\n  replay %s", r.name, what, protojson.Format(got), protojson.Format(want)))
		}
	}
	var history kept.Record
	for i, c := range r.order {
		input, violations := conversion.Input(c.request, recommender.DefaultOptions())
		if len(violations) > 0 {
			return append(differences, fmt.Sprint(violations))
		}
		id := c.answer.GetRecommendationId()
		if id == "" && i == len(r.order)-1 {
			id = r.target.GetLastDecision().GetRecommendationId() // no caller got it
		}
		input.ID, _ = recommender.ParseID(id)
		at := r.target.GetHistory().GetRecommendations()[i+1].GetTime().AsTime()
		decision, next := recommender.Recommend(at, input, &history.History)
		if c.answer != nil {
			answer := conversion.Response(&decision)
			answer.RequestId = new(c.request.GetRequestId())
			compare(c.request.GetRequestId(), c.answer, answer)
		}
		history = history.Next(next, kept.Owner{})
		history = history.WithAnswer(kept.NewAnswer(c.request.GetRequestId(), &decision, nil), kept.Limits{Retention: time.Hour, Count: 1, Bytes: 1 << 20})
		if !r.applied(c) {
			continue
		}
		settlement, settled, err := history.Settle("load", input.ID, recommender.Applied, "")
		if err != nil {
			return append(differences, fmt.Sprintf("%s: %s: %v", r.name, c.request.GetRequestId(), err))
		}
		history = settled
		if c.report != nil && len(c.report.answer.GetEvents()) > 0 {
			compare("report of "+c.request.GetRequestId(), c.report.answer, conversion.Settlement(id, &settlement))
		}
	}
	if r.target != nil {
		compare("in the end", engines(r.target), conversion.Target(r.name, &history, true))
	}
	return differences
}

// show joins the first of many findings.
func show(findings []string) string {
	const most = 3
	text := strings.Join(findings[:min(most, len(findings))], "\n")
	if more := len(findings) - most; more > 0 {
		text += fmt.Sprintf("\n… and %d more", more)
	}
	return text
}

// checkAll fails the test unless nothing was lost or doubled, there is an order, and the replay
// gives the same result. It returns the account and porcupine's duration.
func checkAll(t *testing.T, records []*record) (*account, time.Duration) {
	t.Helper()
	a := accountOf(records)
	if len(a.faults) > 0 {
		t.Errorf("%d faults in histories:\n%s", len(a.faults), show(a.faults))
	}
	if len(a.lost)+len(a.lostReports) > 0 {
		t.Errorf("%d answered recommendations and %d answered reports are lost", len(a.lost), len(a.lostReports))
	}
	var disorders, differences []string
	began := time.Now()
	for _, r := range records {
		if err := r.linearizable(); err != nil {
			disorders = append(disorders, err.Error())
		}
	}
	took := time.Since(began)
	for _, r := range records {
		differences = append(differences, r.replay()...)
	}
	if len(disorders) > 0 {
		t.Errorf("%d targets are not linearizable:\n%s", len(disorders), show(disorders))
	}
	if len(differences) > 0 {
		t.Errorf("%d differences to the replay:\n%s", len(differences), show(differences))
	}
	return a, took
}
