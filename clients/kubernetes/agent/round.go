package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

// round is one round of one object: read, ask, apply, report, tell.
type round struct {
	*loop
	o   *object
	st  *state
	log *zap.Logger
	// retry says that the round is to be repeated before the next one is due. Only what
	// did not come to a decision is: a second decision right after a first one might
	// double the count once more.
	retry bool
	// settled is when the last answer came, zero: none did.
	settled time.Time
	// fresh says that the service was just told to forget what it has of the object.
	fresh bool
}

// maxDecisions bounds how often a round decides because others change the count.
const maxDecisions = 3

// run has the round and returns its outcome.
func (r *round) run(ctx context.Context) string {
	r.warn()
	if r.o.problem != nil {
		return r.hold(ctx, outcomeInvalid, ReasonInvalidObject, r.o.problem.Error(), time.Now())
	}
	if outcome := r.yield(ctx); outcome != "" {
		return outcome
	}
	if outcome := r.giveWay(ctx); outcome != "" {
		return outcome
	}
	if ok, since, reason := r.presence.admit(r.o.key); !ok {
		return r.holdAway(ctx, since, reason)
	}
	asked := time.Now()
	if err := r.begin(ctx); err != nil {
		return r.unanswered(ctx, asked, err)
	}
	for range maxDecisions {
		e, err := r.decide(ctx)
		if err != nil {
			r.lost()
			return r.failed(ctx, e, err)
		}
		moved, outcome := r.carryOut(ctx, e)
		if !moved {
			return outcome
		}
		r.lost()
		// Somebody else changed the count after it was read: what was decided is void,
		// which the service sees by the count of the next question.
		r.log.Info("count changed by others meanwhile, deciding again")
	}
	return outcomeMoved
}

// warn sends an event about what is wrong with the object, once.
func (r *round) warn() {
	text := ""
	if r.o.warning != nil {
		text = r.o.warning.Error()
	}
	if text != "" && text != r.st.warned {
		r.events.Event(r.o.stored, "Warning", ReasonInvalidObject, text)
	}
	r.st.warned = text
}

// yield gives way to another autoscaler of the same workload, "" if there is none.
func (r *round) yield(ctx context.Context) string {
	if r.o.shadow {
		return "" // and has no rivals
	}
	rival, err := r.objects.rival(ctx, r.o)
	switch {
	case err != nil:
		r.log.Error("other autoscalers not read", zap.Error(err))
		r.retry = true
		return outcomeReadError
	case rival == "":
		return ""
	}
	r.reader.Forget(r.o.key.Namespace, r.o.key.Name)
	return r.hold(ctx, outcomeConflict, ReasonConflictingAutoscaler, rival, time.Now())
}

// begin settles with the service what went before: that an object it may know from a
// namesake is new, and what became of the last decision.
func (r *round) begin(ctx context.Context) error {
	if err := r.deleteTargets(ctx, r.st.stale); err != nil {
		return err
	}
	target := r.o.target(r.cluster)
	if !r.st.begun && r.o.isNew(time.Now()) {
		// Whose history it is the service may not know: an older agent did not say.
		if err := r.deleteTarget(ctx, target, ""); err != nil {
			return err
		}
		r.fresh = true
	}
	r.st.begun = true
	r.st.targets[target] = string(r.o.autoscaler.UID)
	return r.reportAgain(ctx)
}

// deleteTargets has the service forget targets, with their uids, and takes out what it
// has forgotten.
func (l *loop) deleteTargets(ctx context.Context, gone map[string]string) error {
	for target, uid := range gone {
		if err := l.deleteTarget(ctx, target, uid); err != nil {
			return err
		}
		delete(gone, target)
	}
	return nil
}

func (l *loop) deleteTarget(ctx context.Context, target, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	err := l.recommender.DeleteIncarnation(ctx, &setpointv1.DeleteTargetRequest{Name: target, TargetUid: uid, ClusterUid: l.clusterUID})
	if status.Code(err) == codes.NotFound || isOtherCluster(err) {
		return nil // nothing of this cluster's is there
	}
	return err
}

// evaluation is one question and its answer.
type evaluation struct {
	at       time.Time
	snapshot *kubernetes.Snapshot
	request  *setpointv1.RecommendRequest
	answer   *setpointv1.RecommendResponse
	answered time.Time
	// report is the answer to the report, nil if there was none; applied says that the
	// count was written, applyErr why not.
	report   *setpointv1.ReportScaleResponse
	applied  bool
	applyErr error
	// distrusted is why the answer to the report does not count, nil: it does.
	distrusted *setpoint.AnswerError
}

// errRead wraps what keeps a question from being put together.
type errRead struct{ error }

