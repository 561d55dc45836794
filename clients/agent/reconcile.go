package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// reconcile is one reconcile of one object: observe, ask, apply, report.
type reconcile struct {
	*Loop
	o   *Object
	st  *state
	log *zap.Logger
	// telling is what the platform shows people about the reconcile.
	telling *Telling
	// retry reports whether to retry before the next reconcile is due. Only a reconcile without
	// a decision may: two decisions in a row might double the count twice.
	retry bool
	// settled is when the last answer arrived; zero: none did.
	settled time.Time
	// fresh reports whether the target was just deleted at the service.
	fresh bool
}

// maxDecisions bounds the decisions of one reconcile while others change the count.
const maxDecisions = 3

// run reconciles and returns the outcome.
func (r *reconcile) run(ctx context.Context) Outcome {
	r.warn()
	if r.o.Hold != nil && !r.o.callsHeld() {
		r.presence.pass(r.o.Key)
		return r.hold(*r.o.Hold)
	}
	if ok, since, reason := r.presence.admit(r.o.Key); !ok {
		return r.holdAway(since, reason, true)
	}
	asked := time.Now()
	if err := r.begin(ctx); err != nil {
		return r.unanswered(asked, err)
	}
	for range maxDecisions {
		e, err := r.decide(ctx)
		if err != nil {
			r.lost()
			return r.failed(ctx, e, err)
		}
		moved, outcome := r.carryOut(ctx, e)
		if !moved {
			r.st.moved = 0
			return outcome
		}
		r.lost()
		if !r.stands(ctx) {
			return OutcomeMoved
		}
		// Someone else changed the count after it was read: the decision is void. The service
		// sees that in the count of the next request.
		r.once.say(r.log, zapcore.InfoLevel, "count changed by others, deciding again", "")
	}
	if r.st.moved++; r.st.moved >= maxMoved {
		return r.hold(Hold{
			Outcome: OutcomeMoved, Reason: ReasonCountContested,
			Message: "no count was written in the last periods, because the workload has changed each time since it was read, or the platform says so",
		})
	}
	return OutcomeMoved
}

// stands reports whether the object is as it was when the reconcile began: while the service was asked, and by whoever
// changed the count, it may have been opted out, given other bounds, or recreated. The next reconcile goes by what it is now.
func (r *reconcile) stands(ctx context.Context) bool {
	o, err := r.platform.Object(ctx, r.o.Key, r.st.last)
	return err == nil && o.Hold == nil && r.withDefaults(o).sameAs(r.o)
}

// callsHeld reports whether the object is held for a while and a member of a fleet: it calls as always, so that what it
// has counts there, and applies nothing.
func (o *Object) callsHeld() bool {
	return o.Hold != nil && o.Fleet != "" && o.Hold.Outcome == OutcomeWaiting && !o.Hold.Silent
}

// maxMoved is how many reconciles in a row may end without a count because of others before that
// is shown as a problem.
const maxMoved = 3

// warn emits the object's warning, once.
func (r *reconcile) warn() {
	if text := r.o.Warning; text != "" && text != r.st.warned {
		r.telling.event(warning, ReasonInvalidObject, text)
	}
	r.st.warned = r.o.Warning
}

// target is the object's name at the service.
func (r *reconcile) target() string {
	return "clusters/" + r.options.Cluster + "/namespaces/" + r.o.Key.Namespace + "/targets/" + r.o.Target
}

// begin first sends the service what it missed: the deletion of a namesake of a new object, and
// the outcome of the last decision.
func (r *reconcile) begin(ctx context.Context) error {
	if err := r.deleteTargets(ctx, r.st.stale); err != nil {
		return err
	}
	target := r.target()
	if !r.st.ownsRecord && r.o.New {
		// The service may not know whose history it has: older agents sent no UID.
		if err := r.deleteTarget(ctx, target, ""); err != nil {
			return err
		}
		r.fresh = true
	}
	r.st.ownsRecord = true
	r.st.targets[target] = r.o.UID
	return r.reportAgain(ctx)
}

