package services

import (
	"context"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/requests"
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
			desc.Methods[i].Handler = encoded.Handler(reportObservation.method, reportObservation.answer)
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
	j := requests.Lend()
	defer j.GiveBack()
	s.requests.Read(ctx, access.CallerOf(ctx), j, req.Data, admission.TicketOf(ctx), &req.Pass)
	calls.NoteTarget(ctx, j.Target)
	s.requests.Trace(ctx, j)
	s.targets.Recommend(ctx, &j.Job)
	s.requests.Answered(ctx, j)
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
	messages, ok := findRequests(req.Data, s.requests.Settings.MaxBatch)
	if !ok {
		return nil, admission.ChargeUnread(ctx, apierror.Undecodable())
	}
	if err := s.checkBatch(len(messages)); err != nil {
		return nil, admission.ChargeUnread(ctx, err)
	}
	if err := admission.Charge(ctx, len(messages)); err != nil {
		return nil, err
	}
	batch := requests.LendBatch(len(messages))
	defer batch.GiveBack()
	jobs := batch.Jobs
	if err := s.requests.ReadBatch(ctx, jobs, messages, len(req.Data), admission.TicketOf(ctx), &req.Pass); err != nil {
		return nil, err
	}
	s.requests.TraceAll(ctx, jobs)
	s.targets.RecommendAll(ctx, batch.Decisions())
	return &encoded.Message{Data: s.requests.AnswerAll(ctx, jobs)}, nil
}
