package agent

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// tell writes the status and sends the events of a decision, as the upstream controller
// does: events first.
func (r *round) tell(ctx context.Context, e *evaluation) {
	if e.distrusted != nil {
		// The count is written. What to say of it nobody knows.
		r.hold(ctx, outcomeDistrusted, ReasonAnswerRefused, distrustMessage(e.distrusted), time.Now())
		return
	}
	r.st.held = ""
	r.tellDecided()
	answered := e.answer.GetStatus()
	r.emit(e.answer.GetEvents())
	fault := e.answer.GetError()
	if e.report != nil {
		answered = e.report.GetStatus()
		r.emit(e.report.GetEvents())
		if e.report.GetError() != "" {
			fault = e.report.GetError()
		}
	}
	if fault != "" && fault != r.st.fault { // and not in every round
		r.log.Log(r.outage.level(zapcore.WarnLevel, nil), "evaluated with an error", zap.String("error", fault))
	}
	r.st.fault = fault
	next, err := kubernetes.StatusFromProto(answered)
	if err != nil {
		r.log.Error("status of the recommender not understood", zap.Error(err))
		return
	}
	prepare(next, statusOf(r.stored()))
	r.write(ctx, &statusUpdate{status: next, explanation: explanation(e, next), recommendation: e.answer.GetRecommendationId()})
}

// hold leaves the count alone and says why in the condition AbleToScale.
func (r *round) hold(ctx context.Context, outcome, reason, message string, since time.Time) string {
	if r.st.held != message { // and not in every round
		r.log.Warn("not scaled", zap.String("reason", reason), zap.String("message", message))
	}
	r.st.held = message
	stored := r.stored()
	if r.o.shadow {
		return outcome
	}
	r.tellHold(reason, message)
	next := withHold(statusOf(stored), reason, message, since)
	update := &statusUpdate{status: next, explanation: "Not scaled: " + message + "."}
	if a, ok := stored.(*v1.Autoscaler); ok {
		update.recommendation = a.Status.RecommendationID
	}
	r.write(ctx, update)
	return outcome
}

// holdAway is hold while the service is away. What is there already stays: other
// reasons that come up meanwhile are not worth a write.
func (r *round) holdAway(ctx context.Context, since time.Time, reason string) string {
	message := fmt.Sprintf("the recommender has been unavailable since %s: %s", since.UTC().Format(time.RFC3339), reason)
	c := conditionOf(statusOf(r.stored()), autoscalingv2.AbleToScale)
	if c != nil && c.Status == corev1.ConditionFalse && c.Reason == ReasonRecommenderUnavailable {
		r.tellHold(ReasonRecommenderUnavailable, message)
		return outcomeAway
	}
	return r.hold(ctx, outcomeAway, ReasonRecommenderUnavailable, message, since)
}

// stored returns the object as it is in the API, as far as is known: what the last
// write made of it, as long as the cache has not seen that.
func (r *round) stored() client.Object {
	if r.st.written != nil && r.st.over == r.o.stored.GetResourceVersion() {
		return r.st.written
	}
	r.st.written = nil
	return r.o.stored
}

// write writes the status if it changed. As upstream, a conflict is left to the next
// round.
func (r *round) write(ctx context.Context, update *statusUpdate) {
	over := r.stored()
	if r.o.key.Source == HPA {
		update.status = r.withRivalry(update.status)
	}
	if unchanged(over, update) {
		r.metrics.statusWrites.WithLabelValues("unchanged").Inc()
		return
	}
	defer r.metrics.took(partStatus, time.Now())
	written, err := r.objects.writeStatus(ctx, over, update)
	switch {
	case err == nil:
		r.metrics.statusWrites.WithLabelValues("written").Inc()
		r.st.written, r.st.over = written, r.o.stored.GetResourceVersion()
		return
	case apierrors.IsNotFound(err):
		// It was deleted meanwhile.
	case apierrors.IsConflict(err):
		r.metrics.statusWrites.WithLabelValues("conflict").Inc()
		r.events.Event(r.o.stored, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
	default:
		r.metrics.statusWrites.WithLabelValues("failed").Inc()
		r.events.Event(r.o.stored, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
	}
	r.log.Log(r.outage.level(zapcore.WarnLevel, err), "status not written", zap.Error(err))
}

// unchanged tells whether nothing would change but the id of the decision, for which
// alone nothing is written.
func unchanged(over client.Object, update *statusUpdate) bool {
	if a, ok := over.(*v1.Autoscaler); ok &&
		(a.Status.Explanation != update.explanation || a.Status.Ready != string(v1.Ready(update.status.Conditions))) {
		return false // also where an agent wrote it that did not know ready
	}
	if update.shown {
		return equality.Semantic.DeepEqual(over, withStatus(over, update))
	}
	return equality.Semantic.DeepEqual(statusOf(over), update.status)
}

func (r *round) emit(events []*setpointv1.Event) {
	for _, e := range events {
		r.events.Event(r.o.stored, e.GetType(), e.GetReason(), e.GetMessage())
	}
}