// deleteTargets deletes targets at the service, by their uids, and removes the deleted ones.
func (l *Loop) deleteTargets(ctx context.Context, gone map[string]string) error {
	for target, uid := range gone {
		if err := l.deleteTarget(ctx, target, uid); err != nil {
			return err
		}
		delete(gone, target)
	}
	return nil
}

func (l *Loop) deleteTarget(ctx context.Context, target, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, l.options.RequestTimeout)
	defer cancel()
	err := l.recommender.DeleteIncarnation(ctx, &setpointv1.DeleteTargetRequest{Name: target, TargetUid: uid, ClusterUid: l.options.ClusterUID})
	if status.Code(err) == codes.NotFound || isOtherCluster(err) {
		return nil // the service has nothing of this cluster
	}
	return err
}

// evaluation is one request and its answer.
type evaluation struct {
	Decision
	asked, answered time.Time
	// distrusted is why the answer to the report is invalid; nil: it is valid.
	distrusted *setpoint.AnswerError
}

// errRead wraps errors that prevent a request.
type errRead struct{ error }

func (e errRead) Unwrap() error { return e.error }

// decide observes and asks the service. The evaluation is never nil.
func (r *reconcile) decide(ctx context.Context) (*evaluation, error) {
	e := &evaluation{asked: time.Now(), Decision: Decision{Key: r.o.Key, Shadow: r.o.Shadow, Period: r.o.Period}}
	seen, err := r.platform.Observe(ctx, r.o)
	if err != nil {
		return e, errRead{err}
	}
	r.metrics.took(partRead, e.asked)
	e.Observation, e.Request = seen, seen.Request
	return e, r.ask(ctx, e)
}

// ask sends the request of an evaluation.
func (r *reconcile) ask(ctx context.Context, e *evaluation) error {
	e.Request.Target, e.Request.TargetUid, e.Request.ClusterUid = r.target(), r.o.UID, r.options.ClusterUID
	e.Request.PreviousStatus = setpoint.Seed(e.Request.GetPreviousStatus())
	e.Request.Options, e.Request.Stages, e.Request.Fleet = r.o.Options, r.o.Stages, r.o.Fleet
	// Errors come back in conditions, where CheckAnswer takes no control characters.
	for _, m := range e.Request.GetMetricErrors() {
		m.Message = printable.Lines(m.GetMessage())
	}
	if e.Request.ScaleError != nil {
		e.Request.ScaleError.Message = printable.Lines(e.Request.ScaleError.GetMessage())
	}
	// An evaluation keeps its id however often it is sent, so that it counts once.
	e.Request.RequestId, e.Request.RestartAfterPause = rand.Text(), true
	e.Request.Explain = r.o.Shadow
	sighted, err := r.see(ctx, e)
	e.asked = time.Now()
	if err == nil {
		e.Answer, err = r.asker.recommend(ctx, e.Request)
	}
	e.answered = time.Now()
	r.metrics.took(partAsk, e.asked)
	if answered(err) {
		if !r.st.answered {
			r.st.first(r.o, e.answered)
		}
		r.settled, r.st.settled = e.answered, e.answered
		r.presence.answered(r.o.Key)
	}
	if err == nil {
		err = r.check(e)
	} else if _, wrong := proto.Marshal(e.Request); wrong != nil { // a failure of no service, and no reason to ask none
		err = &HoldError{Hold{Reason: ReasonInvalidObject, Message: "a text of the object, its status or its metrics can't be sent, because it is not UTF-8"}}
	}
	if err == nil {
		e.At = e.Answer.GetEvaluationTime().AsTime()
		if sighted != nil {
			sighted.desired = e.Answer.GetDesiredReplicas()
			r.st.sight = *sighted
		}
	}
	return err
}

