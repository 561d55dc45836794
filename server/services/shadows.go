package services

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// maxShadowWrites limits how often shadows are written for one call, while others store specs.
const maxShadowWrites = 8

// shadowViolations returns what is wrong with the shadows of a spec to store.
func (s *Targets) shadowViolations(req *setpointv1.SetTargetSpecRequest) (violations []validation.Violation) {
	spec := req.GetTargetSpec()
	if spec.GetFleet() != nil && len(spec.GetShadows()) > 0 {
		return []validation.Violation{{Field: "targetSpec.shadows", Description: "Forbidden: a fleet has no shadows"}}
	}
	for i, shadow := range spec.GetShadows() {
		at := fmt.Sprintf("targetSpec.shadows[%d].", i)
		if slices.ContainsFunc(spec.GetShadows()[:i], func(other *setpointv1.Shadow) bool { return other.GetName() == shadow.GetName() }) {
			violations = append(violations, validation.Violation{Field: at + "name", Description: "Duplicate value: another shadow has this name"})
		}
		if n := proto.Size(shadow); n > shadows.MaxBytes {
			violations = append(violations, validation.Violation{Field: at + "spec", Description: fmt.Sprintf("Too long: it takes %d bytes, at most %d", n, shadows.MaxBytes)})
		}
		if shadow.GetSpec() == nil {
			continue // which the structure says
		}
		for _, v := range s.unreadable(req.GetName(), asSpec(shadow)) {
			v.Field = at + v.Field
			violations = append(violations, v)
		}
	}
	return violations
}

// asSpec is the spec to store of what a shadow has.
func asSpec(shadow *setpointv1.Shadow) *setpointv1.TargetSpec {
	return &setpointv1.TargetSpec{Spec: shadow.GetSpec(), Options: shadow.GetOptions(), Stages: shadow.GetStages()}
}

// writeShadows puts the shadows of the stored spec into the target's record. Where others store specs meanwhile it goes
// on until the record has those of the last one.
func (s *Targets) writeShadows(ctx context.Context, name string) error {
	ctx, cancel := s.targets.Detach(ctx)
	defer cancel()
	for range maxShadowWrites {
		spec, err := s.specOf(ctx, name)
		if err != nil {
			return err
		}
		if err := s.targets.SetShadows(ctx, name, shadows.Specs(spec)); err != nil {
			return err
		}
		now, err := s.specOf(ctx, name)
		if err != nil {
			return err
		}
		if now.GetEtag() == spec.GetEtag() {
			return nil
		}
	}
	return apierror.Contended(name, maxShadowWrites)
}

// PromoteShadow makes a shadow the stored spec, in one swap of that: the next decision with it goes on with its
// history, see package shadows.
func (s *Targets) PromoteShadow(ctx context.Context, req *setpointv1.PromoteShadowRequest) (*setpointv1.PromoteShadowResponse, error) {
	violations := validation.Structure(req)
	condition, problem := shadows.ParseCondition(req.GetCondition())
	if problem != "" {
		violations = append(violations, validation.Violation{Field: "condition", Description: problem})
	}
	if err := apierror.Invalid(violations); err != nil {
		return nil, err
	}
	spec, err := s.stored.Spec(ctx, decision.ParseTarget(req.GetName()))
	if err == nil && spec.GetEtag() != req.GetEtag() {
		err = stored.ErrChanged
	}
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetName(), err)
	}
	at := slices.IndexFunc(spec.GetShadows(), func(one *setpointv1.Shadow) bool { return one.GetName() == req.GetShadow() })
	if at < 0 {
		return nil, notPromoted(codes.NotFound, req, "the stored spec has no such shadow: add it to shadows with SetTargetSpec")
	}
	if err := s.mayPromote(ctx, req, spec.GetShadows()[at], condition); err != nil {
		return nil, err
	}
	next := proto.CloneOf(spec)
	shadow := next.GetShadows()[at]
	next.Spec, next.Options, next.Stages = shadow.GetSpec(), shadow.GetOptions(), shadow.GetStages()
	for i, query := range next.GetQueries() {
		if _, problem := stored.QueriedMetric(next, query); problem != "" {
			return nil, notPromoted(codes.FailedPrecondition, req, fmt.Sprintf(
				"its spec has no metric %s, or several, for which the stored spec has a query (queries[%d]): delete that query first with SetTargetSpec, or give the shadow the metric", query.GetMetric(), i))
		}
	}
	shadow.Spec, shadow.Options, shadow.Stages = spec.GetSpec(), spec.GetOptions(), spec.GetStages()
	answer, err := s.SetTargetSpec(ctx, &setpointv1.SetTargetSpecRequest{Name: req.GetName(), TargetSpec: next})
	if err != nil {
		return nil, err
	}
	return &setpointv1.PromoteShadowResponse{TargetSpec: answer.GetTargetSpec()}, nil
}

// mayPromote returns why a shadow is not promoted.
func (s *Targets) mayPromote(ctx context.Context, req *setpointv1.PromoteShadowRequest, shadow *setpointv1.Shadow, condition *shadows.Condition) error {
	known, err := s.targets.Record(ctx, req.GetName())
	if status.Code(err) == codes.NotFound {
		return notPromoted(codes.FailedPrecondition, req, "nothing was decided on this target: poll it once (GetRecommendation, setpoint specs poll), so that spec and shadow have a history")
	}
	if err != nil {
		return err
	}
	if known.LastPoll == "" {
		return notPromoted(codes.FailedPrecondition, req, "callers send their own spec with each request, the stored one or another: "+
			"apply the shadow's spec where they have it from, such as the HorizontalPodAutoscaler; its history goes on with the first decision")
	}
	if why := shadows.Refusal(known.Shadows, shadow, condition, s.targets.Options.Clock()); why != "" {
		return notPromoted(codes.FailedPrecondition, req, why)
	}
	return nil
}

func notPromoted(code codes.Code, req *setpointv1.PromoteShadowRequest, why string) error {
	return apierror.New(code, setpointv1.ErrorReason_ERROR_REASON_NOT_PROMOTED, apierror.Clip("shadow "+req.GetShadow()+" of "+req.GetName()+" is not promoted: "+why),
		"target", req.GetName(), "shadow", req.GetShadow())
}
