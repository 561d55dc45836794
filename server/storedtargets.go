package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// The calls of this file are of those who send no spec or no metrics with their questions:
// both are stored.

func notStored() error {
	return status.Error(codes.Unimplemented, "this server's store keeps no specs")
}

// mayChange is PERMISSION_DENIED unless the caller may do that, and have it recorded.
func mayChange(ctx context.Context, verb policy.Verb, key store.Key) error {
	if err := access.CallerOf(ctx).Check(verb, key); err != nil {
		return err
	}
	return access.CallerOf(ctx).CheckChange(verb, key)
}

// SetTargetSpec stores the spec of a target.
func (s *targetService) SetTargetSpec(ctx context.Context, req *setpointv1.SetTargetSpecRequest) (*setpointv1.SetTargetSpecResponse, error) {
	if err := apierror.Invalid(s.specViolations(req)); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetName())
	if err := mayChange(ctx, policy.Configure, key); err != nil {
		return nil, err
	}
	if s.stored == nil {
		return nil, notStored()
	}
	spec, err := s.stored.SetSpec(ctx, key, req.GetTargetSpec(), access.CallerOf(ctx).Name())
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	return &setpointv1.SetTargetSpecResponse{TargetSpec: spec}, nil
}

// specViolations is all that is wrong with a spec that is to be stored: what would be with a
// request that has it.
func (s *targetService) specViolations(req *setpointv1.SetTargetSpecRequest) []validation.Violation {
	violations := validation.Structure(req)
	spec := req.GetTargetSpec()
	if spec.GetSpec() == nil {
		return violations
	}
	input, unreadable := conversion.Input(&setpointv1.RecommendRequest{
		Target: req.GetName(), Spec: spec.GetSpec(), Options: spec.GetOptions(), Scale: &setpointv1.Scale{},
	}, s.targets.Options.Recommend)
	unreadable = append(unreadable, validation.Spec(spec.GetSpec(), validation.SpecOptions{ScaleToZero: input.Options.ScaleToZero})...)
	for _, v := range unreadable {
		v.Field = "targetSpec." + v.Field
		violations = append(violations, v)
	}
	return violations
}

// GetTargetSpec returns a stored spec.
func (s *targetService) GetTargetSpec(ctx context.Context, req *setpointv1.GetTargetSpecRequest) (*setpointv1.GetTargetSpecResponse, error) {
	if err := decision.CheckStructure(req); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetName())
	if err := access.CallerOf(ctx).Check(policy.Read, key); err != nil {
		return nil, err
	}
	if s.stored == nil {
		return nil, notStored()
	}
	spec, err := s.stored.Spec(ctx, key)
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	return &setpointv1.GetTargetSpecResponse{TargetSpec: spec}, nil
}

// maxSpecsPage bounds the specs of a page, in bytes.
const maxSpecsPage = 4 << 20

