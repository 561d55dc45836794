package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	files "github.com/setpoint-dev/setpoint/server/auth/watched"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

// Access says who calls and what they may do.
type Access struct {
	// Authenticator finds out who calls. It stays its owner's to close.
	Authenticator *auth.Authenticator
	// Policy says what callers may do.
	Policy *files.File[*policy.Policy]
}

// verbs is what a caller must be allowed to do for each of our calls. A call that is
// not here is refused; a test compares it with the contract.
var verbs = map[string]policy.Verb{
	setpointv1.RecommendationService_Recommend_FullMethodName:         policy.Recommend,
	setpointv1.RecommendationService_BatchRecommend_FullMethodName:    policy.Recommend,
	setpointv1.RecommendationService_StreamRecommend_FullMethodName:   policy.Recommend,
	setpointv1.RecommendationService_ReportScale_FullMethodName:       policy.Recommend,
	setpointv1.RecommendationService_ReportObservation_FullMethodName: policy.Recommend,
	setpointv1.RecommendationService_GetRecommendation_FullMethodName: policy.Recommend,
	setpointv1.TargetService_GetTargetSpec_FullMethodName:             policy.Read,
	setpointv1.TargetService_ListTargetSpecs_FullMethodName:           policy.Read,
	setpointv1.TargetService_SetTargetSpec_FullMethodName:             policy.Configure,
	setpointv1.TargetService_DeleteTargetSpec_FullMethodName:          policy.Configure,
	setpointv1.TargetService_GetTarget_FullMethodName:                 policy.Read,
	setpointv1.TargetService_ListTargets_FullMethodName:               policy.Read,
	setpointv1.TargetService_ListDecisions_FullMethodName:             policy.Read,
	setpointv1.TargetService_WatchDecisions_FullMethodName:            policy.Read,
	setpointv1.TargetService_DeleteTarget_FullMethodName:              policy.Delete,
	setpointv1.SimulationService_Simulate_FullMethodName:              policy.Simulate,
}

// Calls beside the contract: anybody may ask for health, for probes have no
// credentials; the contract may be read by whoever is known.
var (
	openCalls = map[string]bool{
		"/grpc.health.v1.Health/Check": true,
		"/grpc.health.v1.Health/Watch": true,
		"/grpc.health.v1.Health/List":  true,
	}
	knownCalls = map[string]bool{
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
	}
)

// caller is who makes a call, and what the policy says of them. It never changes. Nil is
// whoever calls in the process, or anybody where nobody is asked: they may do everything.
type caller struct {
	identity *auth.Identity
	grants   *policy.Grants
	// policy is what grants are of, and generation the authenticator's when it was asked.
	policy     *policy.Policy
	generation uint64
	// checked is when, in nanoseconds since the Unix epoch.
	checked int64
}

// session is a call, or a stream, by one who was asked for credentials.
type session struct {
	access *Access
	method string
	creds  auth.Credentials
	// first is who it was at the beginning, and now who it is, as of the last look.
	first caller
	now   atomic.Pointer[caller]
}

type callerKey struct{}

// sessionOf returns the session of a call, nil if nobody was asked.
func sessionOf(ctx context.Context) *session {
	s, _ := ctx.Value(callerKey{}).(*session)
	return s
}

// callerOf returns who makes a call, nil for everybody.
func callerOf(ctx context.Context) *caller {
	if s := sessionOf(ctx); s != nil {
		return s.now.Load()
	}
	return nil
}

func (c *caller) name() string {
	if c == nil {
		return ""
	}
	return c.identity.Name
}

// check returns PERMISSION_DENIED unless the caller may do that with a target.
func (c *caller) check(verb policy.Verb, key store.Key) error {
	if c == nil {
		return nil
	}
	return denied(c.grants.Check(verb, key.Cluster, key.Namespace))
}

