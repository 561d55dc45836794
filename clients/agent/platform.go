package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// Key names an object: its kind, its namespace or whatever groups objects on the platform,
// and its name.
type Key = shadow.Key

// Platform runs workloads. Calls may be concurrent, but never two for one object. The context of each ends after
// three times Options.RequestTimeout. A call that panics, or returns nil without an error, fails for its object; the
// others go on. A panic of a goroutine that a call starts ends the agent, unless that recovers it.
type Platform interface {
	// Object reads an object's settings. It is called again before a count is applied, which is not applied
	// if the object has changed. The error is ErrGone if it no longer exists. before is
	// what Object returned last for this key, so that its Native can be the platform's memory of
	// the object; nil: nothing since the agent started, or since the object was gone. It may have
	// another UID: then the object was recreated.
	Object(ctx context.Context, key Key, before *Object) (*Object, error)
	// Observe reads the input of a decision. Failed readings are part of the request, as
	// data. An error means that there can be no request, and is retried, and a fleet is told that it can't see its
	// member; a *HoldError means that there must be none now, so that the service's windows get no recommendation.
	Observe(ctx context.Context, o *Object) (*Observation, error)
	// Apply writes the decided count. If others have changed the count since the observation
	// it writes nothing and returns ErrMoved. A write of which it does not know whether it was made ends with
	// Written.
	//
	// If the platform accepts no count now, for example while it deploys, Apply writes nothing
	// and returns a *HoldError. Don't return such a wait from Object or Observe: in this way the
	// service is asked in each period meanwhile, so that its windows are as those of a
	// HorizontalPodAutoscaler, and the shown Hold says what the count would be. The wait and any
	// other error are reported to the service, whose policies then count no change.
	Apply(ctx context.Context, o *Object, seen *Observation, change Change) error
}

// Teller is a Platform that shows people the outcome of reconciles, for example in statuses
// and events.
type Teller interface {
	// Tell shows a reconcile, at its end. It logs its failures itself, with [Telling.Failed].
	Tell(ctx context.Context, t *Telling)
}

// Errors of platforms.
var (
	// ErrGone means that there is no such object.
	ErrGone = errors.New("the object is gone")
	// ErrMoved means that others have changed the count since it was observed. The object is read
	// again, and decided again at once if its settings are the same.
	ErrMoved = errors.New("the count was changed by others")
)

// Written is the outcome of a write of a count that failed, or whose answer was lost: it may have been made
// nevertheless, and is not to be reported as a failure then. read reads the count again. The error is nil if that is
// the written one, and ErrMoved, with the failure, if it can't be read: the next request's count shows it.
func Written(count int32, failure error, read func() (int32, error)) error {
	switch now, err := read(); {
	case err != nil:
		return fmt.Errorf("%w, or not: %w", ErrMoved, failure)
	case now == count:
		return nil
	}
	return failure
}

// Object is the settings of an object. It is immutable.
type Object struct {
	Key Key
	// UID distinguishes the object from earlier ones of its name. Empty: the platform has
	// none.
	UID string
	// Target is the object's name at the service, to which the loop adds ShadowSuffix for a
	// shadow: both have histories of their own. Default: the name of its key.
	Target string
	// New reports whether no controller has ever evaluated the object.
	New bool
	// LastChange is when a controller last changed the object's count, as the platform shows
	// it; the zero time: never. Nil: unknown.
	LastChange *time.Time
	// Period is the time between two reconciles. Default: that of the options.
	Period time.Duration
	// Shadow reports whether nothing is to be applied.
	Shadow bool
	// Options are those of requests. May be nil.
	Options *setpointv1.RecommendOptions
	// Stages are those around the decisions. May be nil.
	Stages *setpointv1.Stages
	// Fleet is the name of the fleet that decides for the object. Empty: the object is decided alone.
	Fleet string
	// Spec is that of requests. Where a member of a fleet can't be observed, the fleet is told so with it; nil: it is not told.
	Spec *setpointv1.HorizontalPodAutoscalerSpec
	// Revision changes with the object's settings; the loop reconciles at once after a
	// change. Nil: only the UID and Shadow count.
	Revision Revision
	// Warning is a problem of the object, which an event tells once; a Hold says whether it keeps it from
	// being scaled.
	Warning string
	// Hold is why the object must not be scaled; nil: it is scaled. A member of a fleet that is waiting, not Silent, is
	// still observed and asked for.
	Hold *Hold
	// Held is the reason of the hold that the platform shows now, perhaps written by an
	// earlier agent. Empty: none, or unknown.
	Held string
	// Native is for the platform's own use.
	Native any
}

