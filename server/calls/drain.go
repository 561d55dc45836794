package calls

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
)

// Drain counts the calls in flight and, once begun, refuses new ones.
type Drain struct {
	// Begun is closed when the drain begins.
	Begun chan struct{}

	mu       sync.Mutex
	inFlight int           // guarded by mu
	draining bool          // guarded by mu
	idle     chan struct{} // guarded by mu; closed when no call is left, nil: no waiter
}

// NewDrain returns a drain that has not begun.
func NewDrain() *Drain { return &Drain{Begun: make(chan struct{})} }

// Begin begins the drain; a second time it does nothing.
func (d *Drain) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.draining {
		d.draining = true
		close(d.Begun)
	}
}

// Wait returns a channel that is closed when no call is in flight. Call it once, when
// the gateway can make no more calls.
func (d *Drain) Wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = make(chan struct{})
	if d.inFlight == 0 {
		close(d.idle)
	}
	return d.idle
}

// enter admits or refuses a call. A call from the gateway belongs to a REST call that
// was admitted before.
func (d *Drain) enter(fromGateway bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining && !fromGateway {
		return false
	}
	d.inFlight++
	return true
}

func (d *Drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inFlight--; d.inFlight == 0 && d.idle != nil {
		select {
		case <-d.idle: // a cut-off call that ends late
		default:
			close(d.idle)
		}
	}
}

// Unary counts calls and refuses those that come too late.
func (d *Drain) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if !d.enter(IsFromGateway(ctx)) {
		return nil, apierror.ShuttingDown()
	}
	defer d.leave()
	return handler(ctx, req)
}

// Stream counts our own streams, which end by themselves when a drain begins. Others
// (health, reflection) lose nothing, and the drain does not wait for them.
func (d *Drain) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod != setpointv1.RecommendationService_StreamRecommend_FullMethodName {
		return handler(srv, stream)
	}
	if !d.enter(false) {
		return apierror.ShuttingDown()
	}
	defer d.leave()
	return handler(srv, stream)
}

// IsFromGateway reports whether a call comes from REST, in this process.
func IsFromGateway(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && p.Addr.Network() == GatewayNetwork
}
