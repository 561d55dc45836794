package setpoint

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/quantity"
)

// MaxClockSkew is how far the instant of an answer may be from the caller's clock, unless
// [Asked] sets another limit: the time for which a service remembers answers, two minutes by
// default, plus room for clock differences.
const MaxClockSkew = 10 * time.Minute

// Bounds of an answer's lists and texts; texts in bytes.
const (
	maxAnswerConditions = 16 // twice as many as there are types
	maxAnswerMetrics    = 1000
	maxAnswerWord       = 1024
	maxAnswerText       = 32 << 10
	maxAdjustments      = 32
	maxAdjustmentText   = 256
	maxFleetMembers     = 64
	// instancesDiffer is how much the clocks of a service's instances may differ.
	instancesDiffer = time.Second
)

// An AnswerError means that an answer can't belong to the request, or is invalid. Hold the
// count: do not apply the answer, nor report it.
type AnswerError struct {
	// Field is the JSON path of the first wrong field, for example "desiredReplicas"; empty:
	// there is no answer.
	Field string
	// Problem says what is wrong with it.
	Problem string
	// AnotherCaller means that the answer to a report is genuine, but shows the counts of a later
	// evaluation: another caller asked about the target in between. The report was received;
	// only its status is of no use. CheckAnswer never sets it.
	AnotherCaller bool
}