// failed ends a reconcile without a decision.
func (r *reconcile) failed(ctx context.Context, e *evaluation, err error) Outcome {
	if held, ok := errors.AsType[*HoldError](err); ok {
		r.presence.pass(r.o.Key)
		return r.hold(held.Hold)
	}
	if read, ok := errors.AsType[errRead](err); ok {
		r.once.say(r.log, r.queue.LogLevel(zapcore.ErrorLevel, err), "platform not read", causeOf(err.Error()), zap.Error(err))
		if r.o.Shadow {
			r.undecided(err.Error())
		}
		if r.isBlind() {
			if told, err := r.tellBlind(ctx, read); err != nil {
				return r.failed(ctx, told, err)
			}
		}
		r.presence.pass(r.o.Key)
		r.retry = true
		return OutcomeReadError
	}
	if distrusted, ok := errors.AsType[*setpoint.AnswerError](err); ok {
		return r.rejectAnswer(distrusted)
	}
	if refused(err) {
		return r.hold(Hold{Outcome: OutcomeRefused, Reason: ReasonRecommendationRefused, Message: "the recommender refused to decide: " + plainReason(err)})
	}
	return r.unanswered(e.asked, err)
}

// unanswered ends a reconcile in which the service did not answer.
func (r *reconcile) unanswered(asked time.Time, err error) Outcome {
	if refused(err) {
		r.presence.answered(r.o.Key) // the service is available
		return r.hold(Hold{Outcome: OutcomeRefused, Reason: ReasonRecommendationRefused, Message: "the recommender refused to answer: " + plainReason(err)})
	}
	since, reason, away := r.presence.failed(r.o.Key, asked, plainReason(err))
	// While the service is away, its probes retry.
	r.retry = !away
	return r.holdAway(since, reason, away)
}

// carryOut applies and reports a decision. moved: others had changed the count, and nothing was
// written.
func (r *reconcile) carryOut(ctx context.Context, e *evaluation) (moved bool, outcome Outcome) {
	outcome = OutcomeUnchanged
	var held *HoldError
	switch {
	case r.o.Shadow:
		r.compare(e)
		outcome = OutcomeShadow
	case r.o.Hold != nil:
		held = &HoldError{*r.o.Hold}
	case e.changes() && !r.stands(ctx):
		return true, OutcomeMoved
	case e.changes():
		e.ApplyError = r.apply(ctx, e)
		if !errors.As(e.ApplyError, &held) {
			r.st.changed, r.st.soonest = e.answered, e.answered
		}
		if errors.Is(e.ApplyError, ErrMoved) {
			return true, OutcomeMoved
		}
		e.Applied = e.ApplyError == nil
		if outcome = OutcomeScaled; !e.Applied {
			outcome = OutcomeFailed
		}
		if e.Answer.GetRecommendationId() != "" { // of a fleet's share nothing is kept to report on
			r.report(ctx, e)
		}
	}
	r.observe(e)
	r.follow(e)
	if held != nil {
		// As with the built-in controller when it can't write a count, the recommendation stays
		// in the service's windows, and its policies count no change.
		h := held.Hold
		if e.changes() {
			h.wants = fmt.Sprintf("; it would be scaled from %d to %d", e.Answer.GetCurrentReplicas(), e.Answer.GetDesiredReplicas())
			if why := Why(e.Answer); why != "" {
				h.wants += ": " + why
			}
		}
		return false, r.hold(h)
	}
	r.decided(e)
	return false, outcome
}

// follow warns when a platform takes counts that the workload does not get, or keeps for a while only.
func (r *reconcile) follow(e *evaluation) {
	undone := r.st.counts.see(e)
	if undone < maxMoved {
		return
	}
	text := fmt.Sprintf("the platform has taken %d changes of the count, and after each it was %d again: it does not follow, or somebody sets it back", undone, e.Answer.GetCurrentReplicas())
	r.once.say(r.log, zapcore.WarnLevel, "the count does not follow", "", zap.String("problem", text))
	warned := *r.o
	warned.Warning = strings.TrimPrefix(warned.Warning+"; "+text, "; ")
	r.telling.Object = &warned
}

