package services

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/keda"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

// Scaler returns KEDA's service; nil if the store has no specs.
func (s *Recommendations) Scaler() *keda.Scaler {
	if s.stored == nil {
		return nil
	}
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
		Stopping: apierror.ShuttingDown,
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

// ScalerDesc describes KEDA's service to gRPC. It refuses messages above keda.MaxMessage before
// it decodes them: their metadata are a map, which takes much more memory than its bytes.
func ScalerDesc() *grpc.ServiceDesc {
	desc := externalscaler.ExternalScaler_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		handler := desc.Methods[i].Handler
		desc.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
			return handler(srv, ctx, func(into any) error { return decodeSmall(decode, into) }, next)
		}
	}
	desc.Streams = slices.Clone(desc.Streams)
	for i := range desc.Streams {
		handler := desc.Streams[i].Handler
		desc.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			return handler(srv, smallMessages{stream})
		}
	}
	return &desc
}

// smallMessages is a stream with a limit on messages.
type smallMessages struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (s smallMessages) RecvMsg(into any) error { return decodeSmall(s.ServerStream.RecvMsg, into) }

// decodeSmall decodes a message that is not too large.
func decodeSmall(decode func(any) error, into any) error {
	var in encoded.Message
	if err := decode(&in); err != nil {
		return err
	}
	defer in.Free()
	if len(in.Data) > keda.MaxMessage {
		return apierror.OverLimit("maxScalerBytes", keda.MaxMessage, "the trigger's metadata are larger than this server takes")
	}
	if err := proto.Unmarshal(in.Data, into.(proto.Message)); err != nil {
		return apierror.Undecodable()
	}
	return nil
}
