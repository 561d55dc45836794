package services

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/fleets"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// Fleets shows fleets.
type Fleets struct {
	setpointv1.UnimplementedFleetServiceServer
	fleets *fleets.Fleets
}

// NewFleets returns the service.
func NewFleets(all *fleets.Fleets) *Fleets { return &Fleets{fleets: all} }

// GetFleet returns the state of a fleet.
func (s *Fleets) GetFleet(ctx context.Context, req *setpointv1.GetFleetRequest) (*setpointv1.GetFleetResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	found, err := s.fleets.Fleet(ctx, decision.ParseTarget(req.GetName()))
	switch {
	case err != nil:
		return nil, apierror.OfStore(ctx, req.GetName(), err)
	case found == nil:
		return nil, apierror.New(codes.NotFound, setpointv1.ErrorReason_ERROR_REASON_FLEET_NOT_FOUND,
			"there is no fleet "+req.GetName()+": store its spec with SetTargetSpec, with fleet set", "fleet", req.GetName())
	}
	return &setpointv1.GetFleetResponse{Fleet: found}, nil
}

// ofMembers maps an error about the members of a fleet.
func ofMembers(ctx context.Context, name string, err error) error {
	var taken *fleets.TakenError
	which := "" // for those who may read it
	if errors.As(err, &taken) && access.CallerOf(ctx).Check(policy.Read, decision.ParseTarget(taken.Of)) == nil {
		which = ", " + taken.Of
	}
	switch {
	case errors.As(err, &taken) && taken.Soon:
		return apierror.New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_FLEET_MEMBER_TAKEN,
			taken.Error()+which+": try again in some seconds, or leave it out of this one", "target", taken.Member)
	case errors.As(err, &taken):
		return apierror.New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_FLEET_MEMBER_TAKEN,
			taken.Error()+which+": take it out of that one first, or leave it out of this one", "target", taken.Member)
	case errors.Is(err, store.ErrContended):
		return apierror.New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_TARGET_CONTENDED,
			"the fleet "+name+" was "+err.Error()+"; try again", "target", name)
	}
	return apierror.OfStore(ctx, name, err)
}

// isFleet is the error for what a fleet can't be.
func isFleet(name, message string) error {
	return apierror.New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_IS_FLEET, message, "target", name)
}

// claimMembers checks the caller's rights on the members of a fleet to store, and claims them.
func (s *Targets) claimMembers(ctx context.Context, key store.Key, spec *setpointv1.TargetSpec, claims fleets.Claims) error {
	caller, names := access.CallerOf(ctx), conversion.FleetMembers(spec.GetFleet())
	for _, name := range names {
		member := decision.ParseTarget(name)
		if err := caller.Check(policy.Configure, member); err != nil {
			return err
		}
		if err := caller.CheckChange(policy.Configure, member); err != nil {
			return err
		}
	}
	if spec.GetEtag() != "" { // before others see any of it
		switch before, err := s.stored.Spec(ctx, key); {
		case errors.Is(err, stored.ErrNoSpec), err == nil && before.GetEtag() != spec.GetEtag():
			return apierror.OfStored(ctx, key.String(), stored.ErrChanged)
		case err != nil:
			return apierror.OfStored(ctx, key.String(), err)
		}
	}
	if err := s.isApart(ctx, key, names); err != nil {
		return err
	}
	if err := s.fleets.Claim(ctx, key, names, claims); err != nil {
		s.fleets.Withdraw(ctx, claims)
		return ofMembers(ctx, key.String(), err)
	}
	return nil
}

