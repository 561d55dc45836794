//go:build linux

package edge

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// balancer is a virtual address, as Kubernetes gives one to a service: it leads each new
// connection to the next of the instances.
type balancer struct {
	address string

	mu        sync.Mutex
	instances []string       // guarded by mu
	turn      int            // guarded by mu
	open      map[string]int // guarded by mu; connections
}

func newBalancer(t testing.TB, instances ...string) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	b := &balancer{address: listener.Addr().String(), instances: instances, open: make(map[string]int)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.lead(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait() // clients were closed before
	})
	return b
}

func (b *balancer) add(instance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instances = append(b.instances, instance)
}

// count returns how many connections lead to the instance.
func (b *balancer) count(instance string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[instance]
}

func (b *balancer) lead(conn net.Conn) {
	defer conn.Close()
	b.mu.Lock()
	b.turn++
	instance := b.instances[b.turn%len(b.instances)]
	b.open[instance]++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open[instance]--
	}()
	to, err := net.Dial("tcp", instance)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, conn)
		_ = to.Close()
	}()
	_, _ = io.Copy(conn, to)
}

// Old connections are closed for new ones: callers from the time of one instance spread over
// two, and no call fails.
func TestOldConnectionsMakeWay(t *testing.T) {
	t.Parallel()
	const age = 2 * time.Second
	first, second := start(t, "--max-connection-age="+age.String()), service.New(t, service.Settings{Flags: []string{"--max-connection-age=" + age.String()}})
	const clients = 12
	ask := func(callers []*setpoint.Client) {
		t.Helper()
		for i, c := range callers {
			if _, err := c.Recommend(t.Context(), requestFor(fmt.Sprint("clusters/a/namespaces/b/targets/t", i))); err != nil {
				t.Fatalf("caller %d: %v", i, err)
			}
		}
	}
	// Like gRPC clients behind a virtual address they use one connection each; the proxy
	// distributes new ones in turn.
	balancer := newBalancer(t, first.GRPCAddr())
	var callers []*setpoint.Client
	for range clients {
		c, err := setpoint.New(balancer.address, setpoint.WithInsecure())
		fatal.If(t, err)
		t.Cleanup(func() { _ = c.Close() })
		callers = append(callers, c)
	}
	ask(callers)
	if n := balancer.count(second.GRPCAddr()); n != 0 {
		t.Fatalf("%d connections to an instance that is not there", n)
	}
	second.Restart()
	balancer.add(second.GRPCAddr())
	took := kit.Eventually(t, callTimeout, "connections to both, the one that came too", func() error {
		ask(callers)
		if old, came := balancer.count(first.GRPCAddr()), balancer.count(second.GRPCAddr()); old == 0 || came < clients/4 {
			return fmt.Errorf("%d and %d of %d connections", old, came, clients)
		}
		return nil
	})
	t.Logf("%v after the second instance came it has %d of %d connections; no call failed", took.Round(time.Millisecond), balancer.count(second.GRPCAddr()), clients)
}