// ListTargetSpecs returns a page of stored specs.
func (s *targetService) ListTargetSpecs(ctx context.Context, req *setpointv1.ListTargetSpecsRequest) (*setpointv1.ListTargetSpecsResponse, error) {
	if err := decision.CheckStructure(req); err != nil {
		return nil, err
	}
	filter := decision.ParseParent(req.GetParent())
	scope, err := access.CallerOf(ctx).Within(policy.Read, filter)
	if err != nil {
		return nil, err
	}
	if s.stored == nil {
		return nil, notStored()
	}
	list := listOf(ctx, setpointv1.TargetService_ListTargetSpecs_FullMethodName, req.GetParent(), scope)
	position, err := s.pages.position(ctx, list, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	after, err := keyAt(position)
	if err != nil {
		return nil, err
	}
	keys, next, err := decision.Visible(ctx, s.stored.Specs(), filter, scope, after, pageSize(req.GetPageSize(), defaultTargetsPage))
	if err != nil {
		return nil, apierror.OfStore(ctx, req.GetParent(), err)
	}
	response := &setpointv1.ListTargetSpecsResponse{}
	room := maxSpecsPage
	for some := range slices.Chunk(keys, decision.ListedAtOnce) {
		specs, kept, err := s.loadSpecs(ctx, some, room)
		if err != nil {
			return nil, apierror.OfStored(ctx, req.GetParent(), err)
		}
		for _, spec := range specs {
			room -= proto.Size(spec)
		}
		response.TargetSpecs = append(response.TargetSpecs, specs...)
		if kept < len(some) || room <= 0 {
			next = some[kept-1]
			break
		}
	}
	if next != (store.Key{}) {
		if response.NextPageToken, err = s.pages.next(ctx, list, positionOf(next)); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// loadSpecs loads some specs; few lists do so at a time.
func (s *targetService) loadSpecs(ctx context.Context, keys []store.Key, room int) ([]*setpointv1.TargetSpec, int, error) {
	leave, err := s.targets.EnterList(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	return s.stored.SpecsOf(ctx, keys, room)
}

// DeleteTargetSpec deletes a stored spec.
func (s *targetService) DeleteTargetSpec(ctx context.Context, req *setpointv1.DeleteTargetSpecRequest) (*setpointv1.DeleteTargetSpecResponse, error) {
	if err := decision.CheckStructure(req); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetName())
	if err := mayChange(ctx, policy.Configure, key); err != nil {
		return nil, err
	}
	if s.stored == nil {
		return nil, notStored()
	}
	if err := s.stored.DeleteSpec(ctx, key, req.GetEtag()); err != nil {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	return &setpointv1.DeleteTargetSpecResponse{}, nil
}

// ReportObservation answers a caller in the process; over gRPC see reportObservationEncoded.
func (s *recommendationService) ReportObservation(ctx context.Context, req *setpointv1.ReportObservationRequest) (*setpointv1.ReportObservationResponse, error) {
	violations := append(validation.Structure(req), observationTime(req, s.targets.Options.Clock())...)
	if err := apierror.Invalid(append(violations, conversion.ObservationViolations(req)...)); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetTarget())
	if err := mayChange(ctx, policy.Recommend, key); err != nil {
		return nil, err
	}
	if s.stored == nil {
		return nil, notStored()
	}
	size, err := s.stored.Report(ctx, key, req)
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetTarget(), err)
	}
	return &setpointv1.ReportObservationResponse{
		StoredBytes: int64(size), ExpireTime: timestamppb.New(s.targets.Options.Clock().Add(stored.Kept)),
	}, nil
}

func observationTime(req *setpointv1.ReportObservationRequest, now time.Time) []validation.Violation {
	t := req.GetObservationTime()
	if t == nil || t.IsValid() && now.Sub(t.AsTime()) <= stored.Kept {
		return nil
	}
	return []validation.Violation{{Field: "observationTime", Description: "Invalid value: must be a time of the last hour"}}
}

// lookedOver is a call of which the message is decoded only when it is not too large, has
// been looked over, and there is room for it.
type lookedOver[S any, Req, Resp proto.Message] struct {
	targets func(S) *decision.Targets
	tables  *cost.Message
	// limit is what bounds the message's bytes, and most the bound.
	limit string
	most  int
	empty func() Req
	call  func(S, context.Context, Req) (Resp, error)
}

// answer decodes and answers a message.
func (l *lookedOver[S, Req, Resp]) answer(s S, ctx context.Context, in *message) (*message, error) {
	t := l.targets(s)
	if len(in.data) > l.most {
		return nil, apierror.OverLimit(l.limit, l.most, "the message is larger than what this server keeps")
	}
	if !in.pass.Entered() {
		if err := t.Enter(ctx, ticketOf(ctx), access.CallerOf(ctx).Name(), &in.pass, decision.IsLarge(in.data)); err != nil {
			return nil, err
		}
	}
	budget := cost.BudgetOf(len(in.data))
	if excess := l.tables.Wire(in.data, t.Options.CostLimits(), budget); excess != nil {
		return nil, apierror.Excessive(excess)
	}
	req := l.empty()
	if err := proto.Unmarshal(in.data, req); err != nil {
		return nil, apierror.Undecodable()
	}
	if !in.pass.Read(int64(budget.Made())) {
		return nil, t.Refuse(limit.LargeRequests)
	}
	response, err := l.call(s, ctx, req)
	if err != nil {
		return nil, err
	}
	answer := newAnswer()
	if answer.data, err = decision.Marshal(answer.data, response); err != nil {
		answer.free()
		return nil, err
	}
	return answer, nil
}

var reportObservation = lookedOver[*recommendationService, *setpointv1.ReportObservationRequest, *setpointv1.ReportObservationResponse]{
	targets: func(s *recommendationService) *decision.Targets { return s.targets },
	tables:  cost.Of((&setpointv1.ReportObservationRequest{}).ProtoReflect().Descriptor()),
	limit:   "maxObservationBytes", most: stored.DefaultMaxObservationBytes,
	empty: func() *setpointv1.ReportObservationRequest { return &setpointv1.ReportObservationRequest{} },
	call: func(s *recommendationService, ctx context.Context, req *setpointv1.ReportObservationRequest) (*setpointv1.ReportObservationResponse, error) {
		calls.NoteTarget(ctx, req.GetTarget())
		return s.ReportObservation(ctx, req)
	},
}

var setTargetSpec = lookedOver[*targetService, *setpointv1.SetTargetSpecRequest, *setpointv1.SetTargetSpecResponse]{
	targets: func(s *targetService) *decision.Targets { return s.targets },
	tables:  cost.Of((&setpointv1.SetTargetSpecRequest{}).ProtoReflect().Descriptor()),
	limit:   "maxSpecBytes", most: stored.DefaultMaxSpecBytes,
	empty: func() *setpointv1.SetTargetSpecRequest { return &setpointv1.SetTargetSpecRequest{} },
	call: func(s *targetService, ctx context.Context, req *setpointv1.SetTargetSpecRequest) (*setpointv1.SetTargetSpecResponse, error) {
		calls.NoteTarget(ctx, req.GetName())
		return s.SetTargetSpec(ctx, req)
	},
}

// encodedTargetService is the service as gRPC serves it: specs are looked over while they
// are encoded.
func encodedTargetService() *grpc.ServiceDesc {
	desc := setpointv1.TargetService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "SetTargetSpec" {
			desc.Methods[i].Handler = encodedHandler(setpointv1.TargetService_SetTargetSpec_FullMethodName, setTargetSpec.answer)
		}
	}
	return &desc
}

// optionsOf names a caller for whom the operator has set options, "" for others: answers that
// were made with them are its own.
func optionsOf(ctx context.Context) string {
	c := access.CallerOf(ctx)
	if !c.Configured() {
		return ""
	}
	sum := sha256.Sum256([]byte(c.Name()))
	return hex.EncodeToString(sum[:8])
}

// GetRecommendation answers from the last decision, or makes one from what is stored.
func (s *recommendationService) GetRecommendation(ctx context.Context, req *setpointv1.GetRecommendationRequest) (*setpointv1.GetRecommendationResponse, error) {
	if err := decision.CheckStructure(req); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetTarget())
	if err := access.CallerOf(ctx).Check(policy.Recommend, key); err != nil {
		return nil, err
	}
	if s.stored == nil {
		return nil, notStored()
	}
	recommendation, err := s.stored.Recommendation(ctx, key, stored.Poll{Current: req.CurrentReplicas, Min: req.MinReplicas, Max: req.MaxReplicas, As: optionsOf(ctx)})
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetTarget(), err)
	}
	return &setpointv1.GetRecommendationResponse{Recommendation: recommendation}, nil
}
