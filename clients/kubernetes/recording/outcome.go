package recording

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// Outcome is the outcome of a step. The zero value is that of a step without an autoscaler.
type Outcome struct {
	// Status afterwards. Nil: an empty one.
	Status *setpointv1.HorizontalPodAutoscalerStatus
	// Scaled reports whether the scale was written, ScaledTo with which count.
	Scaled   bool
	ScaledTo int32
	// Events sent, in order.
	Events []*setpointv1.Event
	// Error of the reconcile, empty if none.
	Error string
}

// OutcomeOf returns the outcome of a recommendation and of the report about applying it; report
// is nil if there was nothing to apply, and applied reports whether the count was written.
func OutcomeOf(answer *setpointv1.RecommendResponse, report *setpointv1.ReportScaleResponse, applied bool) Outcome {
	out := Outcome{
		Status: answer.GetStatus(),
		Events: answer.GetEvents(),
		Error:  answer.GetError(),
	}
	if report == nil {
		return out
	}
	out.Status = report.GetStatus()
	out.Events = append(append([]*setpointv1.Event{}, out.Events...), report.GetEvents()...)
	if report.GetError() != "" {
		out.Error = report.GetError()
	}
	if applied {
		out.Scaled, out.ScaledTo = true, answer.GetDesiredReplicas()
	}
	return out
}

// ExpectOf converts an outcome to an expectation, without times and generation. It omits
// readings that are not quantities.
func ExpectOf(o Outcome) *Expect {
	e := &Expect{
		DesiredReplicas: o.Status.GetDesiredReplicas(), CurrentReplicas: o.Status.GetCurrentReplicas(),
		Scaled: o.Scaled, ScaledTo: o.ScaledTo, Error: Text{Value: o.Error},
		Conditions: []Condition{}, CurrentMetrics: []autoscalingv2.MetricStatus{}, Events: []Event{},
	}
	if status, err := kubernetes.StatusFromProto(o.Status); err == nil {
		e.CurrentMetrics = append(e.CurrentMetrics, status.CurrentMetrics...)
	}
	for _, c := range o.Status.GetConditions() {
		e.Conditions = append(e.Conditions, Condition{Type: c.GetType(), Status: c.GetStatus(), Reason: c.GetReason(), Message: Text{Value: c.GetMessage()}})
	}
	for _, event := range o.Events {
		e.Events = append(e.Events, Event{Type: event.GetType(), Reason: event.GetReason(), Message: Text{Value: event.GetMessage()}})
	}
	return e
}
