package access

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/store"
)

// right is what a call requires of its caller.
type right struct {
	verb policy.Verb
	// changes reports whether the call changes what is recorded, which callers with dry runs only
	// must not.
	changes bool
	// encoded reports whether the message is not decoded yet when the interceptors run: who decodes
	// it asks, package requests for each request, and package services for what is stored.
	encoded bool
	// whole reports whether the call needs the verb for all that the message names, if that is a cluster or a
	// namespace; else for a part of it.
	whole bool
	// own reports whether the message names the target in its own way: package keda asks.
	own bool
}

// rights are what our calls require. A call without an entry is refused; a test compares them with
// the contract.
var rights = map[string]right{
	setpointv1.RecommendationService_Recommend_FullMethodName:         {verb: policy.Recommend, encoded: true},
	setpointv1.RecommendationService_BatchRecommend_FullMethodName:    {verb: policy.Recommend, encoded: true},
	setpointv1.RecommendationService_StreamRecommend_FullMethodName:   {verb: policy.Recommend},
	setpointv1.RecommendationService_ReportScale_FullMethodName:       {verb: policy.Recommend, changes: true},
	setpointv1.RecommendationService_ReportObservation_FullMethodName: {verb: policy.Recommend, changes: true, encoded: true},
	setpointv1.RecommendationService_GetRecommendation_FullMethodName: {verb: policy.Recommend},
	setpointv1.TargetService_GetTargetSpec_FullMethodName:             {verb: policy.Read},
	setpointv1.TargetService_ListTargetSpecs_FullMethodName:           {verb: policy.Read},
	setpointv1.TargetService_SetTargetSpec_FullMethodName:             {verb: policy.Configure, changes: true, encoded: true},
	setpointv1.TargetService_DeleteTargetSpec_FullMethodName:          {verb: policy.Configure, changes: true},
	setpointv1.TargetService_PromoteShadow_FullMethodName:             {verb: policy.Configure, changes: true},
	setpointv1.TargetService_GetTarget_FullMethodName:                 {verb: policy.Read},
	setpointv1.TargetService_ListTargets_FullMethodName:               {verb: policy.Read},
	setpointv1.TargetService_ListDecisions_FullMethodName:             {verb: policy.Read},
	setpointv1.TargetService_GetRecording_FullMethodName:              {verb: policy.Read},
	setpointv1.TargetService_WatchDecisions_FullMethodName:            {verb: policy.Read},
	setpointv1.TargetService_DeleteTarget_FullMethodName:              {verb: policy.Delete, changes: true},
	externalscaler.ExternalScaler_IsActive_FullMethodName:             {verb: policy.Recommend, own: true},
	externalscaler.ExternalScaler_StreamIsActive_FullMethodName:       {verb: policy.Recommend, own: true},
	externalscaler.ExternalScaler_GetMetricSpec_FullMethodName:        {verb: policy.Recommend, own: true},
	externalscaler.ExternalScaler_GetMetrics_FullMethodName:           {verb: policy.Recommend, own: true},
	externalscaler.ExternalScaler_StreamMetricSpec_FullMethodName:     {verb: policy.Recommend, own: true},
	setpointv1.OverrideService_CreateOverride_FullMethodName:          {verb: policy.Override, changes: true, whole: true},
	setpointv1.OverrideService_ListOverrides_FullMethodName:           {verb: policy.Read},
	setpointv1.OverrideService_DeleteOverride_FullMethodName:          {verb: policy.Override, changes: true, whole: true},
	setpointv1.FleetService_GetFleet_FullMethodName:                   {verb: policy.Read},
	setpointv1.SimulationService_Simulate_FullMethodName:              {verb: policy.Simulate},
	setpointv1.OperationsService_ListInstances_FullMethodName:         {verb: policy.Operate},
	setpointv1.OperationsService_GetStore_FullMethodName:              {verb: policy.Operate},
	setpointv1.OperationsService_AnnounceAgent_FullMethodName:         {verb: policy.Recommend},
}