// checkChange returns PERMISSION_DENIED to callers of whose calls about a target nothing
// may be recorded: what they may not write they may neither settle nor delete.
func (c *caller) checkChange(verb policy.Verb, key store.Key) error {
	if c == nil || !c.grants.HasOptions() {
		return nil
	}
	set := c.grants.Options(key.Cluster, key.Namespace, key.Target)
	if set.DryRunOnly == nil || !*set.DryRunOnly {
		return nil
	}
	return apierror.New(codes.PermissionDenied, setpointv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		c.identity.Name+" may do nothing about "+apierror.Clip(key.String())+" that is recorded: the policy allows dry runs only (dryRunOnly)",
		"identity", c.identity.Name, "verb", verb.String())
}

// within returns what of a listing the caller may see; nil: everything.
func (c *caller) within(verb policy.Verb, filter store.Filter) (*policy.Scope, error) {
	if c == nil {
		return nil, nil
	}
	scope := c.grants.Within(verb, filter.Cluster, filter.Namespace)
	if scope.None() {
		return nil, denied(&policy.DeniedError{Identity: c.identity.Name, Verb: verb, Cluster: orAll(filter.Cluster), Namespace: orAll(filter.Namespace)})
	}
	return &scope, nil
}

func orAll(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

// configured reports whether the operator has set options for some of the caller's
// targets.
func (c *caller) configured() bool { return c != nil && c.grants.HasOptions() }

// renewAfter is how long a caller may count without being looked at again, though no file
// and no key has changed meanwhile: keys that can't be fetched end by time.
const renewAfter = time.Second

// renew looks at a stream's caller again, before a message is taken or sent: a token may
// have been revoked or have ended, a certificate too; groups and policy may have changed.
// While nothing has, that takes some loads and no memory. Nil, nil: nobody is asked.
func (s *Server) renew(ctx context.Context, open *session) (*caller, error) {
	if open == nil {
		return nil, nil
	}
	c := open.now.Load()
	if s.counts(c) {
		return c, nil
	}
	next := &caller{}
	if err := s.establish(ctx, open, next, nil); err != nil {
		return nil, err
	}
	open.now.Store(next)
	return next, nil
}

// counts reports whether nothing can have changed of what is known of a caller.
func (s *Server) counts(c *caller) bool {
	access := s.options.Access
	now := time.Now()
	return c.generation == access.Authenticator.Generation() && c.policy == access.Policy.Load() &&
		now.UnixNano()-c.checked < int64(renewAfter) && (c.identity.Expires.IsZero() || now.Before(c.identity.Expires))
}

// establish finds out who a session is by, unless that is known, and whether they may make
// such calls at all. waits may be nil; see auth.Credentials.
func (s *Server) establish(ctx context.Context, open *session, c *caller, waits func()) error {
	// Before the credentials are looked at: what changes meanwhile is seen next time.
	c.generation, c.checked = open.access.Authenticator.Generation(), time.Now().UnixNano()
	if c.identity == nil {
		asked := open.creds
		asked.Waits = waits
		identity, err := open.access.Authenticator.Authenticate(ctx, asked)
		if err != nil {
			return s.refuseUnknown(open.method, err)
		}
		c.identity = identity
	}
	c.policy = open.access.Policy.Load()
	c.grants = c.policy.For(c.identity)
	s.noteLimits(c)
	if knownCalls[open.method] {
		return nil
	}
	// Of an unknown method the verb is 0, which nobody is allowed.
	return denied(c.grants.CheckAnywhere(verbs[open.method]))
}

// identified is what was found out of who makes a call: who it is, unless nobody is
// asked or nobody is known, and why they may not make such calls at all.
type identified struct {
	session *session
	err     error
}

// identify finds out who makes a call, and whether they may make such calls at all. Where
// that takes an answer of an issuer, the call gives its place back meanwhile; the ticket may
// be nil.
func (s *Server) identify(ctx context.Context, method string, ticket *limit.Ticket) (who identified) {
	access := s.options.Access
	if access == nil || openCalls[method] {
		return identified{}
	}
	open := &session{access: access, method: method}
	if calls.IsFromGateway(ctx) {
		rest := s.restCallerOf(ctx)
		if rest == nil {
			return identified{err: apierror.New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_UNSPECIFIED, "internal error")}
		}
		open.creds = rest.creds
		if rest.generation == access.Authenticator.Generation() { // else while the body came something changed
			open.first.identity = rest.identity
		}
	} else {
		open.creds = credentialsOf(ctx)
	}
	var waits func()
	if ticket != nil {
		waits = ticket.Wait
	}
	err := s.establish(ctx, open, &open.first, waits)
	if open.first.identity == nil {
		return identified{err: err}
	}
	open.now.Store(&open.first)
	return identified{open, err}
}

