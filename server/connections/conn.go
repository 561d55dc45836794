package connections

import (
	"container/list"
	"net"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// Conn is a counted connection. The methods of a nil one do nothing.
type Conn struct {
	net.Conn
	set *Set
	// calls counts the calls in flight; used reports traffic since the last check.
	calls atomic.Int64
	used  atomic.Bool
	// known reports whether the server has received a call of an authenticated caller on
	// it. It changes under set.mu.
	known  atomic.Bool
	origin limit.Origin

	// The other fields are guarded by set.mu.

	place  *list.Element // in set.unknown or set.known
	held   *list.Element // in set.holders
	exempt int
	gone   bool
}

// Know records that an authorized caller has sent a complete message on it.
func (c *Conn) Know() {
	if c == nil || c.known.Load() {
		return
	}
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone || c.known.Load() {
		return
	}
	s.unknown.Remove(c.place)
	c.place = s.known.PushBack(c)
	c.known.Store(true)
}

// Origin is the limiter's state of the connection; nil for a nil connection.
func (c *Conn) Origin() *limit.Origin {
	if c == nil {
		return nil
	}
	return &c.origin
}

// CloseWrite tells the peer that nothing follows, while it still sends: net/http does that to a caller whose body it does not read.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Begin counts a call in flight until End.
func (c *Conn) Begin() {
	if c != nil {
		c.calls.Add(1)
	}
}

// End ends the count of Begin.
func (c *Conn) End() {
	if c != nil {
		c.calls.Add(-1)
	}
}

// BeginExempt counts a call that nothing else limits until its end, until EndExempt. It returns false if the
// connection has too many. If all connections together have too many, it closes another one.
func (c *Conn) BeginExempt() bool {
	if c == nil {
		return true
	}
	s := c.set
	s.mu.Lock()
	if c.gone || s.options.ExemptEach > 0 && c.exempt >= s.options.ExemptEach {
		s.mu.Unlock()
		return false
	}
	var victim *Conn
	if s.options.Exempt > 0 && s.exempt >= s.options.Exempt {
		if victim = s.holderLocked(c); victim == nil {
			s.mu.Unlock()
			return false
		}
		s.removeLocked(victim)
	}
	c.exempt++
	s.exempt++
	if c.held == nil {
		c.held = s.holders.PushBack(c)
	}
	s.mu.Unlock()
	s.makeWay(victim)
	return true
}

// EndExempt ends the count of BeginExempt.
func (c *Conn) EndExempt() {
	if c == nil {
		return
	}
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return
	}
	c.exempt--
	s.exempt--
	if c.exempt == 0 {
		s.holders.Remove(c.held)
		c.held = nil
	}
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.used.Load() {
		c.used.Store(true)
	}
	return n, err
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.set.mu.Lock()
	c.set.removeLocked(c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// RemoteAddr implements net.Conn. Of finds the connection by it.
func (c *Conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

// address is a peer's address that refers to the connection: gRPC reveals nothing else
// of a call's connection.
type address struct {
	net.Addr
	conn *Conn
}

// Of returns the connection of a peer's address, nil if it is not from Listen. The address may
// be wrapped by one that has an Unwrap.
func Of(addr net.Addr) *Conn {
	for addr != nil {
		switch a := addr.(type) {
		case address:
			return a.conn
		case interface{ Unwrap() net.Addr }:
			addr = a.Unwrap()
		default:
			return nil
		}
	}
	return nil
}
