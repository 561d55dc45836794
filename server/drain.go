package server

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
)

// drain counts the calls in flight and, once it has begun, lets no new ones in.
type drain struct {
	// begun is closed when it begins.
	begun chan struct{}

	mu       sync.Mutex
	inFlight int           // guarded by mu
	draining bool          // guarded by mu
	idle     chan struct{} // guarded by mu; closed when no call is left, nil: nobody waits
}

func newDrain() *drain { return &drain{begun: make(chan struct{})} }

// begin begins the drain; a second time it does nothing.
func (d *drain) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.draining {
		d.draining = true
		close(d.begun)
	}
}

// wait returns a channel that is closed when no call is in flight. To be called
// once, when none can come from the gateway any more.
func (d *drain) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = make(chan struct{})
	if d.inFlight == 0 {
		close(d.idle)
	}
	return d.idle
}

// enter lets a call in, or not. One from the gateway belongs to a REST call that
// was let in before.
func (d *drain) enter(fromGateway bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining && !fromGateway {
		return false
	}
	d.inFlight++
	return true
}

func (d *drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inFlight--; d.inFlight == 0 && d.idle != nil {
		select {
		case <-d.idle: // one that was cut off comes late
		default:
			close(d.idle)
		}
	}
}

// unary counts calls and refuses those that come too late.
func (d *drain) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if !d.enter(isFromGateway(ctx)) {
		return nil, apierror.ShuttingDown()
	}
	defer d.leave()
	return handler(ctx, req)
}

// stream counts our own streams, which end by themselves when a drain begins.
// Others (health, reflection) have nothing to lose and are not waited for.
func (d *drain) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod != setpointv1.RecommendationService_StreamRecommend_FullMethodName {
		return handler(srv, stream)
	}
	if !d.enter(false) {
		return apierror.ShuttingDown()
	}
	defer d.leave()
	return handler(srv, stream)
}

// isFromGateway reports whether a call comes from REST, in this process.
func isFromGateway(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && p.Addr.Network() == gatewayNetwork
}
