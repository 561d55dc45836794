package agent

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/shadow"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// ReasonShadowDiverged is the reason of the event that tells that a shadow decided
// otherwise than the controller in charge, for the first time, or for the first time
// since one of both had no opinion.
const ReasonShadowDiverged = "ShadowDiverged"

// shadowKey is the object's in the ledger.
func shadowKey(key Key) shadow.Key {
	return shadow.Key{Kind: key.Source.Kind(), Namespace: key.Namespace, Name: key.Name}
}

// show has `kubectl get` tell of an Autoscaler that is a shadow by itself what it would
// scale, by what, and to what count. It leaves the part of autoscaling/v2 alone: that is
// of what was done, which is nothing. All other shadows have a status that is another's.
func (r *round) show(ctx context.Context, e *evaluation) {
	over, ok := r.stored().(*v1.Autoscaler)
	if !ok || !r.o.own {
		return
	}
	next, err := kubernetes.StatusFromProto(e.answer.GetStatus())
	if err != nil {
		r.log.Error("status of the recommender not understood", zap.Error(err))
		return
	}
	text := fmt.Sprintf("A shadow, which would have %d replicas.", e.answer.GetDesiredReplicas())
	if why := ourSide(e).NoOpinion; why != "" {
		text = fmt.Sprintf("A shadow, which can't decide: %s.", why)
	}
	r.write(ctx, &statusUpdate{
		status: statusOf(over), explanation: text, recommendation: over.Status.RecommendationID,
		shown: true, readings: next.CurrentMetrics,
	})
}

// compare compares the decision of a shadow with what the controller in charge wants.
// Nothing but an event of a divergence comes of it.
func (r *round) compare(ctx context.Context, e *evaluation) {
	native, err := r.objects.native(ctx, r.o)
	if err != nil {
		r.log.Error("the autoscaler in charge not read", zap.Error(err))
		return
	}
	against, theirs := sideInCharge(native, e, r.o)
	change := r.shadows.Note(shadowKey(r.o.key), against, shadow.Round{
		// The controller in charge may have fewer rounds than a shadow in a hurry.
		At: e.at, Period: max(r.o.period, r.syncPeriod), Ours: ourSide(e), Theirs: theirs,
	})
	r.metrics.shadowRounds.WithLabelValues("agreed").Add(float64(change.Agreed))
	r.metrics.shadowRounds.WithLabelValues("diverged").Add(float64(change.Diverged))
	if change.NoOpinion != "" {
		r.metrics.shadowRounds.WithLabelValues("no_opinion").Inc()
	}
	if change.Paused {
		r.log.Info("shadow can't be compared", zap.String("reason", change.NoOpinion))
	}
	if change.Began || change.Ended {
		r.metrics.divergent.Set(float64(r.shadows.Divergent()))
	}
	if change.Began {
		r.log.Info("shadow diverged", zap.String("explanation", change.Explanation))
	}
	if change.First {
		r.events.Event(r.o.stored, corev1.EventTypeNormal, ReasonShadowDiverged, change.Explanation)
	}
}

// sideInCharge is what the built-in controller wants, or, where it does not serve the
// workload, the count there is.
func sideInCharge(native *autoscalingv2.HorizontalPodAutoscaler, e *evaluation, o *object) (against string, side shadow.Side) {
	switch {
	case native == nil && e.snapshot.Scale == nil:
		return "the count of " + referenceOf(o), shadow.Side{NoOpinion: "the count is not known"}
	case native == nil:
		return "the count of " + referenceOf(o), shadow.Side{Replicas: e.snapshot.Scale.Spec.Replicas}
	case len(native.Status.Conditions) == 0:
		return "the built-in controller", shadow.Side{NoOpinion: "it has not decided yet"}
	}
	return "the built-in controller", sideOf(&native.Status)
}

