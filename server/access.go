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
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	files "github.com/setpoint-dev/setpoint/server/auth/watched"
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
	setpointv1.RecommendationService_Recommend_FullMethodName:       policy.Recommend,
	setpointv1.RecommendationService_BatchRecommend_FullMethodName:  policy.Recommend,
	setpointv1.RecommendationService_StreamRecommend_FullMethodName: policy.Recommend,
	setpointv1.RecommendationService_ReportScale_FullMethodName:     policy.Recommend,
	setpointv1.TargetService_GetTarget_FullMethodName:               policy.Read,
	setpointv1.TargetService_ListTargets_FullMethodName:             policy.Read,
	setpointv1.TargetService_ListDecisions_FullMethodName:           policy.Read,
	setpointv1.TargetService_WatchDecisions_FullMethodName:          policy.Read,
	setpointv1.TargetService_DeleteTarget_FullMethodName:            policy.Delete,
	setpointv1.SimulationService_Simulate_FullMethodName:            policy.Simulate,
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

// caller is who makes a call. Nil is whoever calls in the process, or anybody where
// nobody is asked: they may do everything.
type caller struct {
	access   *Access
	creds    auth.Credentials
	identity *auth.Identity
	// grants are those of the policy at checked, in nanoseconds since the Unix epoch.
	grants  atomic.Pointer[policy.Grants]
	checked atomic.Int64
}

type callerKey struct{}

// callerOf returns who makes a call, nil for everybody.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
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
	return denied(c.grants.Load().Check(verb, key.Cluster, key.Namespace))
}

// within returns what of a listing the caller may see; nil: everything.
func (c *caller) within(verb policy.Verb, filter store.Filter) (*policy.Scope, error) {
	if c == nil {
		return nil, nil
	}
	scope := c.grants.Load().Within(verb, filter.Cluster, filter.Namespace)
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
func (c *caller) configured() bool { return c != nil && c.grants.Load().HasOptions() }

// renewAfter is how long a stream goes on before its caller is looked at again.
const renewAfter = time.Second

// renew looks at a stream's caller again: a token may have been revoked, the policy
// may have changed.
func (c *caller) renew(ctx context.Context, now time.Time) error {
	if c == nil || now.UnixNano()-c.checked.Load() < int64(renewAfter) {
		return nil
	}
	if c.creds.Authorization != nil || c.creds.TLS != nil {
		if _, err := c.access.Authenticator.Authenticate(ctx, c.creds); err != nil {
			return unauthenticated(err)
		}
	}
	c.grants.Store(c.access.Policy.Load().For(c.identity))
	c.checked.Store(now.UnixNano())
	return nil
}

// identified is what was found out of who makes a call: who it is, unless nobody is
// asked or nobody is known, and why they may not make such calls at all.
type identified struct {
	caller *caller
	err    error
}

// identify finds out who makes a call, and whether they may make such calls at all.
func (s *Server) identify(ctx context.Context, method string) (who identified) {
	access := s.options.Access
	if access == nil || openCalls[method] {
		return identified{}
	}
	c := &caller{access: access}
	if isFromGateway(ctx) {
		identity, ok := identityFromGateway(ctx)
		if !ok {
			return identified{err: newError(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_UNSPECIFIED, "internal error")}
		}
		c.identity = identity
	} else {
		c.creds = credentialsOf(ctx)
		identity, err := access.Authenticator.Authenticate(ctx, c.creds)
		if err != nil {
			return identified{err: s.refuseUnknown(method, err)}
		}
		c.identity = identity
	}
	c.grants.Store(access.Policy.Load().For(c.identity))
	c.checked.Store(s.options.Clock().UnixNano())
	s.noteLimits(c)
	if knownCalls[method] {
		return identified{caller: c}
	}
	// Of an unknown method the verb is 0, which nobody is allowed.
	return identified{c, denied(c.grants.Load().CheckAnywhere(verbs[method]))}
}

// allow returns the context of a call by whom was found, or why it may not be made.
func (who identified) allow(ctx context.Context) (context.Context, error) {
	if who.caller != nil {
		noteIdentity(ctx, who.caller.identity.Name)
		ctx = context.WithValue(ctx, callerKey{}, who.caller)
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
		who = s.identify(ctx, info.FullMethod)
	}
	ctx, err := who.allow(ctx)
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (s *Server) authenticateStreams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, err := s.identify(stream.Context(), info.FullMethod).allow(stream.Context())
	if err != nil {
		return err
	}
	return handler(srv, streamOf{stream, ctx})
}

// streamOf is a stream with another context.
type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s streamOf) Context() context.Context { return s.ctx }

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
	return newError(code, setpointv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, err.Error(), "cause", string(auth.ReasonOf(err)))
}

// denied maps a policy's refusal; nil stays nil.
func denied(err error) error {
	var d *policy.DeniedError
	if !errors.As(err, &d) {
		return err
	}
	return newError(codes.PermissionDenied, setpointv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, d.Error(),
		"identity", d.Identity, "verb", d.Verb.String())
}
