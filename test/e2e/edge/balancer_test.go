//go:build linux

package edge

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
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
	kit.Must(t, err)
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

// add adds an instance.
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