func (e errRead) Unwrap() error { return e.error }

// decide reads and asks. The evaluation is never nil.
func (r *round) decide(ctx context.Context) (*evaluation, error) {
	e := &evaluation{at: time.Now()}
	var err error
	if e.snapshot, err = r.reads().Snapshot(ctx, r.o.autoscaler); err != nil {
		return e, errRead{err}
	}
	r.metrics.took(partRead, e.at)
	if e.request, err = e.snapshot.Request(r.cluster); err != nil {
		return e, errRead{err}
	}
	e.request.Target, e.request.TargetUid, e.request.ClusterUid = r.o.target(r.cluster), string(r.o.autoscaler.UID), r.clusterUID
	e.request.PreviousStatus = setpoint.Seed(e.request.GetPreviousStatus())
	e.request.Options = r.o.options
	e.request.RequestId = newRequestID()
	e.request.Explain = r.o.shadow
	began := time.Now()
	e.at = began
	e.answer, err = r.asker.recommend(ctx, e.request)
	e.answered = time.Now()
	r.metrics.took(partAsk, began)
	if answered(err) {
		r.settled = e.answered
		r.presence.answered(r.o.key)
	}
	if err == nil {
		err = r.check(e)
	}
	return e, err
}

// reads is what the object is read with.
func (r *round) reads() reader {
	if r.o.shadow {
		return r.shadowing
	}
	return r.reader
}

// newRequestID returns a random id. One attempt at an evaluation has one, however often
// it is sent, so that it counts once.
func newRequestID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// failed is a round without a decision.
func (r *round) failed(ctx context.Context, e *evaluation, err error) string {
	var read errRead
	if errors.As(err, &read) {
		r.log.Log(r.outage.level(zapcore.ErrorLevel, err), "cluster not read", zap.Error(err))
		r.retry = true
		return outcomeReadError
	}
	var distrusted *setpoint.AnswerError
	if errors.As(err, &distrusted) {
		return r.distrust(ctx, distrusted)
	}
	if refused(err) {
		return r.hold(ctx, outcomeRefused, ReasonRecommendationRefused, "the recommender refused to decide: "+plainReason(err), time.Now())
	}
	return r.unanswered(ctx, e.at, err)
}

// unanswered is a round in which the service did not answer.
func (r *round) unanswered(ctx context.Context, asked time.Time, err error) string {
	if refused(err) {
		return r.hold(ctx, outcomeRefused, ReasonRecommendationRefused, "the recommender refused to answer: "+plainReason(err), time.Now())
	}
	since, reason, away := r.presence.failed(r.o.key, asked, plainReason(err))
	// While the service is away probes come by themselves.
	r.retry = !away
	return r.holdAway(ctx, since, reason)
}

// carryOut applies, reports and tells what was decided. moved: the count had been
// changed by others, and nothing was done.
func (r *round) carryOut(ctx context.Context, e *evaluation) (moved bool, outcome string) {
	outcome = outcomeUnchanged
	switch {
	case r.o.shadow:
		r.compare(ctx, e)
		r.observe(e)
		r.show(ctx, e)
		return false, outcomeShadow
	case e.answer.GetDesiredReplicas() != e.answer.GetCurrentReplicas():
		e.applyErr = r.apply(ctx, e)
		var changed *cluster.MovedError
		if errors.As(e.applyErr, &changed) {
			return true, outcomeMoved
		}
		e.applied = e.applyErr == nil
		if outcome = outcomeScaled; !e.applied {
			outcome = outcomeFailed
		}
		r.report(ctx, e)
	}
	r.observe(e)
	r.tell(ctx, e)
	return false, outcome
}

// apply writes the count.
func (r *round) apply(ctx context.Context, e *evaluation) error {
	began := time.Now()
	_, err := r.reader.Apply(ctx, e.snapshot, e.answer.GetDesiredReplicas())
	r.metrics.took(partApply, began)
	log := r.log.With(zap.Int32("current", e.answer.GetCurrentReplicas()), zap.Int32("desired", e.answer.GetDesiredReplicas()),
		zap.String("reason", e.answer.GetReason()), zap.String("recommendation", e.answer.GetRecommendationId()))
	if err != nil {
		log.Log(r.outage.level(zapcore.WarnLevel, err), "count not written", zap.Error(err))
		return err
	}
	r.metrics.appliedAfter.Observe(time.Since(e.answered).Seconds())
	direction := "up"
	if e.answer.GetDesiredReplicas() < e.answer.GetCurrentReplicas() {
		direction = "down"
	}
	r.metrics.applied.WithLabelValues(direction).Inc()
	log.Info("scaled")
	return nil
}