// noOpinion is why an evaluation came to no count, "" if it came to one. The count in
// its status is then that of an earlier one, or 0.
func noOpinion(status *autoscalingv2.HorizontalPodAutoscalerStatus) string {
	able, active := conditionOf(status, autoscalingv2.AbleToScale), conditionOf(status, autoscalingv2.ScalingActive)
	switch {
	case isFalse(able) && (able.Reason == "FailedGetScale" || able.Reason == "FailedUpdateScale" || isHold(able.Reason)):
		return shorten(able.Reason + ": " + able.Message)
	case !isFalse(active), active.Reason == "ScalingDisabled":
		return ""
	case able != nil && able.Reason == "SucceededRescale":
		// To a bound, for which no metric is read: what was wrong with them is from before.
		return ""
	}
	return shorten(active.Reason + ": " + active.Message)
}

func isFalse(c *autoscalingv2.HorizontalPodAutoscalerCondition) bool {
	return c != nil && c.Status == corev1.ConditionFalse
}

func sideOf(status *autoscalingv2.HorizontalPodAutoscalerStatus) shadow.Side {
	side := shadow.Side{Replicas: status.DesiredReplicas, NoOpinion: noOpinion(status), Conditions: map[string]string{}}
	for _, c := range status.Conditions {
		side.Conditions[string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	for i := range status.CurrentMetrics {
		if text := reading(&status.CurrentMetrics[i]); text != "" {
			side.Metrics = append(side.Metrics, text)
		}
	}
	return side
}

// ourSide is the decision.
func ourSide(e *evaluation) shadow.Side {
	side := shadow.Side{Replicas: e.answer.GetDesiredReplicas()}
	if status, err := kubernetes.StatusFromProto(e.answer.GetStatus()); err == nil {
		side = sideOf(status)
	}
	switch {
	case e.answer.GetError() == "" || e.answer.GetExplanation().GetProposal() != nil:
		side.NoOpinion = ""
	case side.NoOpinion == "": // the design of 2015 has no conditions to tell
		side.NoOpinion = shorten(e.answer.GetError())
	}
	side.Limits = limitsOf(e.answer.GetExplanation())
	if reason := e.answer.GetReason(); reason != "" && e.answer.GetExplanation().GetProposal() == nil {
		// No metric was looked at, as for a count that is below the minimum.
		side.Limits = append(side.Limits, "here: "+reason)
	}
	return side
}

// reading is a metric's value in a few words.
func reading(m *autoscalingv2.MetricStatus) string {
	switch {
	case m.Resource != nil:
		return string(m.Resource.Name) + " " + valueText(&m.Resource.Current)
	case m.ContainerResource != nil:
		return string(m.ContainerResource.Name) + " of " + m.ContainerResource.Container + " " + valueText(&m.ContainerResource.Current)
	case m.Pods != nil:
		return m.Pods.Metric.Name + " " + valueText(&m.Pods.Current)
	case m.Object != nil:
		return m.Object.Metric.Name + " " + valueText(&m.Object.Current)
	case m.External != nil:
		return m.External.Metric.Name + " " + valueText(&m.External.Current)
	}
	return ""
}

func valueText(v *autoscalingv2.MetricValueStatus) string {
	switch {
	case v.AverageUtilization != nil:
		return fmt.Sprintf("%d%%", *v.AverageUtilization)
	case v.AverageValue != nil:
		return v.AverageValue.String() + " on average"
	case v.Value != nil:
		return v.Value.String()
	}
	return "unknown"
}

// limitsOf says what won and what held the count, from the trace of a decision.
func limitsOf(x *setpointv1.Explanation) []string {
	var limits []string
	if p := x.GetProposal(); p != nil {
		limits = append(limits, fmt.Sprintf("here %s proposes %d", p.GetMetric(), p.GetReplicas()))
	}
	if s := x.GetStabilization(); s != nil && s.GetProposedReplicas() != s.GetStabilizedReplicas() {
		for _, w := range s.GetWindows() {
			if w.GetReplicas() == s.GetStabilizedReplicas() {
				limits = append(limits, fmt.Sprintf("the %s window of %s holds it at %d", w.GetDirection(),
					time.Duration(w.GetWindowSeconds()*float64(time.Second)), w.GetReplicas()))
			}
		}
	}
	if h := x.GetHistory(); h.GetYoungerThanWindow() {
		limits = append(limits, "the history here is shorter than the window")
	}
	if l := x.GetRateLimit(); l.GetLimited() {
		limits = append(limits, fmt.Sprintf("policies allow %d", l.GetLimit()))
	}
	return limits
}
