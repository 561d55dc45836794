package admission

import (
	"cmp"
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/waits"
)

// Renew authenticates a stream's caller again, before a message is received or sent: a token or
// certificate may have expired or been revoked; groups and policy may have changed. Without
// changes it costs some loads and no allocation. Nil, nil: authentication is off.
func (g *Guard) Renew(ctx context.Context, open *access.Session) (*access.Caller, error) {
	if open == nil {
		return nil, nil
	}
	c := open.Now.Load()
	if g.options.Access.Counts(c) {
		return c, nil
	}
	// A stream has no deadline of its own, and an issuer may be slow.
	ctx, cancel := apierror.WithOwnDeadline(ctx, g.options.RequestTimeout)
	defer cancel()
	next := &access.Caller{}
	if err := g.establish(ctx, open, next, nil); err != nil {
		return nil, err
	}
	open.Now.Store(next)
	return next, nil
}

// Counts reports whether a caller is still valid, so that Renew would change nothing.
func (g *Guard) Counts(c *access.Caller) bool { return g.options.Access.Counts(c) }

// establish authenticates the session's caller, unless that was done, and checks that it may
// make such calls at all. waits may be nil; see auth.Credentials.
func (g *Guard) establish(ctx context.Context, open *access.Session, c *access.Caller, waits func()) error {
	if err := open.Identify(ctx, c, waits); err != nil {
		return g.refuseUnknown(open.Method, err)
	}
	g.noteLimits(c)
	return open.Permit(c)
}

// establishInside establishes the caller of a call that was admitted and read already, and may be in
// the gateway.
func (g *Guard) establishInside(ctx context.Context, open *access.Session, c *access.Caller) error {
	var end func()
	defer func() {
		if end != nil {
			end()
		}
	}()
	return g.establish(ctx, open, c, func() {
		if end == nil {
			end = waits.Begin(ctx, waits.Issuer)
		}
	})
}

// identified is the result of authentication: the caller's session, nil if authentication is
// off or failed, and the error that refuses the call.
type identified struct {
	session *access.Session
	err     error
}

// identify authenticates the caller, and checks that it may make such calls at all. While it waits
// for an issuer, it releases the call's place; the ticket may be nil.
func (g *Guard) identify(ctx context.Context, method string, ticket *limit.Ticket) (who identified) {
	return g.identifyBy(ctx, method, credentialsOf, ticket)
}

// identifyBy is identify with the credentials of a gRPC call.
func (g *Guard) identifyBy(ctx context.Context, method string, credentials func(context.Context) auth.Credentials, ticket *limit.Ticket) (who identified) {
	settings := g.options.Access
	if settings == nil || access.IsOpen(method) {
		return identified{}
	}
	open := &access.Session{Settings: settings, Method: method}
	if calls.IsFromGateway(ctx) {
		rest := restCallerOf(ctx)
		if rest == nil {
			return identified{err: apierror.New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_UNSPECIFIED, "internal error")}
		}
		open.Creds = rest.creds
		if rest.generation == settings.Authenticator.Generation() { // otherwise something changed while the body was read
			open.First.Identity = rest.identity
		}
	} else {
		open.Creds = credentials(ctx)
	}
	var err error
	switch {
	case ticket != nil:
		err = g.establish(ctx, open, &open.First, ticket.Wait)
	case open.First.Identity != nil:
		err = g.establish(ctx, open, &open.First, nil)
	default:
		err = g.establishInside(ctx, open, &open.First)
	}
	if open.First.Identity == nil {
		return identified{err: err}
	}
	open.Now.Store(&open.First)
	return identified{open, err}
}

// allow returns the context of a call by that caller, or the error that refuses the
// call.
func (who identified) allow(ctx context.Context) (context.Context, error) {
	if who.session != nil {
		calls.NoteIdentity(ctx, who.session.Now.Load().Identity.Name)
		ctx = access.WithSession(ctx, who.session)
	}
	return ctx, who.err
}

// credentialsOf returns the credentials of a gRPC call.
func credentialsOf(ctx context.Context) auth.Credentials {
	c := auth.Credentials{Authorization: metadata.ValueFromIncomingContext(ctx, "authorization")}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			c.TLS = &info.State
		}
	}
	return c
}

// AuthenticateCalls refuses calls of unknown callers, and stores the caller in the context.
func (g *Guard) AuthenticateCalls(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	who, early := identifiedEarly(ctx)
	if !early {
		who = g.identify(ctx, info.FullMethod, nil)
	}
	// Its message may have taken any time since.
	if who.err == nil && who.session != nil && !g.Counts(&who.session.First) {
		next := &access.Caller{}
		if who.err = g.establishInside(ctx, who.session, next); who.err == nil {
			who.session.Now.Store(next)
		}
	}
	ctx, err := who.allow(ctx)
	if err != nil {
		if who.session != nil {
			err = cmp.Or(Charge(ctx, 1), err) // else the caller's limits would not hold for what it may not call
		}
		return nil, err
	}
	return handler(ctx, req)
}

// AuthenticateStreams is AuthenticateCalls for streams.
func (g *Guard) AuthenticateStreams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	// The stream itself runs nothing; each of its messages is admitted.
	ticket, err := begin(stream.Context())
	if err != nil {
		return err
	}
	if ticket != nil {
		defer ticket.Release() // however it ends
	}
	var who identified
	if g.mayHoldToken(stream.Context(), info.FullMethod) {
		if who, stream, err = g.streamByToken(stream, info.FullMethod, ticket); err != nil {
			return err
		}
	} else {
		who = g.identify(stream.Context(), info.FullMethod, ticket)
	}
	if ticket != nil {
		ticket.Release()
	}
	ctx, err := who.allow(stream.Context())
	if err != nil {
		if who.session != nil && g.Limiter != nil {
			err = cmp.Or(g.Limiter.Charge(access.CallerOf(ctx).Name()).Err(), err)
		}
		return err
	}
	in := streamOf{stream, ctx}
	if who.session == nil || info.FullMethod == setpointv1.RecommendationService_StreamRecommend_FullMethodName { // it checks each message itself
		return handler(srv, in)
	}
	return handler(srv, renewedStream{in, g, who.session})
}

// streamOf is a stream with another context.
type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s streamOf) Context() context.Context { return s.ctx }

// renewedStream ends when its caller loses the permission for such calls.
type renewedStream struct {
	streamOf
	guard   *Guard
	session *access.Session
}

// RecvMsg implements grpc.ServerStream, as does SendMsg.
func (s renewedStream) RecvMsg(m any) error {
	if err := s.streamOf.RecvMsg(m); err != nil {
		return err
	}
	_, err := s.guard.Renew(s.ctx, s.session)
	return err
}

// SendMsg sends nothing after the caller has lost its permission.
func (s renewedStream) SendMsg(m any) error {
	if _, err := s.guard.Renew(s.ctx, s.session); err != nil {
		return err
	}
	return s.streamOf.SendMsg(m)
}

// refuseUnknown logs and returns the error of authentication.
func (g *Guard) refuseUnknown(where string, err error) error {
	g.logRefusal(where, err)
	return access.Unauthenticated(err)
}
