package apierror

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// OfStored maps an error about the stored spec or observations of a target.
func OfStored(ctx context.Context, target string, err error) error {
	var undecided *stored.UndecidedError
	var other *stored.OtherCountError
	var bounds *stored.BoundsError
	var large *stored.TooLargeError
	var unreadable *stored.UnreadableError
	switch {
	case errors.Is(err, stored.ErrNoSpec):
		return New(codes.NotFound, setpointv1.ErrorReason_ERROR_REASON_SPEC_NOT_FOUND,
			"no spec is stored of "+target+": store one with SetTargetSpec (PUT /v1/"+target+"/spec)", "target", target)
	case errors.Is(err, stored.ErrGone):
		return New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_SPEC_CHANGED,
			"no spec is stored of "+target+", so that none has that etag: leave the etag out", "target", target)
	case errors.Is(err, stored.ErrChanged):
		return New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_SPEC_CHANGED,
			"the stored spec of "+target+" has changed since that etag: get it again", "target", target)
	case errors.Is(err, stored.ErrDissolves):
		return New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_IS_FLEET,
			target+" is a fleet, and a spec without fleet would dissolve it: set fleet, or delete the fleet with DeleteTargetSpec first, or send the etag that GetTargetSpec shows to replace it all the same", "target", target)
	case errors.Is(err, stored.ErrIsFleet):
		return IsFleet(target)
	case errors.Is(err, store.ErrContended):
		return New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_TARGET_CONTENDED,
			target+" is "+err.Error()+"; try again", "target", target)
	case errors.Is(err, stored.ErrNoScale):
		return New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_SCALE_UNKNOWN,
			"the number of replicas of "+target+" is unknown: "+err.Error()+"; report it with ReportObservation, send currentReplicas, "+
				"or set assumeApplied in the stored spec", "target", target)
	case errors.Is(err, stored.ErrSelectorTerms):
		return OverBudget(conversion.SelectorTerms)
	case errors.As(err, &bounds):
		return InvalidField(bounds.Field, "Invalid value: "+err.Error())
	case errors.As(err, &undecided):
		return New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_NOT_COMPUTED,
			Clip(target+": "+undecided.Error()), "target", target, "condition", undecided.Reason)
	case errors.As(err, &other):
		return New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_NOT_COMPUTED, target+": "+other.Error(), "target", target)
	case errors.As(err, &large):
		return OverLimit(large.Limit, large.Most, large.Error())
	case errors.As(err, &unreadable):
		return New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_HISTORY_UNREADABLE,
			"the stored "+unreadable.What+" of "+target+" can't be read: delete it", "target", target)
	}
	return OfStore(ctx, target, err)
}
