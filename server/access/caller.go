package access

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/store"
)

// Settings are how callers are authenticated and authorized.
type Settings struct {
	// Authenticator authenticates callers. Its owner closes it.
	Authenticator *auth.Authenticator
	// Policy grants permissions to callers.
	Policy *files.Watched[*policy.Policy]
}

// Calls outside the contract: health is open to all, because probes have no
// credentials; every authenticated caller may read the contract, and call GetCaller.
var (
	openCalls = map[string]bool{
		"/grpc.health.v1.Health/Check": true,
		"/grpc.health.v1.Health/Watch": true,
		"/grpc.health.v1.Health/List":  true,
	}
	knownCalls = map[string]bool{
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,

		setpointv1.OperationsService_GetCaller_FullMethodName:   true,
		setpointv1.OperationsService_ListCallers_FullMethodName: true, // it checks the caller itself
	}
)

// IsOpen reports whether a call needs no authentication.
func IsOpen(method string) bool { return openCalls[method] }

// Caller is the caller of a call, with its grants. It is immutable. Nil is a caller within the
// process, or any caller while authentication is off; it may do everything.
type Caller struct {
	Identity *auth.Identity
	Grants   *policy.Grants
	// policy is the policy of the grants, and generation the authenticator's at the last
	// check.
	policy     *policy.Policy
	generation uint64
	// checked is the time of the last check, in nanoseconds since the Unix epoch.
	checked int64
}

// Session is an authenticated call or stream.
type Session struct {
	Settings *Settings
	Method   string
	Creds    auth.Credentials
	// First is the caller at the beginning, Now the caller as of the last check.
	First Caller
	Now   atomic.Pointer[Caller]
}

type sessionKey struct{}

// WithSession returns the context of a call of that session.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionOf returns the session of a call, nil if authentication is off.
func SessionOf(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}

// CallerOf returns the caller of a call; nil: authentication is off.
func CallerOf(ctx context.Context) *Caller {
	if s := SessionOf(ctx); s != nil {
		return s.Now.Load()
	}
	return nil
}

// Name is the name of the identity; "" for nil.
func (c *Caller) Name() string {
	if c == nil {
		return ""
	}
	return c.Identity.Name
}

// Check returns PERMISSION_DENIED unless the caller may use the verb on a target.
func (c *Caller) Check(verb policy.Verb, key store.Key) error {
	if c == nil {
		return nil
	}
	return denied(c.Grants.Check(verb, key.Cluster, key.Namespace))
}

// CheckChange returns PERMISSION_DENIED to callers whose decisions about a target are not
// recorded: they must not settle or delete it either.
func (c *Caller) CheckChange(verb policy.Verb, key store.Key) error {
	if set := c.Options(key); set.DryRunOnly == nil || !*set.DryRunOnly {
		return nil
	}
	return c.dryRunsOnly(verb, key.String())
}

func (c *Caller) dryRunsOnly(verb policy.Verb, name string) error {
	return apierror.New(codes.PermissionDenied, setpointv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		c.Identity.Name+" may do nothing about "+apierror.Clip(name)+" that is recorded: the policy allows dry runs only (dryRunOnly)",
		"identity", c.Identity.Name, "verb", verb.String())
}

// Options are the operator's for the caller's requests about a target.
func (c *Caller) Options(key store.Key) policy.Options {
	if !c.Configured() {
		return policy.Options{}
	}
	return c.Grants.Options(key.Cluster, key.Namespace, key.Target)
}

// Within returns the part of a listing that the caller may see; nil: all of it.
func (c *Caller) Within(verb policy.Verb, filter store.Filter) (*policy.Scope, error) {
	if c == nil {
		return nil, nil
	}
	scope := c.Grants.Within(verb, filter.Cluster, filter.Namespace)
	if scope.None() {
		return nil, denied(&policy.DeniedError{Identity: c.Identity.Name, Verb: verb, Cluster: orAll(filter.Cluster), Namespace: orAll(filter.Namespace)})
	}
	return &scope, nil
}

func orAll(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

// Configured reports whether the operator has set options for some of the caller's
// targets.
func (c *Caller) Configured() bool { return c != nil && c.Grants.HasOptions() }

// renewAfter is how long a caller counts without another check, even if no file and no
// key has changed: keys that can't be refreshed expire.
const renewAfter = time.Second

// Counts reports whether the last check of the caller still holds.
func (a *Settings) Counts(c *Caller) bool {
	now := time.Now()
	return c.generation == a.Authenticator.Generation() && c.policy == a.Policy.Load() &&
		now.UnixNano()-c.checked < int64(renewAfter) && (c.Identity.Expires.IsZero() || now.Before(c.Identity.Expires))
}

// Identify authenticates the session's caller, unless it has an identity already, and
// looks up its grants. waits may be nil; see auth.Credentials. The error is the
// authenticator's.
func (s *Session) Identify(ctx context.Context, c *Caller, waits func()) error {
	// Before the credentials are checked, so that a change meanwhile causes another
	// check.
	c.generation, c.checked = s.Settings.Authenticator.Generation(), time.Now().UnixNano()
	if c.Identity == nil {
		asked := s.Creds
		asked.Waits = waits
		identity, err := s.Settings.Authenticator.Authenticate(ctx, asked)
		if err != nil {
			return err
		}
		c.Identity = identity
	}
	c.policy = s.Settings.Policy.Load()
	c.Grants = c.policy.For(c.Identity)
	return nil
}

// Permit returns PERMISSION_DENIED unless the caller may make such calls for some
// target.
func (s *Session) Permit(c *Caller) error {
	if knownCalls[s.Method] {
		return nil
	}
	// An unknown method has verb 0, which no policy allows.
	return denied(c.Grants.CheckAnywhere(rights[s.Method].verb))
}

// Unauthenticated maps an error of the authenticator.
func Unauthenticated(err error) error {
	code := codes.Unauthenticated
	if refused, ok := errors.AsType[*auth.Error](err); ok && refused.Unavailable() {
		code = codes.Unavailable
	}
	return apierror.New(code, setpointv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, err.Error(), "cause", string(auth.ReasonOf(err)))
}

// denied maps an error of the policy; nil stays nil.
func denied(err error) error {
	var d *policy.DeniedError
	if !errors.As(err, &d) {
		return err
	}
	return apierror.New(codes.PermissionDenied, setpointv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, d.Error(),
		"identity", d.Identity, "verb", d.Verb.String())
}
