package agent

import (
	"context"
	"errors"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
)

// Key names an object: its kind, its namespace or whatever groups objects on the platform,
// and its name.
type Key = shadow.Key

// Platform is what runs workloads. Calls may be concurrent, but never two for one object.
type Platform interface {
	// Object reads what an object wants. The error is ErrGone for one that is no more.
	Object(ctx context.Context, key Key) (*Object, error)
	// Observe reads what a decision on the object goes by. Readings that failed are a part
	// of the request, as data; an error says that nothing can be asked, and is tried again.
	// A *HoldError says that the object is not to be scaled now.
	Observe(ctx context.Context, o *Object) (*Observation, error)
	// Apply writes the count that was decided for what was observed. The error is ErrMoved,
	// and nothing is written, if others have changed the count since. It is a *HoldError, and
	// nothing is written, if the object is to wait: that is no failure. Any other error is
	// reported to the service.
	Apply(ctx context.Context, o *Object, seen *Observation, change Change) error
}

// Teller is a Platform that tells people what became of rounds, for example by statuses
// and events.
type Teller interface {
	// Tell tells of a round, at its end. What fails is the teller's to log.
	Tell(ctx context.Context, t *Telling)
	// Forget drops what the platform keeps of an object: it is no more, or one of another
	// UID has its name. It may be called more than once.
	Forget(key Key, uid string)
}

// Errors of platforms.
var (
	// ErrGone means that there is no such object.
	ErrGone = errors.New("the object is gone")
	// ErrMoved means that others have changed the count since it was observed.
	ErrMoved = errors.New("the count was changed by others")
)

// Object is what an object wants. It is not changed once it was returned.
type Object struct {
	Key Key
	// UID tells the object from others that had its name. Empty: the platform has none.
	UID string
	// Target is the object's name at the service, another one for a shadow: both have
	// histories of their own. Default: the name of its key, with "_shadow" for a shadow.
	Target string
	// New reports whether the object was never evaluated, by anyone.
	New bool
	// LastChange is when whoever evaluates the object last changed its count, as the platform
	// shows it; the zero time: never. Nil: the platform does not say.
	LastChange *time.Time
	// Period is the time between two rounds. Default: that of the options.
	Period time.Duration
	// Shadow reports whether nothing is to be applied.
	Shadow bool
	// Options are those of requests. May be nil.
	Options *setpointv1.RecommendOptions
	// Revision changes with whatever the object wants, so that a change is followed by a
	// round at once. Nil: only the UID and Shadow tell.
	Revision Revision
	// Warning is something that is wrong with the object and kept from nothing.
	Warning string
	// Hold is why the object is not to be scaled, nil: it is.
	Hold *Hold
	// Held is the reason of the hold that the platform shows people now, written perhaps by
	// an agent before this one. Empty: none, or not known.
	Held string
	// Native is the platform's own.
	Native any
}

// Revision is what an object wants, to be compared.
type Revision interface {
	// Same reports whether the other one, of the same object, wants the same.
	Same(as Revision) bool
}

// Version is a Revision that is a text, for example a version number or labels.
type Version string

// Same implements Revision.
func (v Version) Same(as Revision) bool { return as == Revision(v) }

// sameAs reports whether nothing changed that a decision goes by.
func (o *Object) sameAs(other *Object) bool {
	if other == nil || o.UID != other.UID || o.Shadow != other.Shadow {
		return false
	}
	if o.Revision == nil || other.Revision == nil {
		return o.Revision == other.Revision
	}
	return o.Revision.Same(other.Revision)
}

// Observation is what a decision goes by, read at one instant.
type Observation struct {
	// Request has what was read: spec, scale, pods, samples and errors. Names, ids and
	// options are filled in by the loop.
	Request *setpointv1.RecommendRequest
	// InCharge is what the controller in charge of a shadow wants, and Against who that is.
	// Nil: the shadow is compared with nothing.
	InCharge *shadow.Side
	Against  string
	// Native is the platform's own, for example the version that a write is conditional on.
	Native any
}

// Change is a change of a count.
type Change struct {
	From, To int32
	// Reason says in a few words why, RecommendationID which recommendation it is.
	Reason, RecommendationID string
}

// Hold is why an object is not scaled.
type Hold struct {
	// Outcome counts it. Default: OutcomeInvalid.
	Outcome Outcome
	// Reason is a word for machines, Message a sentence for people without its stop.
	Reason, Message string
	// Since is when it began. Default: now.
	Since time.Time
	// Silent reports whether the platform has its own way to tell of it: there is no line in the
	// log.
	Silent bool
}

// HoldError is a Hold of which an object's reading did not tell yet.
type HoldError struct{ Hold Hold }

// Error implements error.
func (e *HoldError) Error() string { return e.Hold.Message }

// Telling is what there is to tell of a round.
type Telling struct {
	Object  *Object
	Outcome Outcome
	// Events are what happened, in their order. Each is there once, however often rounds
	// come to the same.
	Events []*setpointv1.Event
	// Hold is why the object was not scaled, nil: nothing kept it from that.
	Hold *Hold
	// Decision is what was decided, and applied but for a shadow. Nil: nothing was, or the
	// answer to the report of it can't be trusted.
	Decision *Decision

	metrics *metrics
}

// Status is the one that the service wants an object to have after a decision.
func (d *Decision) Status() *setpointv1.HorizontalPodAutoscalerStatus {
	if d.Report != nil {
		return d.Report.GetStatus()
	}
	return d.Answer.GetStatus()
}

// Wrote notes for the metrics that a write for people began then and ends now.
func (t *Telling) Wrote(began time.Time) { t.metrics.took(partStatus, began) }

// event adds one.
func (t *Telling) event(kind, reason, message string) {
	t.Events = append(t.Events, &setpointv1.Event{Type: kind, Reason: reason, Message: message})
}

// Types of events.
const (
	normal  = "Normal"
	warning = "Warning"
)