// Error returns the field and what is wrong with it.
func (e *AnswerError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// Asked is the request that an answer is checked against.
type Asked struct {
	// Request is the request that was sent. Required.
	Request *setpointv1.RecommendRequest
	// Now is the caller's clock. Zero: the system's.
	Now time.Time
	// MaxSkew is how far the answer's instant may be from Now, or from the request's
	// evaluation_time. Zero: MaxClockSkew.
	MaxSkew time.Duration
	// Previous is the last accepted answer for this target. Nil: none.
	Previous *setpointv1.RecommendResponse
	// Unrecorded reports whether the caller may only do dry runs and applies nothing, so that
	// an answer needs no recommendation_id.
	Unrecorded bool
}

// CheckAnswer returns an [AnswerError] unless the answer is valid for the request:
//
//   - current_replicas are those that were sent;
//   - desired_replicas are the same, or from min_replicas to max_replicas. No decision
//     does anything else: stabilization, policies and failed metrics may leave a count
//     where it is, even out of bounds; every change ends within them;
//   - so are plain_desired_replicas, if there are any, except those of a fleet;
//   - there is a fleet if the request has one, and no other: else the target was decided alone.
//     A member that is drained may get 0 replicas, one whose fleet holds gets those that it has, and
//     a fleet's change needs no recommendation_id;
//   - there are at most 32 adjustments, with counts from 0 and messages of at most 256 bytes;
//   - its request_id, if any, is the request's;
//   - action matches the two counts, and a change has a recommendation_id of its own;
//   - evaluation_time is near now, and not before that of the previous answer unless the answer names
//     the request, and so is none of before: then the service's clock was set back;
//   - there is a status, it agrees, and it holds nothing that a HorizontalPodAutoscaler
//     may not hold, no metric that was not asked for, no time to come and no control
//     characters.
//
// A field that is lost in transit reads as zero, and so does a count. Call CheckAnswer before
// you apply, report or store an answer.
func CheckAnswer(asked Asked, answer *setpointv1.RecommendResponse) error {
	c := answerChecker{asked: asked, answer: answer}
	if answer == nil {
		return &AnswerError{Problem: "there is no answer"}
	}
	for _, check := range []func() error{c.question, c.fleet, c.counts, c.adjustments, c.action, c.instant, c.status, c.texts, c.toldOfFleet} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// CheckReport returns an [AnswerError] unless the response is valid for a report on the
// recommendation in that answer, which CheckAnswer has accepted. A nil answer means that the
// caller no longer has it. An error with AnotherCaller says that a second caller uses the target.
func CheckReport(asked Asked, answer *setpointv1.RecommendResponse, report *setpointv1.ReportScaleRequest, response *setpointv1.ReportScaleResponse) error {
	if response == nil {
		return &AnswerError{Problem: "there is no answer"}
	}
	// An older service does not say which report it answers.
	if got, want := response.GetRecommendationId(), report.GetRecommendationId(); got != "" && got != want {
		return wrong("recommendationId", "that of another report")
	}
	c := answerChecker{asked: asked, answer: answer}
	status := response.GetStatus()
	if status == nil {
		return wrong("status", "is missing")
	}
	if err := c.form(status); err != nil {
		return err
	}
	if err := c.says(response.GetEvents(), response.GetError()); err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	return c.reportedCounts(status, report.GetOutcome() == "FAILED", response.GetRecommendationId() != "")
}

// reportedCounts checks that a status has the counts that were reported on. If the response names
// the report, other counts are those of a later evaluation.
func (c *answerChecker) reportedCounts(status *setpointv1.HorizontalPodAutoscalerStatus, failed, named bool) error {
	named = named && status.GetCurrentReplicas() >= 0 && status.GetDesiredReplicas() >= 0
	for _, count := range []struct {
		field     string
		got, want int32
		kept      bool
	}{
		{"status.currentReplicas", status.GetCurrentReplicas(), c.answer.GetCurrentReplicas(), false},
		{"status.desiredReplicas", status.GetDesiredReplicas(), c.answer.GetDesiredReplicas(), failed && c.wasDesired(status.GetDesiredReplicas())},
	} {
		switch {
		case count.got == count.want || count.kept:
		case !named:
			return wrong(count.field, "%d, but %d were reported on", count.got, count.want)
		default:
			return &AnswerError{
				Field: count.field, AnotherCaller: true,
				Problem: fmt.Sprintf("%d, but %d were reported on: another caller asked about this target since", count.got, count.want),
			}
		}
	}
	return nil
}

// answerChecker checks one answer.
type answerChecker struct {
	asked  Asked
	answer *setpointv1.RecommendResponse
}

func wrong(field, format string, args ...any) error {
	return &AnswerError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// bounds are the spec's. A member of a fleet may get 0 replicas if it is drained.
func (c *answerChecker) bounds() (least, most int32) {
	spec := c.asked.Request.GetSpec()
	least, most = 1, spec.GetMaxReplicas()
	if spec != nil && spec.MinReplicas != nil {
		least = spec.GetMinReplicas()
	}
	if c.answer.GetFleet().GetDrained() {
		least = 0
	}
	return least, most
}

// fleet checks that a member's answer is its share, and no other target's is: a service that does not
// know fleets decides for the member as if it were alone.
func (c *answerChecker) fleet() error {
	f := c.answer.GetFleet()
	switch member := c.asked.Request.GetFleet() != ""; {
	case member && f == nil:
		return wrong("fleet", "is missing, although the target is a member of one: it was decided alone, perhaps by a service that does not know fleets")
	case !member && f != nil:
		return wrong("fleet", "there is one, although none was asked about")
	case f.GetHolds() && c.changes():
		return wrong("fleet.holds", "true, but the count changes from %d to %d", c.answer.GetCurrentReplicas(), c.answer.GetDesiredReplicas())
	}
	return nil
}

// toldOfFleet checks what a fleet tells its member for people.
func (c *answerChecker) toldOfFleet() error {
	f := c.answer.GetFleet()
	if f == nil {
		return nil
	}
	if !isWord(f.GetState()) { // a newer service may have others
		return wrong("fleet.state", "%.32q is not one word", f.GetState())
	}
	members, known := f.GetMembers(), int64(0)
	for _, n := range []int32{members.GetUnseen(), members.GetFresh(), members.GetReturning(), members.GetStale(), members.GetLost()} {
		known += int64(max(n, 0))
	}
	if known > maxFleetMembers {
		return wrong("fleet.members", "%d of them", known)
	}
	for _, count := range []struct {
		field string
		n     int32
	}{
		{"desiredReplicas", f.GetDesiredReplicas()}, {"shareTotal", f.GetShareTotal()}, {"unplacedReplicas", f.GetUnplacedReplicas()},
		{"missingReplicas", f.GetMissingReplicas()}, {"members.unseen", members.GetUnseen()}, {"members.fresh", members.GetFresh()},
		{"members.returning", members.GetReturning()}, {"members.stale", members.GetStale()}, {"members.lost", members.GetLost()},
		{"members.drained", members.GetDrained()},
	} {
		if count.n < 0 {
			return wrong("fleet."+count.field, "%d", count.n)
		}
	}
	if !isInstant(f.GetDecisionTime()) {
		return wrong("fleet.decisionTime", "no instant")
	}
	return nil
}

// question checks that the answer does not belong to another request, perhaps of another
// target. An older service does not say which request it answers. The message has no id, so that
// it repeats: a status that shows it is written once.
func (c *answerChecker) question() error {
	got, want := c.answer.GetRequestId(), c.asked.Request.GetRequestId()
	if got != "" && want != "" && got != want {
		return wrong("requestId", "that of another request")
	}
	return nil
}

// named reports whether the answer has the id of its request, as none of an earlier request has.
func (c *answerChecker) named() bool {
	id := c.answer.GetRequestId()
	return id != "" && id == c.asked.Request.GetRequestId()
}

func (c *answerChecker) counts() error {
	current, desired := c.answer.GetCurrentReplicas(), c.answer.GetDesiredReplicas()
	scale := c.asked.Request.GetScale()
	if scale == nil || c.asked.Request.GetScaleError() != nil {
		// The current count is unknown: it is the last one that the service knew.
		if current < 0 || desired != current {
			return wrong("desiredReplicas", "%d of %d, although the scale could not be read", desired, current)
		}
		return nil
	}
	if current != scale.GetSpecReplicas() && !c.observed() {
		return wrong("currentReplicas", "%d, but %d were sent", current, scale.GetSpecReplicas())
	}
	least, most := c.bounds()
	if desired != current && (desired < least || desired > most) {
		return wrong("desiredReplicas", "%d, neither from %d to %d nor the current %d", desired, least, most, current)
	}
	return nil
}

// adjustments checks what stages and overrides changed, and the count without them.
func (c *answerChecker) adjustments() error {
	if plain := c.answer.PlainDesiredReplicas; plain != nil {
		least, most := c.bounds()
		known := c.asked.Request.GetScale() != nil && c.asked.Request.GetScaleError() == nil && c.answer.GetFleet() == nil // else the fleet's
		if *plain < 0 || known && *plain != c.answer.GetCurrentReplicas() && (*plain < least || *plain > most) {
			return wrong("plainDesiredReplicas", "%d, neither from %d to %d nor the current %d", *plain, least, most, c.answer.GetCurrentReplicas())
		}
	}
	if n := len(c.answer.GetAdjustments()); n > maxAdjustments {
		return wrong("adjustments", "%d of them", n)
	}
	for i, a := range c.answer.GetAdjustments() {
		at := fmt.Sprintf("adjustments[%d]", i)
		switch {
		case a.GetStage() == "" || len(a.GetStage()) > maxAdjustmentText || len(a.GetMessage()) > maxAdjustmentText,
			len(a.GetRule()) > maxAnswerWord || len(a.GetMetric()) > maxAnswerWord:
			return wrong(at, "no stage, or texts that are too long")
		case a.GetBefore() < 0 || a.GetAfter() < 0:
			return wrong(at, "from %d to %d replicas", a.GetBefore(), a.GetAfter())
		case !isWord(a.GetStage()) || !isText(a.GetRule()) || !isText(a.GetMetric()) || !isText(a.GetMessage()):
			return wrong(at+".message", "no text, or its stage, rule or metric is none")
		case !isInstant(a.GetUntilTime()):
			return wrong(at+".untilTime", "no instant")
		}
	}
	return nil
}

// observed reports whether the answer may start from the observed replicas, as two old versions
// of the controller do. If the request names neither of them the count must not change because
// of that.
func (c *answerChecker) observed() bool {
	scale := c.asked.Request.GetScale()
	if scale.StatusReplicas == nil || c.answer.GetCurrentReplicas() != scale.GetStatusReplicas() {
		return false
	}
	switch c.asked.Request.GetOptions().GetProfile() {
	case "cooldown", "design-2015":
		return true
	case "":
		return c.answer.GetDesiredReplicas() == c.answer.GetCurrentReplicas()
	}
	return false
}

func (c *answerChecker) changes() bool {
	return c.answer.GetDesiredReplicas() != c.answer.GetCurrentReplicas()
}

func (c *answerChecker) action() error {
	want := "NONE"
	switch current, desired := c.answer.GetCurrentReplicas(), c.answer.GetDesiredReplicas(); {
	case desired > current:
		want = "SCALE_UP"
	case desired < current:
		want = "SCALE_DOWN"
	}
	if got := c.answer.GetAction(); got != want {
		return wrong("action", "%.32q, but the counts say %q", got, want)
	}
	id := c.answer.GetRecommendationId()
	unrecorded := c.asked.Unrecorded || c.asked.Request.GetDryRun() || c.answer.GetFleet() != nil
	switch {
	case c.changes() && id == "" && !unrecorded:
		return wrong("recommendationId", "is missing, although the count changes")
	case len(id) > maxAnswerWord:
		return wrong("recommendationId", "%d bytes long", len(id))
	case id != "" && id == c.asked.Previous.GetRecommendationId():
		return wrong("recommendationId", "that of the answer before")
	}
	return nil
}

// instant checks the answer's instant. Its messages contain no times, so that they repeat.
func (c *answerChecker) instant() error {
	const field = "evaluationTime"
	at := c.answer.GetEvaluationTime()
	if at == nil {
		return wrong(field, "is missing")
	}
	if !at.IsValid() {
		return wrong(field, "no instant")
	}
	near, limit := c.near()
	if off := at.AsTime().Sub(near); off > limit || off < -limit {
		return wrong(field, "more than %s from now: an old answer, or a clock is wrong", limit)
	}
	before := c.asked.Previous.GetEvaluationTime()
	if before != nil && !c.named() && at.AsTime().Before(before.AsTime().Add(-instancesDiffer)) {
		return wrong(field, "before that of the answer before")
	}
	return nil
}

// near returns the instant that the answer is about, and how far its own may be from it.
func (c *answerChecker) near() (at time.Time, limit time.Duration) {
	at = c.asked.Now
	if at.IsZero() {
		at = time.Now()
	}
	if chosen := c.asked.Request.GetEvaluationTime(); chosen != nil {
		at = chosen.AsTime()
	}
	return at, cmp.Or(c.asked.MaxSkew, MaxClockSkew)
}

func (c *answerChecker) status() error {
	status := c.answer.GetStatus()
	if status == nil {
		return wrong("status", "is missing")
	}
	if got, want := status.GetCurrentReplicas(), c.answer.GetCurrentReplicas(); got != want {
		return wrong("status.currentReplicas", "%d, but currentReplicas is %d", got, want)
	}
	got, want := status.GetDesiredReplicas(), c.answer.GetDesiredReplicas()
	// An evaluation that computed no count keeps the previous one, and says why.
	kept := !c.changes() && c.answer.GetError() != "" && c.wasDesired(got)
	if got != want && !kept {
		return wrong("status.desiredReplicas", "%d, but desiredReplicas is %d", got, want)
	}
	if len(status.GetConditions()) == 0 && c.hadConditions() {
		return wrong("status.conditions", "there are none, but there were")
	}
	// Only a failed evaluation keeps the previous generation, and says what was wrong.
	if asked := c.asked.Request.Generation; status.ObservedGeneration != nil && asked != nil &&
		c.answer.GetError() == "" && status.GetObservedGeneration() != *asked {
		return wrong("status.observedGeneration", "%d, but generation %d was asked about", status.GetObservedGeneration(), *asked)
	}
	return c.form(status)
}

// hadConditions reports whether an evaluation has left conditions, which then stay.
// ScalingActive comes from evaluations only, but callers may have set AbleToScale themselves.
// The profile design-2015, which has no conditions, keeps existing ones.
func (c *answerChecker) hadConditions() bool {
	return slices.ContainsFunc(c.asked.Request.GetPreviousStatus().GetConditions(), func(had *setpointv1.HorizontalPodAutoscalerCondition) bool {
		return had.GetType() == "ScalingActive"
	})
}

// wasDesired reports whether an earlier evaluation may have computed the count.
func (c *answerChecker) wasDesired(n int32) bool {
	_, most := c.bounds()
	for _, known := range []int32{
		c.answer.GetCurrentReplicas(), c.asked.Request.GetPreviousStatus().GetDesiredReplicas(),
		c.asked.Previous.GetStatus().GetDesiredReplicas(),
	} {
		most = max(most, known)
	}
	return n >= 0 && n <= most
}

// word matches a reason, as the Kubernetes API defines it.
var word = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func isWord(s string) bool { return len(s) <= maxAnswerWord && word.MatchString(s) }

// isText reports whether a text can be shown to people: errors of metrics may have several lines,
// but nothing moves a cursor or colors a terminal.
func isText(s string) bool {
	return len(s) <= maxAnswerText && utf8.ValidString(s) && printable.Lines(s) == s
}

// form checks the parts of a status other than counts.
func (c *answerChecker) form(status *setpointv1.HorizontalPodAutoscalerStatus) error {
	if status.ObservedGeneration != nil && status.GetObservedGeneration() < 0 {
		return wrong("status.observedGeneration", "negative")
	}
	previous := c.asked.Request.GetPreviousStatus()
	if problem := c.timeProblem(status.GetLastScaleTime(), previous.GetLastScaleTime()); problem != "" {
		return wrong("status.lastScaleTime", "%s", problem)
	}
	if err := c.readings(status.GetCurrentMetrics()); err != nil {
		return err
	}
	if n := len(status.GetConditions()); n > maxAnswerConditions {
		return wrong("status.conditions", "%d of them", n)
	}
	seen := map[string]bool{}
	for i, condition := range status.GetConditions() {
		problem := conditionProblem(condition, seen)
		if problem == "" {
			if problem = c.timeProblem(condition.GetLastTransitionTime(), transition(previous, condition.GetType())); problem != "" {
				problem = "lastTransitionTime is " + problem
			}
		}
		if problem != "" {
			return wrong(fmt.Sprintf("status.conditions[%d]", i), "%s", problem)
		}
	}
	return nil
}

// conditionProblem returns the problem of a condition; seen are the earlier types.
func conditionProblem(c *setpointv1.HorizontalPodAutoscalerCondition, seen map[string]bool) string {
	// A newer service may have types that this version does not know.
	if !isWord(c.GetType()) {
		return fmt.Sprintf("type %.64q is not one word", c.GetType())
	}
	if seen[c.GetType()] {
		return "type " + c.GetType() + " was there before"
	}
	seen[c.GetType()] = true
	switch c.GetStatus() {
	case "True", "False", "Unknown":
	default:
		return fmt.Sprintf("status %.32q is not one of a condition's", c.GetStatus())
	}
	switch {
	case !isWord(c.GetReason()):
		return fmt.Sprintf("reason %.64q is not one word", c.GetReason())
	case !isText(c.GetMessage()):
		return "message is not valid text, or too long"
	}
	return ""
}

// transition returns the lastTransitionTime of a condition, nil without one.
func transition(status *setpointv1.HorizontalPodAutoscalerStatus, of string) *timestamppb.Timestamp {
	for _, c := range status.GetConditions() {
		if c.GetType() == of {
			return c.GetLastTransitionTime()
		}
	}
	return nil
}

// isInstant reports whether a time is valid or absent.
func isInstant(t *timestamppb.Timestamp) bool { return t == nil || t.IsValid() }

// timeProblem returns the problem of a time of the past, which may be absent: a time to come, unless
// the caller's own status had it.
func (c *answerChecker) timeProblem(t, had *timestamppb.Timestamp) string {
	near, limit := c.near()
	switch {
	case !isInstant(t):
		return "no instant"
	case t != nil && t.AsTime().Sub(near) > limit && !t.AsTime().Equal(had.AsTime()):
		return "in the future"
	}
	return ""
}

// readings checks current metrics: each is one that was asked for, or that the previous status
// had, which a failed evaluation keeps.
func (c *answerChecker) readings(readings []*setpointv1.MetricStatus) error {
	spec, previous := c.asked.Request.GetSpec().GetMetrics(), c.asked.Request.GetPreviousStatus().GetCurrentMetrics()
	asked := c.asked.Request.GetSpec() != nil // a report that is sent again may have lost it
	most := max(len(spec), len(previous), 1)
	if !asked {
		most = maxAnswerMetrics
	}
	if n := len(readings); n > most {
		return wrong("status.currentMetrics", "%d of them, for %d metrics", n, len(spec))
	}
	known := map[string]bool{
		nameOfMetric("", "", "", "", ""): true, // could not be computed
	}
	if len(spec) == 0 {
		known[nameOfMetric("Resource", "cpu", "", "", "")] = true // the default
	}
	for _, m := range spec {
		known[nameOfMetric(m.GetType(), m.GetResource().GetName(), m.GetContainerResource().GetContainer()+m.GetContainerResource().GetName(),
			m.GetObject().GetMetric().GetName()+m.GetPods().GetMetric().GetName(), m.GetExternal().GetMetric().GetName())] = true
	}
	nameOf := func(m *setpointv1.MetricStatus) string {
		return nameOfMetric(m.GetType(), m.GetResource().GetName(), m.GetContainerResource().GetContainer()+m.GetContainerResource().GetName(),
			m.GetObject().GetMetric().GetName()+m.GetPods().GetMetric().GetName(), m.GetExternal().GetMetric().GetName())
	}
	for _, m := range previous {
		known[nameOf(m)] = true
	}
	for i, m := range readings {
		if asked && !known[nameOf(m)] {
			return wrong(fmt.Sprintf("status.currentMetrics[%d]", i), "type %.64q is of a metric that was not asked for", m.GetType())
		}
		for _, v := range []*setpointv1.MetricValueStatus{
			m.GetObject().GetCurrent(), m.GetPods().GetCurrent(), m.GetResource().GetCurrent(),
			m.GetContainerResource().GetCurrent(), m.GetExternal().GetCurrent(),
		} {
			if v == nil {
				continue
			}
			for _, text := range []*string{v.Value, v.AverageValue} {
				if text == nil {
					continue
				}
				if _, err := quantity.Parse(*text); err != nil {
					return wrong("status", "currentMetrics[%d]: %.64q is not a quantity: %v", i, *text, err)
				}
			}
		}
	}
	return nil
}

// nameOfMetric identifies a metric of a spec or a status.
func nameOfMetric(kind, resource, container, custom, external string) string {
	return strings.Join([]string{kind, resource, container, custom, external}, "\x00")
}

func (c *answerChecker) texts() error {
	if !isText(c.answer.GetReason()) {
		return wrong("reason", "no text, or too long")
	}
	return c.says(c.answer.GetEvents(), c.answer.GetError())
}

// says checks events and an error.
func (c *answerChecker) says(events []*setpointv1.Event, problem string) error {
	if !isText(problem) {
		return wrong("error", "no text, or too long")
	}
	// One per metric, and some about the whole.
	if n := len(events); n > len(c.asked.Request.GetSpec().GetMetrics())+8 {
		return wrong("events", "%d of them", n)
	}
	for i, e := range events {
		if e.GetType() != "Normal" && e.GetType() != "Warning" || !isWord(e.GetReason()) || !isText(e.GetMessage()) {
			return wrong(fmt.Sprintf("events[%d]", i), "type %.32q, reason %.64q and %d bytes of message are none of an event's", e.GetType(), e.GetReason(), len(e.GetMessage()))
		}
	}
	return nil
}