func (e *evaluation) changes() bool {
	return e.Answer.GetDesiredReplicas() != e.Answer.GetCurrentReplicas()
}

// reasonOf is why a count changes. Where no metric asks for it, as when the count of others is
// undone, that is what held or limited it.
func reasonOf(answer *setpointv1.RecommendResponse) string {
	able, limited := conditionOf(answer.GetStatus(), "AbleToScale"), conditionOf(answer.GetStatus(), "ScalingLimited")
	switch {
	case answer.GetReason() != "":
		return answer.GetReason()
	case able.GetReason() == "ScaleDownStabilized", able.GetReason() == "ScaleUpStabilized":
		return able.GetMessage()
	case limited.GetStatus() == "True":
		return limited.GetMessage()
	}
	return ""
}

// Why is why a count changes, and what stages and overrides made of it, in at most some 1,024 bytes.
func Why(answer *setpointv1.RecommendResponse) string {
	return Shorten(adjusted.Reason(reasonOf(answer), adjusted.Messages(answer.GetAdjustments())...))
}

// apply writes the count.
func (r *reconcile) apply(ctx context.Context, e *evaluation) error {
	began := time.Now()
	change := Change{
		From: e.Answer.GetCurrentReplicas(), To: e.Answer.GetDesiredReplicas(),
		Reason: reasonOf(e.Answer), RecommendationID: cmp.Or(e.Answer.GetRecommendationId(), e.Request.GetRequestId()),
		Figures: FiguresOf(e.Answer, e.Request), Why: Why(e.Answer),
	}
	err := r.platform.Apply(ctx, r.o, e.Observation, change)
	r.metrics.took(partApply, began)
	log := r.log.With(zap.Int32("current", change.From), zap.Int32("desired", change.To),
		zap.String("reason", change.Why), zap.String("recommendation", change.RecommendationID))
	var held *HoldError
	if errors.As(err, &held) || errors.Is(err, ErrMoved) {
		return err // told by the caller
	}
	if err != nil {
		r.once.say(log, r.queue.LogLevel(zapcore.WarnLevel, err), "count not written", causeOf(err.Error()), zap.Error(err))
		return err
	}
	r.metrics.appliedAfter.Observe(time.Since(e.answered).Seconds())
	direction := "up"
	if change.To < change.From {
		direction = "down"
	}
	r.metrics.applied.WithLabelValues(direction).Inc()
	log.Info("scaled")
	return nil
}

// decided makes the platform show a decision.
func (r *reconcile) decided(e *evaluation) {
	if e.distrusted != nil {
		// The count is written, but its status can't be trusted.
		r.hold(Hold{Outcome: OutcomeDistrusted, Reason: ReasonAnswerRefused, Message: distrustMessage(e.distrusted)})
		return
	}
	if r.st.held != "" {
		r.once.say(r.log, zapcore.InfoLevel, "decided again", r.st.held)
	}
	r.st.held = ""
	r.telling.Decision = &e.Decision
	if r.o.Shadow {
		return
	}
	r.tellDecided()
	r.tellAdjusted(e)
	r.tellFleet(e)
	r.tellShare(e)
	r.telling.Events = append(r.telling.Events, e.Answer.GetEvents()...)
	fault := e.Answer.GetError()
	if e.Report != nil {
		r.telling.Events = append(r.telling.Events, e.Report.GetEvents()...)
		if e.Report.GetError() != "" {
			fault = e.Report.GetError()
		}
	}
	// Log it once, not in every reconcile.
	if fault == "" || fault == r.st.fault || r.once.say(r.log, r.queue.LogLevel(zapcore.WarnLevel, nil), "evaluated with an error", causeOf(fault), zap.String("error", fault)) {
		r.st.fault = fault
	}
}
