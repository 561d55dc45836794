package agent

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// How long unary calls replace an unusable stream: after the service or a proxy refused
// streams, or after a stream failed and a unary call succeeded.
const (
	withoutStreams   = 10 * time.Minute
	withoutTheStream = 15 * time.Second
)

// asker sends requests over the stream, or as unary calls while the stream is unusable.
type asker struct {
	stream Stream // nil: calls only
	calls  Recommender
	// timeout bounds a request; the attempt over the stream gets half of it.
	timeout time.Duration
	metrics *metrics

	mu sync.Mutex
	// callsUntil is when the stream is tried again. Guarded by mu.
	callsUntil time.Time
}

// recommend sends a request. The request has an id, so that it counts once over either
// transport.
func (a *asker) recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if !a.streams() {
		a.metrics.asked("unary")
		return a.calls.Recommend(ctx, req)
	}
	a.metrics.asked("stream")
	answer, err := a.overStream(ctx, req)
	if err == nil || !streamFault(err) || ctx.Err() != nil {
		return answer, err
	}
	a.metrics.asked("unary")
	answer, callErr := a.calls.Recommend(ctx, req)
	switch {
	case status.Code(err) == codes.Unimplemented:
		a.avoidStream(withoutStreams)
	case answered(callErr):
		a.avoidStream(withoutTheStream)
	}
	return answer, callErr
}

func (a *asker) overStream(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/2)
	defer cancel()
	return a.stream.Recommend(ctx, req)
}

func (a *asker) streams() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stream != nil && !time.Now().Before(a.callsUntil)
}

func (a *asker) avoidStream(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.callsUntil = time.Now().Add(d)
}

// streamFault reports whether the stream may have caused an error, rather than the request.
func streamFault(err error) bool {
	switch status.Code(err) {
	case codes.Unimplemented, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Canceled:
		return true
	}
	return false
}

// answered reports whether the service handled the request, even if it refused it.
func answered(err error) bool { return err == nil || refused(err) }
