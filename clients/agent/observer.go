package agent

import (
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Decision is what a reconcile observed, and its outcome. It is shared and must not be
// changed.
type Decision struct {
	Key Key
	// Shadow reports whether nothing was applied because the object is a shadow.
	Shadow bool
	// At is the instant of the decision, by the service's clock; Period is the time between two.
	At          time.Time
	Period      time.Duration
	Observation *Observation
	Request     *setpointv1.RecommendRequest
	Answer      *setpointv1.RecommendResponse
	// Report is the service's answer to the report, nil if there was none.
	Report *setpointv1.ReportScaleResponse
	// Applied reports whether the count was written, ApplyError why not.
	Applied    bool
	ApplyError error
	// New reports whether the service had no history of the object before.
	New bool
	// Unsettled reports whether the count was to change and the outcome was not reported to the
	// service, which will see it in the next request.
	Unsettled bool
}

// Observer receives decisions. It must not block: reconciles wait for it.
type Observer interface {
	// Observe receives a decision. Decisions of one object arrive in their order.
	Observe(d *Decision)
	// Lost reports that the service may have decided what is not observed: the agent has no valid answer, or asked only
	// to have a scale of a shadow's controller counted.
	Lost(key Key)
	// Forget reports that an object is gone.
	Forget(key Key)
}

// observe passes a decision to the observers.
func (r *reconcile) observe(e *evaluation) {
	e.New, e.Unsettled = r.fresh, e.Report == nil && e.changes()
	r.fresh = false
	for _, observer := range r.options.Observers {
		observer.Observe(&e.Decision)
	}
}

// lost tells the observers that a request has no valid answer.
func (r *reconcile) lost() {
	r.fresh = false
	for _, observer := range r.options.Observers {
		observer.Lost(r.o.Key)
	}
}
