package services

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/fleets"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// SetTargetSpec stores the spec of a target.
func (s *Targets) SetTargetSpec(ctx context.Context, req *setpointv1.SetTargetSpecRequest) (*setpointv1.SetTargetSpecResponse, error) {
	if err := apierror.Invalid(s.specViolations(req)); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetName())
	beyond := capViolations(access.CallerOf(ctx), key, "targetSpec.spec.", req.GetTargetSpec().GetSpec())
	for i, shadow := range req.GetTargetSpec().GetShadows() {
		beyond = append(beyond, capViolations(access.CallerOf(ctx), key, fmt.Sprintf("targetSpec.shadows[%d].spec.", i), shadow.GetSpec())...)
	}
	if err := apierror.Invalid(beyond); err != nil {
		return nil, err
	}
	// Not earlier: only callers that may configure a namespace may learn which sources it may
	// use.
	if err := apierror.Invalid(s.queryViolations(key, req.GetTargetSpec())); err != nil {
		return nil, err
	}
	claims := make(fleets.Claims)
	if req.GetTargetSpec().GetFleet() != nil {
		if err := s.claimMembers(ctx, key, req.GetTargetSpec(), claims); err != nil {
			return nil, err
		}
	}
	spec, before, err := s.stored.SetSpec(ctx, key, req.GetTargetSpec(), access.CallerOf(ctx).Name())
	if err != nil {
		if len(claims) > 0 && errors.Is(err, stored.ErrChanged) { // nothing was stored
			s.fleets.Withdraw(ctx, claims)
		}
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	if err := s.storedFleet(ctx, key, spec, before, claims); err != nil {
		return nil, err
	}
	if len(spec.GetShadows())+len(before.GetShadows()) > 0 {
		if err := s.writeShadows(ctx, req.GetName()); err != nil {
			return nil, err
		}
	}
	return &setpointv1.SetTargetSpecResponse{TargetSpec: spec}, nil
}

// specViolations returns all violations of a spec to store, which are those of a request with
// that spec.
func (s *Targets) specViolations(req *setpointv1.SetTargetSpecRequest) []validation.Violation {
	violations := validation.Structure(req)
	spec := req.GetTargetSpec()
	if spec.GetSpec() == nil {
		return violations
	}
	for _, v := range s.unreadable(req.GetName(), spec) {
		v.Field = "targetSpec." + v.Field
		violations = append(violations, v)
	}
	return append(violations, s.shadowViolations(req)...)
}

// unreadable returns what is wrong with a spec beside its structure.
func (s *Targets) unreadable(name string, spec *setpointv1.TargetSpec) []validation.Violation {
	input, unreadable := conversion.Input(&setpointv1.RecommendRequest{
		Target: name, Spec: spec.GetSpec(), Options: spec.GetOptions(), Scale: &setpointv1.Scale{},
	}, s.requests.Settings.Recommend)
	unreadable = append(unreadable, validation.Spec(spec.GetSpec(), validation.SpecOptions{ScaleToZero: input.Options.ScaleToZero})...)
	_, staged := conversion.Stages(spec.GetSpec(), spec.GetStages(), input)
	unreadable = append(unreadable, staged...)
	if spec.GetFleet() != nil {
		_, wrong := conversion.Fleet(name, spec, input)
		unreadable = append(unreadable, wrong...)
	}
	return unreadable
}

// capViolations returns the bounds of a spec to store that are beyond the operator's caps of the
// caller. They are refused here, not lowered later: a stored spec is decided for others.
func capViolations(by *access.Caller, key store.Key, path string, spec *setpointv1.HorizontalPodAutoscalerSpec) (violations []validation.Violation) {
	set := by.Options(key)
	least := validation.MinReplicas(spec)
	refuse := func(field string, n int32, bound string, limit int32) {
		violations = append(violations, validation.Violation{Field: path + field,
			Description: fmt.Sprintf("Invalid value: %d: must be at %s %d, by the operator's policy for %s (caps.%s)", n, bound, limit, by.Name(), field)})
	}
	if most := set.MaxReplicas; most != nil && spec.GetMaxReplicas() > *most {
		refuse("maxReplicas", spec.GetMaxReplicas(), "most", *most)
	}
	if set.MinReplicas != nil {
		if floor := min(*set.MinReplicas, spec.GetMaxReplicas()); least < floor {
			refuse("minReplicas", least, "least", floor)
		}
	}
	return violations
}

