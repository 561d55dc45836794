package setpoint

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// hedger sends further attempts of a call while the first is unanswered. It sits between
// retries and connection; the retries see its attempts as one.
type hedger struct {
	delay  time.Duration
	max    int
	budget *budget
}

// unary is the interceptor.
func (h *hedger) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	answer, ok := reply.(proto.Message)
	if !ok || !repeatable[method] || deleting[method] || writesBack(options) {
		return invoke(ctx, method, req, reply, cc, options...)
	}
	// The losing attempts have to end first: they read the request, which belongs to the caller
	// again afterwards.
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	type result struct {
		answer proto.Message
		err    error
	}
	results := make(chan result, h.max)
	sent, open := 0, 0
	send := func() {
		into := answer.ProtoReflect().New().Interface()
		running.Go(func() { results <- result{into, invoke(ctx, method, req, into, cc, options...)} })
		sent, open = sent+1, open+1
	}
	send()
	timer := time.NewTimer(h.delay)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if sent < h.max && h.budget.withdraw() {
				send()
				timer.Reset(h.delay)
			}
		case r := <-results:
			open--
			if r.err == nil {
				proto.Reset(answer)
				copyFields(answer, r.answer)
				return nil
			}
			if _, ok := mayPass(r.err); !ok || open == 0 {
				return r.err
			}
		}
	}
}

// writesBack reports whether an option makes gRPC write to the caller's memory when an attempt
// ends: two attempts might write at the same time.
func writesBack(options []grpc.CallOption) bool {
	for _, option := range options {
		switch option.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption, grpc.OnFinishCallOption:
			return true
		}
	}
	return false
}
