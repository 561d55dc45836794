package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// channel is a stream or unary client that succeeds or fails as the test says.
type channel struct {
	Recommender
	err   error
	delay time.Duration
	ids   []string
}

func (c *channel) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	c.ids = append(c.ids, req.GetRequestId())
	select {
	case <-time.After(c.delay):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if c.err != nil {
		return nil, c.err
	}
	return &setpointv1.RecommendResponse{DesiredReplicas: 3}, nil
}

func TestCallsTakeThePlaceOfTheStream(t *testing.T) {
	t.Parallel()
	failed := func(code codes.Code) error { return status.Error(code, "as the test wants it") }
	for _, tt := range []struct {
		name          string
		stream, calls error
		delay         time.Duration
		want          codes.Code
		called        int
		// again is how often the stream is tried for the second request.
		again int
		// back is the time after which the stream is tried again.
		back time.Duration
	}{
		{"the stream answers", nil, nil, 0, codes.OK, 0, 1, 0},
		{"what the stream refuses is refused", failed(codes.InvalidArgument), nil, 0, codes.InvalidArgument, 0, 1, 0},
		{"what is too much is not sent again", failed(codes.ResourceExhausted), nil, 0, codes.ResourceExhausted, 0, 1, 0},
		{"streams are not known: calls for long", failed(codes.Unimplemented), nil, 0, codes.OK, 1, 0, withoutStreams},
		{"the stream fails and calls don't: calls for a while", failed(codes.Unavailable), nil, 0, codes.OK, 1, 0, withoutTheStream},
		{"the stream is silent and calls are not", nil, nil, time.Hour, codes.OK, 1, 0, withoutTheStream},
		{"both fail: the stream is asked again", failed(codes.Unavailable), failed(codes.Unavailable), 0, codes.Unavailable, 1, 1, 0},
		{"the stream fails and calls are refused", failed(codes.Internal), failed(codes.PermissionDenied), 0, codes.PermissionDenied, 1, 0, withoutTheStream},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, err := newMetrics(nil, nil, nil)
				fatal.If(t, err)
				stream, calls := &channel{err: tt.stream, delay: tt.delay}, &channel{err: tt.calls}
				a := &asker{stream: stream, calls: calls, timeout: 10 * time.Second, metrics: m}
				ask := func(id string) error {
					_, err := a.recommend(t.Context(), &setpointv1.RecommendRequest{RequestId: id})
					return err
				}
				want(t, "code", status.Code(ask("1")), tt.want)
				want(t, "calls", len(calls.ids), tt.called)
				for _, id := range append(stream.ids, calls.ids...) {
					want(t, "request id", id, "1")
				}
				stream.ids = nil
				_ = ask("2")
				want(t, "stream asked in the second question", len(stream.ids), tt.again)
				if tt.back == 0 {
					return
				}
				time.Sleep(tt.back - time.Second)
				stream.ids = nil
				_ = ask("3")
				want(t, "stream asked too early", len(stream.ids), 0)
				time.Sleep(2 * time.Second)
				_ = ask("4")
				want(t, "stream asked again in the end", len(stream.ids), 1)
			})
		})
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