// queryViolations returns the violations of a spec's metric queries.
func (s *Targets) queryViolations(key store.Key, spec *setpointv1.TargetSpec) []validation.Violation {
	sources := s.sources
	var violations []validation.Violation
	switch {
	case len(spec.GetQueries()) == 0:
		return nil
	case sources == nil:
		violations = []validation.Violation{{Field: "queries", Description: "Forbidden: this server fetches no metrics: its operator has configured no sources; report them with ReportObservation"}}
	default:
		if violations = sources.Check(key, spec); len(violations) == 0 {
			violations = stored.QueryViolations(spec)
		}
	}
	for i := range violations {
		violations[i].Field = "targetSpec." + violations[i].Field
	}
	return violations
}

// GetTargetSpec returns a stored spec.
func (s *Targets) GetTargetSpec(ctx context.Context, req *setpointv1.GetTargetSpecRequest) (*setpointv1.GetTargetSpecResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetName())
	spec, err := s.stored.Spec(ctx, key)
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	return &setpointv1.GetTargetSpecResponse{TargetSpec: spec}, nil
}

// ListTargetSpecs returns a page of stored specs.
func (s *Targets) ListTargetSpecs(ctx context.Context, req *setpointv1.ListTargetSpecsRequest) (*setpointv1.ListTargetSpecsResponse, error) {
	response := &setpointv1.ListTargetSpecsResponse{}
	room := pageRoom
	var err error
	response.NextPageToken, err = s.list(ctx, setpointv1.TargetService_ListTargetSpecs_FullMethodName, s.stored.Specs(), req, func(keys []store.Key) (int, bool, error) {
		specs, kept, err := s.stored.SpecsOf(ctx, keys, func(spec *setpointv1.TargetSpec) bool {
			room -= proto.Size(spec) + bytesPerEntry*entriesOfSpec(spec.GetSpec())
			return room >= 0
		})
		if err != nil {
			return 0, false, apierror.OfStored(ctx, req.GetParent(), err)
		}
		if req.GetFleetsOnly() {
			specs = slices.DeleteFunc(specs, func(spec *setpointv1.TargetSpec) bool { return spec.GetFleet() == nil })
		}
		response.TargetSpecs = append(response.TargetSpecs, specs...)
		return kept, room <= 0, nil
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// DeleteTargetSpec deletes a stored spec.
func (s *Targets) DeleteTargetSpec(ctx context.Context, req *setpointv1.DeleteTargetSpecRequest) (*setpointv1.DeleteTargetSpecResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetName())
	before, err := s.stored.Spec(ctx, key)
	if err != nil && apierror.CallerGone(ctx) != nil {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	err = s.stored.DeleteSpec(ctx, key, req.GetEtag())
	if err != nil && !errors.Is(err, stored.ErrNoSpec) {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	// Even without a spec: an earlier delete may have failed halfway.
	if err != nil || before == nil || before.GetFleet() != nil {
		if err := s.fleets.Delete(ctx, key, conversion.FleetMembers(before.GetFleet())); err != nil {
			return nil, ofMembers(ctx, req.GetName(), err)
		}
	}
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	if before == nil || len(before.GetShadows()) > 0 { // one that can't be read may have had some
		if err := s.writeShadows(ctx, req.GetName()); err != nil {
			return nil, err
		}
	}
	return &setpointv1.DeleteTargetSpecResponse{}, nil
}

var setTargetSpec = checked[*Targets, *setpointv1.SetTargetSpecRequest, *setpointv1.SetTargetSpecResponse]{
	requests: func(s *Targets) *requests.Reader { return s.requests },
	method:   setpointv1.TargetService_SetTargetSpec_FullMethodName,
	limit:    "maxSpecBytes", most: stored.DefaultMaxSpecBytes,
	empty: func() *setpointv1.SetTargetSpecRequest { return &setpointv1.SetTargetSpecRequest{} },
	call: func(s *Targets, ctx context.Context, req *setpointv1.SetTargetSpecRequest) (*setpointv1.SetTargetSpecResponse, error) {
		calls.NoteTarget(ctx, req.GetName())
		return s.SetTargetSpec(ctx, req)
	},
}

// TargetsDesc describes the service to gRPC: specs are checked while they are still
// encoded.
func TargetsDesc() *grpc.ServiceDesc {
	desc := setpointv1.TargetService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "SetTargetSpec" {
			desc.Methods[i].Handler = encoded.Handler(setTargetSpec.method, setTargetSpec.answer)
		}
	}
	return &desc
}
