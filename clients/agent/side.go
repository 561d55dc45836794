package agent

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// compare compares the decision of a shadow with the acting controller's. It emits an event
// for a divergence, and does nothing else.
func (r *reconcile) compare(e *evaluation) {
	if e.Observation.InCharge == nil {
		return
	}
	ours := OurSide(e.Answer)
	if e.asked.Before(r.st.uncountedUntil) {
		ours.Limits = append(ours.Limits, r.st.uncounted)
	}
	change := r.note(e.asked, e.Observation.Against, ours, *e.Observation.InCharge)
	if change.Paused {
		r.log.Info("shadow can't be compared", zap.String("reason", change.NoOpinion))
	}
	if change.Began {
		r.log.Info("shadow diverged", zap.String("explanation", change.Explanation))
	}
	if change.First {
		r.telling.event(normal, ReasonShadowDiverged, change.Explanation)
	}
}

// undecided notes that a shadow could not decide, and why: what comes of no decision is logged.
func (r *reconcile) undecided(why string) {
	r.note(time.Now(), "", shadow.Side{NoOpinion: Shorten(why)}, shadow.Side{NoOpinion: "not read"})
}

// note notes both sides of a shadow's reconcile.
func (r *reconcile) note(at time.Time, against string, ours, theirs shadow.Side) shadow.Change {
	change := r.shadows.Note(r.o.Key, against, shadow.Reconcile{
		// A shadow that was hurried may reconcile more often than the controller in charge.
		At: at, Period: max(r.o.Period, r.options.Period), Ours: ours, Theirs: theirs,
	})
	r.metrics.shadowReconciles.WithLabelValues("agreed").Add(float64(change.Agreed))
	r.metrics.shadowReconciles.WithLabelValues("diverged").Add(float64(change.Diverged))
	if change.NoOpinion != "" {
		r.metrics.shadowReconciles.WithLabelValues("no_opinion").Inc()
	}
	return change
}

// OurSide returns a decision as one side of a comparison.
func OurSide(answer *setpointv1.RecommendResponse) shadow.Side {
	side := SideOf(answer.GetStatus())
	switch {
	case answer.GetError() == "" || answer.GetExplanation().GetProposal() != nil:
		side.NoOpinion = ""
	case side.NoOpinion == "": // profile design-2015 has no conditions
		side.NoOpinion = Shorten(answer.GetError())
	}
	side.Limits = limitsOf(answer.GetExplanation())
	if reason := answer.GetReason(); reason != "" && answer.GetExplanation().GetProposal() == nil {
		// No metric was read, for example because the count is below the minimum.
		side.Limits = append(side.Limits, "here: "+reason)
	}
	return side
}

// SideOf returns the decision of the controller that wrote a status.
func SideOf(status *setpointv1.HorizontalPodAutoscalerStatus) shadow.Side {
	side := shadow.Side{Replicas: status.GetDesiredReplicas(), NoOpinion: noOpinion(status), Conditions: map[string]string{}}
	for _, c := range status.GetConditions() {
		side.Conditions[c.GetType()] = c.GetStatus() + " " + c.GetReason()
	}
	for _, m := range status.GetCurrentMetrics() {
		if text := reading(m); text != "" {
			side.Metrics = append(side.Metrics, text)
		}
	}
	return side
}

// noOpinion returns why an evaluation computed no count, "" if it did. The count in its
// status is then an earlier one's, or 0.
func noOpinion(status *setpointv1.HorizontalPodAutoscalerStatus) string {
	able, active := conditionOf(status, "AbleToScale"), conditionOf(status, "ScalingActive")
	switch {
	case isFalse(able) && (able.GetReason() == "FailedGetScale" || able.GetReason() == "FailedUpdateScale" || IsHold(able.GetReason())):
		return Shorten(able.GetReason() + ": " + able.GetMessage())
	case !isFalse(active), active.GetReason() == "ScalingDisabled":
		return ""
	case able.GetReason() == "SucceededRescale":
		// It moves to a bound without reading metrics: their errors are from an earlier
		// evaluation.
		return ""
	}
	return Shorten(active.GetReason() + ": " + active.GetMessage())
}

// conditionOf returns the condition of that type, nil if there is none.
func conditionOf(status *setpointv1.HorizontalPodAutoscalerStatus, kind string) *setpointv1.HorizontalPodAutoscalerCondition {
	for _, c := range status.GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

func isFalse(c *setpointv1.HorizontalPodAutoscalerCondition) bool { return c.GetStatus() == "False" }

// reading is a metric's value in a few words.
func reading(m *setpointv1.MetricStatus) string {
	name, v := current(m)
	if c := m.GetContainerResource(); c != nil {
		name += " of " + c.GetContainer()
	}
	if name == "" {
		return ""
	}
	return name + " " + valueText(v)
}

func valueText(v *setpointv1.MetricValueStatus) string {
	switch {
	case v == nil:
	case v.AverageUtilization != nil:
		return fmt.Sprintf("%d%%", v.GetAverageUtilization())
	case v.GetAverageValue() == printable.NoAverage:
		return printable.Average(printable.NoAverage)
	case v.AverageValue != nil:
		return v.GetAverageValue() + " on average"
	case v.Value != nil:
		return v.GetValue()
	}
	return "unknown"
}

// limitsOf returns the deciding metric and the limits that held the count, from a decision's
// trace.
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