// ShadowSuffix ends the names of shadows at the service, and no other names: no object's target
// ends so.
const ShadowSuffix = target.ShadowSuffix

// Is reports whether the object, which may be nil, has the UID.
func (o *Object) Is(uid string) bool { return o != nil && o.UID == uid }

// Revision is an object's settings, for comparison.
type Revision interface {
	// Same reports whether the other one, of the same object, wants the same.
	Same(as Revision) bool
}

// Version is a Revision in text form, for example a version number or labels.
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

// Observation is the input of a decision, read at one instant.
type Observation struct {
	// Request has the readings: spec, scale, pods, samples and errors. The loop fills in
	// names, ids and options.
	Request *setpointv1.RecommendRequest
	// InCharge is the decision of the controller that acts on a shadow's workload, and
	// Against its name. Nil: the shadow is not compared.
	InCharge *shadow.Side
	Against  string
	// LastScale is when the controller in charge last scaled, as the platform shows it. Zero: it has
	// not, or that is unknown.
	LastScale time.Time
	// Notice is what people should know beside the readings, such as tasks that don't run and
	// why. Empty: nothing.
	Notice string
	// Native is for the platform's own use, for example the version that a write requires.
	Native any
}

// Change is a change of a count.
type Change struct {
	From, To int32
	// Reason is why, in a few words. RecommendationID names the recommendation, or, of a fleet's share,
	// which has no name, the request: either is another one for each change.
	Reason, RecommendationID string
	// Why is Reason, and what stages and overrides made of it.
	Why string
	// Figures are those that led to it.
	Figures Figures
}

// Hold is why an object is not scaled.
type Hold struct {
	// Outcome counts it: OutcomeWaiting if it ends by itself. Default: OutcomeInvalid.
	Outcome Outcome
	// Reason is a CamelCase word for machines, Message a sentence for people, without its
	// full stop.
	Reason, Message string
	// Since is when it began. Default: now.
	Since time.Time
	// Silent reports whether the platform logs the hold itself: the loop does not.
	Silent bool
	// ofAll reports whether the log has the hold of all objects together, and its end.
	ofAll bool
	// wants is what the count would be, after the message; empty: unknown.
	wants string
}

// HoldError is a Hold that Platform.Object did not return yet.
type HoldError struct{ Hold Hold }

// Error implements error.
func (e *HoldError) Error() string { return e.Hold.Message }

// Telling is the outcome of a reconcile, to show to people.
type Telling struct {
	Object  *Object
	Outcome Outcome
	// Dry reports whether the whole agent applies and writes nothing.
	Dry bool
	// Events are the new events, in their order. Each appears once, even if further
	// reconciles have the same outcome.
	Events []*setpointv1.Event
	// Hold is why the object was not scaled; nil: it was not held.
	Hold *Hold
	// Decision is the decision, which was applied unless the object is a shadow. Nil: there
	// was none, or the answer to its report is invalid.
	Decision *Decision

	loop *Loop
}

// Status returns the status that the object has after the decision, from the service.
func (d *Decision) Status() *setpointv1.HorizontalPodAutoscalerStatus {
	if d.Report != nil {
		return d.Report.GetStatus()
	}
	return d.Answer.GetStatus()
}

// Wrote records for the metrics a write of Tell that began at that time and ends now.
func (t *Telling) Wrote(began time.Time) { t.loop.metrics.took(partStatus, began) }

// Failed logs a failure of Tell, as the loop logs its own: one line a minute for each cause, however many objects it
// concerns.
func (t *Telling) Failed(text string, err error) {
	l := t.loop
	l.once.say(l.log, l.queue.LogLevel(zapcore.WarnLevel, err), text, causeOf(err.Error()), zap.Stringer("object", t.Object.Key), zap.Error(err))
}

// event adds one.
func (t *Telling) event(kind, reason, message string) {
	t.Events = append(t.Events, &setpointv1.Event{Type: kind, Reason: reason, Message: message})
}

// Types of events.
const (
	normal  = "Normal"
	warning = "Warning"
)
