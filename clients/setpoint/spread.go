package setpoint

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/connectivity"
)

// spreadName is the load balancing policy of this package: round_robin that sends the
// attempts of one call to different connections. With plain round_robin a second attempt gets
// the next connection, which is often the same one while other calls are under way.
const spreadName = "setpoint_spread"

// serviceConfig selects the policy. It has no healthCheckConfig: a server that has lost its
// store reports itself unhealthy, but may still answer (hold-down), or refuse with a reason
// that callers want to see.
const serviceConfig = `{"loadBalancingConfig": [{"` + spreadName + `": {}}]}`

func init() { balancer.Register(spreadBuilder{}) }

type spreadBuilder struct{}

func (spreadBuilder) Name() string { return spreadName }

func (spreadBuilder) Build(cc balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(roundrobin.Name).Build(&spreadConn{ClientConn: cc}, options)
}

// spreadConn puts a spreadPicker before each picker of round_robin.
type spreadConn struct{ balancer.ClientConn }

func (c *spreadConn) UpdateState(state balancer.State) {
	ready := 0
	for _, child := range endpointsharding.ChildStatesFromPicker(state.Picker) {
		if child.State.ConnectivityState == connectivity.Ready {
			ready++
		}
	}
	if ready > 1 {
		state.Picker = &spreadPicker{next: state.Picker, ready: ready}
	}
	c.ClientConn.UpdateState(state)
}

type spreadPicker struct {
	next  balancer.Picker
	ready int
}

// Pick returns the next connection that the call has not used, or the next one if it has used
// all. It goes around twice, because calls that pick at the same time may each skip some.
func (p *spreadPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	used := usedBy(info.Ctx)
	for try := 1; ; try++ {
		picked, err := p.next.Pick(info)
		if err != nil || used.add(picked.SubConn) || try == 2*p.ready {
			return picked, err
		}
		if picked.Done != nil {
			picked.Done(balancer.DoneInfo{})
		}
	}
}

// connections are the connections that the attempts of one call were sent over. Nil: the call
// makes one attempt only.
type connections struct {
	mu   sync.Mutex
	used []balancer.SubConn // guarded by mu
}

type connectionsKey struct{}

// spread returns a context for all attempts of one call.
func spread(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionsKey{}, &connections{})
}

func usedBy(ctx context.Context) *connections {
	c, _ := ctx.Value(connectionsKey{}).(*connections)
	return c
}

// add reports whether the connection is new to the call.
func (c *connections) add(conn balancer.SubConn) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.used, conn) {
		return false
	}
	c.used = append(c.used, conn)
	return true
}

// keepLast forgets all connections but the last used one.
func (c *connections) keepLast() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.used); n > 1 {
		c.used = slices.Clone(c.used[n-1:])
	}
}
