package unfinished

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Listen returns a listener whose connections are counted: what is held of messages that came
// on them, see Conn.Frames, and of answers that were not sent. One that must make way is closed.
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

// Conn is a connection that is counted.
type Conn struct {
	net.Conn
	Holder
	waiting atomic.Int64
	answers Answers
	// frames guards what is known of its streams.
	frames sync.Mutex
}

// Wait notes that a call on it waits for its message.
func (c *Conn) Wait() { c.waiting.Add(1) }

// Arrived notes that it waits no more: its message came, or none will.
func (c *Conn) Arrived() { c.waiting.Add(-1) }

// Waiting returns how many calls on it wait.
func (c *Conn) Waiting() int { return int(c.waiting.Load()) }

func (c *Conn) mostStreams() int { return c.meter.options.Streams }

// Answers returns the answers on it.
func (c *Conn) Answers() *Answers { return &c.answers }

// Unsent returns how many bytes of answers are not sent yet: more than a few, if the
// caller does not read them as fast as it asks.
func (c *Conn) Unsent() int64 { return c.answers.holder.Held() }

// Answers are those of a connection that are not sent yet.
type Answers struct {
	holder Holder

	mu   sync.Mutex
	sent chan struct{} // guarded by mu; closed at the next End, nil if there is no waiter
}

// Begin notes that an answer of so many bytes is held until it is sent or given up.
func (a *Answers) Begin(bytes int) { a.holder.Add(bytes) }

// End notes that it is held no more.
func (a *Answers) End(bytes int) {
	a.holder.Finished(bytes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent != nil {
		close(a.sent)
		a.sent = nil
	}
}

// Below waits until no more than so many bytes are held. The error is the context's.
func (a *Answers) Below(ctx context.Context, bytes int64) error {
	for a.holder.Held() > bytes {
		a.mu.Lock()
		if a.sent == nil {
			a.sent = make(chan struct{})
		}
		sent := a.sent
		a.mu.Unlock()
		if a.holder.Held() <= bytes { // since
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

// address is the address of a peer that knows the connection to it: all that gRPC tells
// of a call's connection is its address.
type address struct {
	net.Addr
	conn *Conn
}

// Unwrap returns the address itself.
func (a address) Unwrap() net.Addr { return a.Addr }

// ConnOf returns the connection of a peer's address, nil if it is not one of Listen's.
func ConnOf(addr net.Addr) *Conn {
	if a, ok := addr.(address); ok {
		return a.conn
	}
	return nil
}
