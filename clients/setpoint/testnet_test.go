package setpoint_test

import (
	"errors"
	"io"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// echo answers each request of a stream with its replicas.
func echo(stream setpointv1.RecommendationService_StreamRecommendServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(answerTo(req)); err != nil {
			return err
		}
	}
}

// answerTo answers with the request's replicas.
func answerTo(req *setpointv1.StreamRecommendRequest) *setpointv1.StreamRecommendResponse {
	return &setpointv1.StreamRecommendResponse{Id: req.GetId(), Result: &setpointv1.StreamRecommendResponse_Response{
		Response: &setpointv1.RecommendResponse{DesiredReplicas: req.GetRequest().GetScale().GetSpecReplicas()},
	}}
}