// Audited reports whether a successful call is always logged: it changes more than the reports of the caller's own decisions do.
func Audited(method string) bool {
	r := rights[method]
	return r.changes && r.verb != policy.Recommend
}

// Reads reports whether a call reads what is stored for its answer, or to change it in a few bytes.
func Reads(method string) bool {
	r := rights[method]
	return r.verb == policy.Read || !r.encoded && (r.verb == policy.Configure || r.verb == policy.Delete)
}

// Authorize returns PERMISSION_DENIED unless the caller may make a unary call about what its message
// names: a target, or all of a list. A message that names nothing concerns no target: Permit is enough,
// if the call has an entry in rights.
// No handler of a unary call gets a decoded message without it. What reads a message that is still
// encoded calls it, or Check, for each; streams do so for each message.
func Authorize(ctx context.Context, method string, message any) error {
	c := CallerOf(ctx)
	if c == nil || knownCalls[method] {
		return nil
	}
	r, ruled := rights[method]
	if !ruled { // whatever its message names, or nothing
		return denied(c.Grants.CheckAnywhere(r.verb))
	}
	switch m, decoded := message.(proto.Message); {
	case decoded && !r.own:
		return c.authorize(r, m)
	case decoded, r.encoded:
		return nil
	}
	return apierror.New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_UNSPECIFIED, "internal error")
}

func (c *Caller) authorize(r right, message proto.Message) error {
	name, named := nameIn(message.ProtoReflect())
	if !named {
		return nil
	}
	if r.whole {
		name, _, _ = target.CutOverride(name)
	}
	if parsed, ok := target.Parse(name); ok {
		if err := c.Check(r.verb, store.Key(parsed)); err != nil || !r.changes {
			return err
		}
		return c.CheckChange(r.verb, store.Key(parsed))
	}
	of, ok := placeOf(name)
	if !ok {
		if err := apierror.OfStructure(message); err != nil {
			return err
		}
	}
	scope, err := c.Within(r.verb, of)
	if err != nil || !r.whole {
		return err
	}
	if !scope.All() {
		return denied(&policy.DeniedError{Identity: c.Identity.Name, Verb: r.verb, Cluster: of.Cluster, Namespace: orWhole(of.Namespace)})
	}
	if c.Configured() && c.Grants.MayRunDry(of.Cluster, of.Namespace) {
		return c.dryRunsOnly(r.verb, name)
	}
	return nil
}

// orWhole names all namespaces in an error.
func orWhole(namespace string) string {
	if namespace == "" {
		return "*"
	}
	return namespace
}

// nameIn returns the name of the target or of the list that a message is about.
func nameIn(m protoreflect.Message) (name string, named bool) {
	for _, field := range [...]protoreflect.Name{"target", "name", "parent"} {
		if f := m.Descriptor().Fields().ByName(field); f != nil && f.Kind() == protoreflect.StringKind {
			return m.Get(f).String(), true
		}
	}
	return "", false
}

// placeOf returns what the name of a list stands for, of whose parts each may be "-" for all.
func placeOf(name string) (of store.Filter, ok bool) {
	rest, ok := strings.CutPrefix(name, "clusters/")
	of.Cluster, rest, _ = strings.Cut(rest, "/namespaces/")
	of.Namespace, _, _ = strings.Cut(rest, "/targets/")
	return of, ok && !strings.Contains(of.Cluster+of.Namespace, "/")
}

// ScopeOf returns the part of a listing that the caller of an authorized call may see; nil: all of
// it.
func ScopeOf(ctx context.Context, filter store.Filter) *policy.Scope {
	session := SessionOf(ctx)
	if session == nil {
		return nil
	}
	scope := session.Now.Load().Grants.Within(rights[session.Method].verb, filter.Cluster, filter.Namespace)
	return &scope
}
