package agent

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
)

// successfulRescale is the reason of the event of a change.
const successfulRescale = "SuccessfulRescale"

// telling shows one reconcile.
type telling struct {
	*platform
	seen
	reconcile *agent.Telling
}

// Tell implements agent.Teller: it sends events and writes the status as the upstream
// controller does, events first.
func (p *platform) Tell(ctx context.Context, reconcile *agent.Telling) {
	t := &telling{p, seenOf(reconcile.Object), reconcile}
	for _, e := range reconcile.Events {
		message := e.GetMessage()
		if d := reconcile.Decision; d != nil && e.GetReason() == successfulRescale { // the controller's words first
			message = agent.Shorten(adjusted.Reason(message, adjusted.Messages(d.Answer.GetAdjustments())...))
		}
		t.events.Event(t.object.stored, e.GetType(), e.GetReason(), message)
	}
	switch {
	case reconcile.Object.Shadow:
		t.show(ctx)
	case reconcile.Hold != nil:
		t.writeHold(ctx, reconcile.Hold)
	case reconcile.Decision != nil:
		t.writeDecision(ctx, reconcile.Decision)
	}
}

// writeDecision writes the status of a decision.
func (t *telling) writeDecision(ctx context.Context, d *agent.Decision) {
	next, err := kubernetes.StatusFromProto(d.Status())
	if err != nil {
		t.reconcile.Failed("status of the recommender not readable", err)
		return
	}
	prepare(next, statusOf(t.stored()))
	t.write(ctx, &statusUpdate{status: next, explanation: explanation(d, next), recommendation: d.Answer.GetRecommendationId()})
}

// writeHold writes the reason of a hold to the condition AbleToScale.
func (t *telling) writeHold(ctx context.Context, h *agent.Hold) {
	stored := t.stored()
	if h.Outcome == agent.OutcomeGaveWay {
		// Only conditions are written; the rest of the status belongs to the other controller.
		t.write(ctx, &statusUpdate{status: withoutOwn(statusOf(stored))})
		return
	}
	c := conditionOf(statusOf(stored), autoscalingv2.AbleToScale)
	if h.Reason == agent.ReasonRecommenderUnavailable && c != nil && c.Status == corev1.ConditionFalse && c.Reason == h.Reason {
		return // a different message is not worth a write
	}
	update := &statusUpdate{status: withHold(statusOf(stored), h.Reason, h.Message, h.Since), explanation: "Not scaled: " + h.Message + "."}
	if a, ok := stored.(*v1.Autoscaler); ok {
		update.recommendation = a.Status.RecommendationID
	}
	t.write(ctx, update)
}

// show writes the status of an Autoscaler with spec.shadow, so that `kubectl get` shows its
// target, metrics and decided count. It does not change the part of autoscaling/v2, which
// describes applied changes. The status of all other shadows belongs to another controller, but for the
// conditions that only this service has: an agent that also acts removes them from a HorizontalPodAutoscaler, which
// it may have acted on before.
func (t *telling) show(ctx context.Context) {
	over, ok := t.stored().(*v1.Autoscaler)
	if !ok && !t.reconcile.Dry {
		t.write(ctx, &statusUpdate{status: withoutOwn(statusOf(t.stored()))})
	}
	if !ok || !t.own {
		return
	}
	update := &statusUpdate{status: statusOf(over), recommendation: over.Status.RecommendationID, shown: true}
	if d := t.reconcile.Decision; d != nil {
		next, err := kubernetes.StatusFromProto(d.Answer.GetStatus())
		if err != nil {
			t.reconcile.Failed("status of the recommender not readable", err)
			return
		}
		update.readings = next.CurrentMetrics
		update.explanation = fmt.Sprintf("A shadow, which would have %d replicas.", d.Answer.GetDesiredReplicas())
		if why := agent.OurSide(d.Answer).NoOpinion; why != "" {
			update.explanation = fmt.Sprintf("A shadow, which can't decide: %s.", why)
		}
	} else if h := t.reconcile.Hold; h != nil {
		update.explanation = fmt.Sprintf("A shadow, which can't decide: %s: %s.", h.Reason, h.Message)
	} else {
		return
	}
	t.write(ctx, update)
}

// write writes the status if it changed. As upstream, it leaves a conflict to the next
// reconcile.
func (t *telling) write(ctx context.Context, update *statusUpdate) {
	over := t.stored()
	if sourceOf(t.key) == HPA {
		update.status = t.rivals.withRivalry(t.seen, update.status)
	}
	if unchanged(over, update) {
		t.metrics.statusWrites.WithLabelValues("unchanged").Inc()
		return
	}
	defer t.reconcile.Wrote(time.Now())
	written, err := t.objects.writeStatus(ctx, over, update)
	switch {
	case err == nil:
		t.metrics.statusWrites.WithLabelValues("written").Inc()
		t.written, t.over = written, t.object.stored.GetResourceVersion()
		return
	case apierrors.IsNotFound(err):
		// It was deleted meanwhile.
	case apierrors.IsConflict(err):
		t.metrics.statusWrites.WithLabelValues("conflict").Inc()
		t.events.Event(t.object.stored, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
	default:
		t.metrics.statusWrites.WithLabelValues("failed").Inc()
		t.events.Event(t.object.stored, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
	}
	t.reconcile.Failed("status not written", err)
}

// unchanged reports whether only the id of the decision would change, or durations in its
// explanation, which is not worth a write.
func unchanged(over client.Object, update *statusUpdate) bool {
	if a, ok := over.(*v1.Autoscaler); ok &&
		(!alike(a.Status.Explanation, update.explanation) || a.Status.Ready != string(v1.Ready(update.status.Conditions))) {
		return false // also if an agent wrote it that did not know ready
	}
	if update.shown {
		return equality.Semantic.DeepEqual(over, withStatus(over, update))
	}
	return equality.Semantic.DeepEqual(statusOf(over), update.status)
}
