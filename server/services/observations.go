package services

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// ReportObservation serves calls within the process; gRPC calls reportObservation.
func (s *Recommendations) ReportObservation(ctx context.Context, req *setpointv1.ReportObservationRequest) (*setpointv1.ReportObservationResponse, error) {
	now := s.targets.Options.Clock()
	violations := append(validation.Structure(req), observationTime(req, now)...)
	if err := apierror.Invalid(append(violations, conversion.ObservationViolations(req, now)...)); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetTarget())
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

var reportObservation = checked[*Recommendations, *setpointv1.ReportObservationRequest, *setpointv1.ReportObservationResponse]{
	requests: func(s *Recommendations) *requests.Reader { return s.requests },
	method:   setpointv1.RecommendationService_ReportObservation_FullMethodName,
	limit:    "maxObservationBytes", most: stored.DefaultMaxObservationBytes,
	empty: func() *setpointv1.ReportObservationRequest { return &setpointv1.ReportObservationRequest{} },
	call: func(s *Recommendations, ctx context.Context, req *setpointv1.ReportObservationRequest) (*setpointv1.ReportObservationResponse, error) {
		calls.NoteTarget(ctx, req.GetTarget())
		return s.ReportObservation(ctx, req)
	},
}

// pollOf is a poll of a target in the name of a call's caller.
func pollOf(ctx context.Context, key store.Key) stored.Poll {
	set := access.CallerOf(ctx).Options(key)
	return stored.Poll{CapMin: set.MinReplicas, CapMax: set.MaxReplicas, DryRun: set.DryRunOnly != nil && *set.DryRunOnly}
}

// GetRecommendation returns the last recommendation, or decides on the stored spec and
// observations.
func (s *Recommendations) GetRecommendation(ctx context.Context, req *setpointv1.GetRecommendationRequest) (*setpointv1.GetRecommendationResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	key := decision.ParseTarget(req.GetTarget())
	poll := pollOf(ctx, key)
	poll.Current, poll.Min, poll.Max = req.CurrentReplicas, req.MinReplicas, req.MaxReplicas
	recommendation, err := s.stored.Recommendation(ctx, key, poll)
	if err != nil {
		return nil, apierror.OfStored(ctx, req.GetTarget(), err)
	}
	return &setpointv1.GetRecommendationResponse{Recommendation: recommendation}, nil
}
