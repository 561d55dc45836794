package unfinished

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Listen returns a listener whose connections are counted: their incomplete messages, see
// Conn.Frames, and their unsent responses. A connection beyond the limit is closed.
func (m *Meter) Listen(l net.Listener) net.Listener { return listener{l, m} }

type listener struct {
	net.Listener
	meter *Meter
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: conn}
	end := func() { _ = conn.Close() }
	c.Holder = Holder{meter: l.meter, end: end}
	c.answers.holder = Holder{meter: l.meter.answers, end: end}
	return c, nil
}

// Conn is a counted connection.
type Conn struct {
	net.Conn
	Holder
	waiting atomic.Int64
	answers Answers
	// frames guards the state of its streams.
	frames sync.Mutex
}

// Wait records that a call on it waits for its message.
func (c *Conn) Wait() { c.waiting.Add(1) }

// Arrived records that it no longer waits: its message has arrived, or never will.
func (c *Conn) Arrived() { c.waiting.Add(-1) }

// Waiting returns how many calls on it wait.
func (c *Conn) Waiting() int { return int(c.waiting.Load()) }

func (c *Conn) mostStreams() int { return c.meter.options.Streams }

// Answers returns the unsent responses on it.
func (c *Conn) Answers() *Answers { return &c.answers }

// Unsent returns how many bytes of responses are not sent yet: more than a few if the
// caller does not read them as fast as it sends requests.
func (c *Conn) Unsent() int64 { return c.answers.holder.Held() }

// Answers are the unsent responses of a connection.
type Answers struct {
	holder Holder

	mu   sync.Mutex
	sent chan struct{} // guarded by mu; closed at the next End, nil if there is no waiter
}

// Begin counts a response of that many bytes until it is sent or dropped.
func (a *Answers) Begin(bytes int) { a.holder.Add(bytes) }

// End ends the count of Begin.
func (a *Answers) End(bytes int) {
	a.holder.Finished(bytes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent != nil {
		close(a.sent)
		a.sent = nil
	}
}

// Below waits until the responses take no more than that many bytes. The error is the
// context's.
func (a *Answers) Below(ctx context.Context, bytes int64) error {
	for a.holder.Held() > bytes {
		a.mu.Lock()
		if a.sent == nil {
			a.sent = make(chan struct{})
		}
		sent := a.sent
		a.mu.Unlock()
		if a.holder.Held() <= bytes { // since the check
			return nil
		}
		select {
		case <-sent:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.End()
	c.answers.holder.End()
	return c.Conn.Close()
}

// RemoteAddr implements net.Conn. ConnOf finds the connection by it.
func (c *Conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

// address is a peer's address that refers to the connection: gRPC reveals nothing else
// of a call's connection.
type address struct {
	net.Addr
	conn *Conn
}

// Unwrap returns the address itself.
func (a address) Unwrap() net.Addr { return a.Addr }

// ConnOf returns the connection of a peer's address, nil if it is not from Listen.
func ConnOf(addr net.Addr) *Conn {
	if a, ok := addr.(address); ok {
		return a.conn
	}
	return nil
}