// isApart returns why a target can't be a fleet of these members: it is a member of another fleet, or decided for alone,
// or one of them is a fleet itself.
func (s *Targets) isApart(ctx context.Context, key store.Key, names []string) error {
	if of, err := s.fleets.Of(ctx, key); err != nil {
		return ofMembers(ctx, key.String(), err)
	} else if of != "" {
		return ofMembers(ctx, key.String(), &fleets.TakenError{Member: key.String(), Of: of})
	}
	nested, err := s.fleets.Fleets(ctx, names)
	switch {
	case err != nil:
		return ofMembers(ctx, key.String(), err)
	case len(nested) > 0:
		return isFleet(nested[0], nested[0]+" is a fleet itself: name its members")
	}
	switch records, errs := s.targets.Load(ctx, []store.Key{key}); {
	case errs != nil && !errors.Is(errs[0], store.ErrUnreadable):
		return apierror.OfStore(ctx, key.String(), errs[0])
	case errs != nil || records[0].Exists():
		return apierror.New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_HAS_HISTORY,
			key.String()+" has a history: something calls Recommend for it, or polls it, as for an ordinary target. Stop that and delete the target with DeleteTarget, or store the fleet under another name", "target", key.String())
	}
	return nil
}

// storedFleet completes the storing of a spec that is, or was, a fleet's: the record is under it, and members that it
// no longer names are released. A member that another caller has taken meanwhile undoes it.
func (s *Targets) storedFleet(ctx context.Context, key store.Key, spec, before *setpointv1.TargetSpec, claims fleets.Claims) error {
	names, had := conversion.FleetMembers(spec.GetFleet()), conversion.FleetMembers(before.GetFleet())
	gone := slices.DeleteFunc(slices.Clone(had), func(name string) bool { return slices.Contains(names, name) })
	switch {
	case len(names) == 0 && len(had) == 0:
		return nil
	case len(names) == 0:
		if err := s.fleets.Delete(ctx, key, had); err != nil {
			return ofMembers(ctx, key.String(), err)
		}
		return nil
	}
	err := s.fleets.Claim(ctx, key, names, claims)
	if err != nil {
		err = ofMembers(ctx, key.String(), err)
	} else if err = s.isApart(ctx, key, names); err == nil { // else one became a fleet, or this a member, while it was stored
		if err = s.fleets.Stored(ctx, key, stored.VersionOf(spec), len(had) == 0); err != nil {
			err = ofMembers(ctx, key.String(), err)
		}
	}
	if err != nil {
		if code := status.Code(err); (code == codes.FailedPrecondition || code == codes.ResourceExhausted) && s.undo(ctx, key, spec, before) {
			s.fleets.Withdraw(ctx, claims)
		}
		return err
	}
	if err := s.fleets.Release(ctx, key, gone); err != nil {
		return ofMembers(ctx, key.String(), err)
	}
	return nil
}

// undo puts back the spec before one that was just stored, and reports whether it did: not if another caller has
// changed it since.
func (s *Targets) undo(ctx context.Context, key store.Key, spec, before *setpointv1.TargetSpec) bool {
	if before == nil {
		return s.stored.DeleteSpec(ctx, key, spec.GetEtag()) == nil
	}
	before.Etag = spec.GetEtag()
	back, _, err := s.stored.SetSpec(ctx, key, before, before.GetUpdatedBy())
	if err == nil && before.GetFleet() != nil {
		_ = s.fleets.Stored(ctx, key, stored.VersionOf(back), false)
	}
	return err == nil
}

// withoutHistory is the error for a target that has no history because it is a fleet, or a fleet decides for it; any
// other error stays as it is. It names no fleet: the caller may read the target, not what decides for it.
func (s *Targets) withoutHistory(ctx context.Context, name string, err error) error {
	if status.Code(err) != codes.NotFound {
		return err
	}
	key := decision.ParseTarget(name)
	explained := func(message string) error {
		return apierror.New(codes.NotFound, setpointv1.ErrorReason_ERROR_REASON_TARGET_NOT_FOUND, message, "target", name)
	}
	if is, failed := s.fleets.Fleets(ctx, []string{name}); failed == nil && len(is) > 0 {
		return explained("no history for " + name + ": it is a fleet; setpoint fleet show " + name + " or GetFleet (GET /v1/" + name + "/fleet) shows its state, ListDecisions its decisions")
	}
	if of, failed := s.fleets.Of(ctx, key); failed == nil && of != "" {
		return explained("no history for " + name + ": a fleet decides for it; ListDecisions has the shares that it was told")
	}
	return err
}
