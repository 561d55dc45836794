package unfinished

import (
	"math"
	"net"
	"sync/atomic"
)

// Listen returns a listener whose connections are counted: what is read from them less
// the messages that are Finished. One that must make way is closed.
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
	c.Holder = Holder{meter: l.meter, end: func() { _ = conn.Close() }}
	return c, nil
}

// Conn is a connection that is counted.
type Conn struct {
	net.Conn
	Holder
	waiting atomic.Int64
	unsent  atomic.Int64
}

// Wait notes that a call on it waits for its message.
func (c *Conn) Wait() { c.waiting.Add(1) }

// Arrived notes that it waits no more: its message came, of so many bytes, or none will.
// If none waits, what came beyond that was of calls that were refused or given up.
func (c *Conn) Arrived(bytes int) {
	if c.waiting.Add(-1) == 0 {
		c.Holder.Finished(math.MaxInt32)
		return
	}
	c.Finished(bytes)
}

// Waiting returns how many calls on it wait.
func (c *Conn) Waiting() int { return int(c.waiting.Load()) }

// Finished takes away the bytes of a message that is complete, and what came around it:
// headers, frames and what TLS adds.
func (c *Conn) Finished(bytes int) { c.Holder.Finished(bytes + bytes/64 + around) }

// around is about what comes with a message, in bytes.
const around = 256

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.Add(n)
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if left := c.unsent.Add(-int64(n)); left < 0 {
		c.unsent.CompareAndSwap(left, 0) // frames and headers are no answers
	}
	return n, err
}

// Answered notes that an answer of so many bytes is to be sent.
func (c *Conn) Answered(bytes int) { c.unsent.Add(int64(bytes)) }

// Unsent returns how many bytes of answers are not sent yet: more than a few, if the
// caller does not read them as fast as it asks.
func (c *Conn) Unsent() int64 { return c.unsent.Load() }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.End()
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

// ConnOf returns the connection of a peer's address, nil if it is not one of Listen's.
func ConnOf(addr net.Addr) *Conn {
	if a, ok := addr.(address); ok {
		return a.conn
	}
	return nil
}
