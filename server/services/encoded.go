package services

import (
	"context"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/encoded"
)

// RecommendationsDesc describes the service to gRPC: its recommendation calls take and
// return encoded messages.
func RecommendationsDesc() *grpc.ServiceDesc {
	desc := setpointv1.RecommendationService_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range desc.Methods {
		switch desc.Methods[i].MethodName {
		case "Recommend":
			desc.Methods[i].Handler = encoded.Handler(setpointv1.RecommendationService_Recommend_FullMethodName, (*Recommendations).RecommendEncoded)
		case "BatchRecommend":
			desc.Methods[i].Handler = encoded.Handler(setpointv1.RecommendationService_BatchRecommend_FullMethodName, (*Recommendations).BatchEncoded)
		case "ReportObservation":
			desc.Methods[i].Handler = encoded.Handler(setpointv1.RecommendationService_ReportObservation_FullMethodName, reportObservation.answer)
		}
	}
	desc.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	for i := range desc.Streams {
		if desc.Streams[i].StreamName == "StreamRecommend" {
			desc.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
				return srv.(*Recommendations).streamEncoded(stream)
			}
		}
	}
	return &desc
}

// RecommendEncoded is Recommend for encoded messages.
func (s *Recommendations) RecommendEncoded(ctx context.Context, req *encoded.Message) (*encoded.Message, error) {
	j := decision.LendJob()
	defer j.GiveBack()
	s.targets.ReadEncoded(ctx, access.CallerOf(ctx), j, req.Data, admission.TicketOf(ctx), &req.Pass)
	calls.NoteTarget(ctx, j.Target)
	s.targets.Trace(ctx, j)
	s.targets.Recommend(ctx, j)
	s.targets.Answered(ctx, j)
	answer := encoded.NewAnswer()
	var err error
	if answer.Data, err = j.Encode(answer.Data); err != nil {
		answer.Free()
		return nil, err
	}
	return answer, nil
}

// BatchEncoded is BatchRecommend for encoded messages.
func (s *Recommendations) BatchEncoded(ctx context.Context, req *encoded.Message) (*encoded.Message, error) {
	requests, ok := findRequests(req.Data, s.targets.Options.MaxBatch)
	if !ok {
		return nil, apierror.Undecodable()
	}
	if err := s.checkBatch(len(requests)); err != nil {
		return nil, err
	}
	if err := admission.Charge(ctx, len(requests)); err != nil {
		return nil, err
	}
	batch := decision.LendBatch(len(requests))
	defer batch.GiveBack()
	jobs := batch.Jobs
	if err := s.targets.ReadBatch(ctx, jobs, requests, len(req.Data), admission.TicketOf(ctx), &req.Pass); err != nil {
		return nil, err
	}
	s.targets.TraceAll(ctx, jobs)
	s.targets.RecommendAll(ctx, batch)
	return &encoded.Message{Data: s.targets.AnswerAll(ctx, jobs)}, nil
}