// allow returns the context of a call by whom was found, or why it may not be made.
func (who identified) allow(ctx context.Context) (context.Context, error) {
	if who.session != nil {
		calls.NoteIdentity(ctx, who.session.first.identity.Name)
		ctx = context.WithValue(ctx, callerKey{}, who.session)
	}
	return ctx, who.err
}

// credentialsOf returns what came with a call over gRPC.
func credentialsOf(ctx context.Context) auth.Credentials {
	c := auth.Credentials{Authorization: metadata.ValueFromIncomingContext(ctx, "authorization")}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			c.TLS = &info.State
		}
	}
	return c
}

func (s *Server) authenticateCalls(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	who, early := identifiedEarly(ctx)
	if !early {
		who = s.identify(ctx, info.FullMethod, nil)
	}
	ctx, err := who.allow(ctx)
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (s *Server) authenticateStreams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	// A stream runs nothing by itself; its messages are let in each.
	ticket, err := begin(stream.Context())
	if err != nil {
		return err
	}
	who := s.identify(stream.Context(), info.FullMethod, ticket)
	if ticket != nil {
		ticket.Release()
	}
	ctx, err := who.allow(stream.Context())
	if err != nil {
		return err
	}
	in := streamOf{stream, ctx}
	if who.session == nil || info.FullMethod == streamMethod { // which looks at each message by itself
		return handler(srv, in)
	}
	return handler(srv, renewedStream{in, s, who.session})
}

// streamOf is a stream with another context.
type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s streamOf) Context() context.Context { return s.ctx }

// renewedStream ends once its caller may not make such calls any more.
type renewedStream struct {
	streamOf
	server  *Server
	session *session
}

// RecvMsg implements grpc.ServerStream, as does SendMsg.
func (s renewedStream) RecvMsg(m any) error {
	if err := s.streamOf.RecvMsg(m); err != nil {
		return err
	}
	_, err := s.server.renew(s.ctx, s.session)
	return err
}

// SendMsg sends nothing to those who may not know.
func (s renewedStream) SendMsg(m any) error {
	if _, err := s.server.renew(s.ctx, s.session); err != nil {
		return err
	}
	return s.streamOf.SendMsg(m)
}

// refuseUnknown logs and returns why a caller is not known.
func (s *Server) refuseUnknown(where string, err error) error {
	s.logRefusal(where, err)
	return unauthenticated(err)
}

// unauthenticated maps an error of the authenticator.
func unauthenticated(err error) error {
	code := codes.Unauthenticated
	var refused *auth.Error
	if errors.As(err, &refused) && refused.Unavailable() {
		code = codes.Unavailable
	}
	return apierror.New(code, setpointv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, err.Error(), "cause", string(auth.ReasonOf(err)))
}

// denied maps a policy's refusal; nil stays nil.
func denied(err error) error {
	var d *policy.DeniedError
	if !errors.As(err, &d) {
		return err
	}
	return apierror.New(codes.PermissionDenied, setpointv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, d.Error(),
		"identity", d.Identity, "verb", d.Verb.String())
}
