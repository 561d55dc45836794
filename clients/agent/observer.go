package agent

import (
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Decision is what a round saw and what came of it. All of it is shared: it is not to be
// changed.
type Decision struct {
	Key Key
	// Shadow reports whether nothing was applied for being only watched.
	Shadow bool
	// At is the instant that was decided for, the service's.
	At          time.Time
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
	// Unsettled reports whether the count was to change and the service was not told what
	// became of that: it will see by itself.
	Unsettled bool
}

// Observer is told of decisions. It must not block: rounds wait for it.
type Observer interface {
	// Observe takes a decision. Those of one object come in their order.
	Observe(d *Decision)
	// Lost tells that the service may have decided and what is not known.
	Lost(key Key)
	// Forget tells that an object is gone.
	Forget(key Key)
}

// observe tells the observers.
func (r *round) observe(e *evaluation) {
	e.New, e.Unsettled = r.fresh, e.Report == nil && e.changes()
	r.fresh = false
	for _, observer := range r.options.Observers {
		observer.Observe(&e.Decision)
	}
}

// lost tells the observers that a question has no answer that counts.
func (r *round) lost() {
	r.fresh = false
	for _, observer := range r.options.Observers {
		observer.Lost(r.o.Key)
	}
}
