package servertest

import (
	"context"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// RecommendStream is a stream of requests.
type RecommendStream = setpointv1.RecommendationService_StreamRecommendClient

// Stream opens a stream that ends with the test.
func (s *Service) Stream(tb testing.TB) RecommendStream {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	stream, err := s.Recommendations.StreamRecommend(ctx)
	fatal.If(tb, err)
	return stream
}

// Send sends a request on a stream.
func Send(tb testing.TB, stream RecommendStream, id string, req *setpointv1.RecommendRequest) {
	tb.Helper()
	if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: id, Request: req}); err != nil {
		tb.Fatalf("send %s: %v", id, err)
	}
}

// Receive takes the next answer of a stream.
func Receive(tb testing.TB, stream RecommendStream) *setpointv1.StreamRecommendResponse {
	tb.Helper()
	resp, err := stream.Recv()
	if err != nil {
		tb.Fatalf("receive: %v", err)
	}
	return resp
}

// ReceiveAll receives until the stream ends, by id.
func ReceiveAll(tb testing.TB, stream RecommendStream) (map[string]*setpointv1.StreamRecommendResponse, error) {
	tb.Helper()
	all := map[string]*setpointv1.StreamRecommendResponse{}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return all, err
		}
		if all[resp.GetId()] != nil {
			tb.Errorf("%q is answered twice", resp.GetId())
		}
		all[resp.GetId()] = resp
	}
}

// Everything is the parent of all targets.
const Everything = "clusters/-/namespaces/-/targets/-"
