package decision

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// Request is a request for a decision whose caller may make it.
type Request struct {
	// Target is the name of the target, and Key the same in the store.
	Target string
	Key    store.Key
	Input  *recommender.Input
	// Seeder completes the input of a target without history; nil: it is complete.
	Seeder interface{ Seed() }
	// Spec returns the spec and the options, and SpecHash identifies them.
	Spec     interface{ SpecInUse() *setpointv1.SpecInUse }
	SpecHash uint64
	// Defaults are the options where a spec sets none, and Least and Most the caller's caps of a spec's bounds, nil:
	// there are none; for the shadows of the target.
	Defaults    *recommender.Options
	Least, Most *int32
	// Budget is what the shadows of the target may cost; nil: it is unlimited.
	Budget shadows.Budget
	// Around are the stages around the decision, without the overrides.
	Around stages.Around
	// Owner is whose target it is.
	Owner record.Owner
	// RequestID is the caller's, and AnswerKey the key of its remembered answer; empty: none.
	RequestID, AnswerKey string
	// Poll is the poll that the request is made for.
	Poll record.Poll
	// Fleet is the fleet that decides for the target; nil: it is decided alone.
	Fleet *Membership
	// DryRun records nothing.
	DryRun bool
	// RestartAfterPause begins windows anew that a pause has emptied, with the current replicas.
	RestartAfterPause bool
	// Now is the instant of the decision. Timed reports whether the request sets it, AnyTime
	// whether it may.
	Now            time.Time
	Timed, AnyTime bool
	// Bounds limit the targets of the cluster.
	Bounds shares.Bounds
	// Span records the steps; nil: it is not traced.
	Span trace.Span
}

// Membership is the fleet that a request names.
type Membership struct {
	// Name is the fleet's, and Key the same in the store.
	Name string
	Key  store.Key
	// Reads reports whether the caller may read the fleet.
	Reads bool
}

// Outcome is what became of a request: a decision, an earlier answer, or an error.
type Outcome struct {
	Decided  bool
	Decision recommender.Decision
	// Steps explain the decision for the span.
	Steps *recommender.Explanation
	// Earlier is an earlier answer; to a request with a fleet, the fleet's.
	Earlier  *setpointv1.RecommendResponse
	Err      error
	Attempts int
	// Interval and Turns are the record's Interval and TurnTimes, and Shadows what these would have, for metrics of
	// single targets; unset without these.
	Interval int64
	Turns    []int64
	Shadows  []telemetry.Shadow
}

// done reports whether there is an outcome.
func (o *Outcome) done() bool { return o.Decided || o.Earlier != nil || o.Err != nil }
