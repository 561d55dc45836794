package services

import (
	"context"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/keda"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

// Scaler returns KEDA's service.
func (s *Recommendations) Scaler() *keda.Scaler {
	return keda.New(keda.Options{
		Admit: s.admitLook,
		Authorize: func(ctx context.Context, key store.Key) error {
			calls.NoteTarget(ctx, key.String())
			c, err := s.guard.Renew(ctx, access.SessionOf(ctx))
			if err != nil {
				return err
			}
			return c.Check(policy.Recommend, key)
		},
		Recommend: func(ctx context.Context, key store.Key) (*setpointv1.Recommendation, error) {
			ctx, cancel := apierror.WithOwnDeadline(ctx, s.targets.Options.RequestTimeout)
			defer cancel()
			r, err := s.stored.Recommendation(ctx, key, pollOf(ctx, key))
			if err != nil {
				return nil, apierror.OfStored(ctx, key.String(), err)
			}
			return r, nil
		},
		Invalid:  apierror.Invalid,
		Draining: s.draining,
	})
}

// admitLook admits one evaluation of a stream like a call: with a deadline, the caller's limits and
// its own ticket.
func (s *Recommendations) admitLook(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := apierror.WithOwnDeadline(ctx, s.targets.Options.RequestTimeout)
	var caller *access.Caller
	if open := access.SessionOf(ctx); open != nil {
		var err error
		if caller, err = s.guard.Renew(ctx, open); err != nil {
			cancel()
			return nil, nil, err
		}
	}
	ticket := new(limit.Ticket)
	if err := s.admit(ctx, ticket, caller.Name()); err != nil {
		cancel()
		return nil, nil, err
	}
	return admission.WithTicket(ctx, ticket), func() { ticket.Release(); cancel() }, nil
}
