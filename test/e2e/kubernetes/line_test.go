//go:build linux

package kubernetes

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// line connects an agent and the service with a delay. Data in flight is lost if the agent
// ends, as on a network.
type line struct {
	listener net.Listener
	to       string
	// up and down are the delays to the service and back, nanoseconds.
	up, down atomic.Int64
	running  sync.WaitGroup
}

// newLine starts one without delays, which ends with the test.
func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &line{listener: listener, to: to}
	l.running.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.running.Wait()
	})
	return l
}

func (l *line) address() string { return l.listener.Addr().String() }

func (l *line) accept() {
	for {
		agent, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.connect(agent) })
	}
}

// connect carries a connection until either end of it is gone.
func (l *line) connect(agent net.Conn) {
	defer agent.Close()
	service, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer service.Close()
	gone := make(chan struct{})
	var once sync.Once
	end := func() {
		once.Do(func() {
			close(gone)
			_ = agent.Close()
			_ = service.Close()
		})
	}
	var both sync.WaitGroup
	both.Go(func() { carry(service, agent, &l.up, gone, end) })
	both.Go(func() { carry(agent, service, &l.down, gone, end) })
	both.Wait()
}

// parcel is data in flight.
type parcel struct {
	content []byte
	due     time.Time
}

// carry forwards data with a delay. It keeps reading meanwhile, to notice the sender's end.
func carry(to, from net.Conn, delay *atomic.Int64, gone <-chan struct{}, end func()) {
	defer end()
	underway := make(chan parcel, 1024)
	var delivery sync.WaitGroup
	delivery.Go(func() {
		defer end()
		for p := range underway {
			select {
			case <-gone:
				return
			case <-time.After(time.Until(p.due)):
			}
			if _, err := to.Write(p.content); err != nil {
				return
			}
		}
	})
	defer delivery.Wait()
	defer close(underway)
	defer end()
	for {
		content := make([]byte, 16<<10)
		n, err := from.Read(content)
		if err != nil {
			return
		}
		select {
		case underway <- parcel{content[:n], time.Now().Add(time.Duration(delay.Load()))}:
		case <-gone:
			return
		}
	}
}
