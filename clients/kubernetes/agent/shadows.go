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
)

// ReasonShadowDiverged is the reason of the event that tells that a shadow decided
// otherwise than the controller in charge, for the first time.
const ReasonShadowDiverged = "ShadowDiverged"

// shadowKey is the object's in the ledger.
func shadowKey(key Key) shadow.Key {
	return shadow.Key{Kind: key.Source.Kind(), Namespace: key.Namespace, Name: key.Name}
}

// compare compares the decision of a shadow with what the controller in charge wants.
// Nothing but an event of a first divergence comes of it.
func (r *round) compare(ctx context.Context, e *evaluation) {
	native, err := r.objects.native(ctx, r.o)
	if err != nil {
		r.log.Error("the autoscaler in charge not read", zap.Error(err))
		return
	}
	against, theirs, ok := sideInCharge(native, e, r.o)
	if !ok {
		return
	}
	change := r.shadows.Note(shadowKey(r.o.key), against, shadow.Round{
		// The controller in charge may have fewer rounds than a shadow in a hurry.
		At: e.at, Period: max(r.o.period, r.syncPeriod), Ours: ourSide(e), Theirs: theirs,
	})
	r.metrics.shadowRounds.WithLabelValues("agreed").Add(float64(change.Agreed))
	r.metrics.shadowRounds.WithLabelValues("diverged").Add(float64(change.Diverged))
	if !change.Began && !change.Ended {
		return
	}
	r.metrics.divergent.Set(float64(r.shadows.Divergent()))
	if change.Began {
		r.log.Info("shadow diverged", zap.String("explanation", change.Explanation))
		if !r.st.diverged {
			r.events.Event(r.o.stored, corev1.EventTypeNormal, ReasonShadowDiverged, change.Explanation)
		}
		r.st.diverged = true
	}
}

// sideInCharge is what the built-in controller wants, or, where it does not serve the
// workload, the count there is. ok is false before it has decided.
func sideInCharge(native *autoscalingv2.HorizontalPodAutoscaler, e *evaluation, o *object) (against string, side shadow.Side, ok bool) {
	if native == nil {
		if e.snapshot.Scale == nil {
			return "", side, false
		}
		return "the count of " + referenceOf(o), shadow.Side{Replicas: e.snapshot.Scale.Spec.Replicas}, true
	}
	return "the built-in controller", sideOf(&native.Status), len(native.Status.Conditions) > 0
}

func sideOf(status *autoscalingv2.HorizontalPodAutoscalerStatus) shadow.Side {
	side := shadow.Side{Replicas: status.DesiredReplicas, Conditions: map[string]string{}}
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
