package connections

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
)

// tries is how many connections are examined to find an unneeded one.
const tries = 64

// Options are the limits of a Set; 0 is no limit.
type Options struct {
	// Most is the maximum number of open connections.
	Most int
	// Exempt limits the open calls that have no other limit until their end, ExemptEach those of
	// one connection.
	Exempt, ExemptEach int
}

// Set is the set of open connections. Its methods may be called concurrently.
type Set struct {
	options Options
	closed  atomic.Uint64

	mu      sync.Mutex
	unknown list.List // guarded by mu; of *Conn, the oldest first
	known   list.List // guarded by mu; of *Conn, roughly the longest idle first
	holders list.List // guarded by mu; of *Conn with exempt calls, the oldest first
	exempt  int       // guarded by mu
}

// New returns a Set.
func New(options Options) *Set { return &Set{options: options} }

// Open returns the number of open connections.
func (s *Set) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unknown.Len() + s.known.Len()
}

// Closed returns how many were closed because of a limit.
func (s *Set) Closed() uint64 { return s.closed.Load() }

// Listen returns a listener whose connections are counted.
func (s *Set) Listen(l net.Listener) net.Listener { return listener{l, s} }

type listener struct {
	net.Listener
	set *Set
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: conn, set: l.set}
		if l.set.add(c) {
			return c, nil
		}
		_ = conn.Close()
	}
}

// add counts a connection; false if no other one can be closed for it.
func (s *Set) add(c *Conn) bool {
	s.mu.Lock()
	var victim *Conn
	if s.options.Most > 0 && s.unknown.Len()+s.known.Len() >= s.options.Most {
		if victim = s.leastLocked(); victim == nil {
			s.mu.Unlock()
			s.closed.Add(1)
			return false
		}
		s.removeLocked(victim)
	}
	c.place = s.unknown.PushBack(c)
	s.mu.Unlock()
	s.makeWay(victim)
	return true
}

// leastLocked returns the connection that is needed least; nil: authenticated callers use all
// of them.
func (s *Set) leastLocked() *Conn {
	if 4*s.unknown.Len() < s.options.Most {
		if c := s.idleLocked(); c != nil {
			return c
		}
	}
	n := 0
	for at := s.unknown.Front(); at != nil && n < tries; at, n = at.Next(), n+1 {
		if c := at.Value.(*Conn); c.calls.Load() == 0 {
			return c
		}
	}
	if first := s.unknown.Front(); first != nil {
		return first.Value.(*Conn)
	}
	return s.idleLocked()
}

// idleLocked returns a known connection without calls.
func (s *Set) idleLocked() *Conn {
	for range min(tries, s.known.Len()) {
		first := s.known.Front()
		c := first.Value.(*Conn)
		if c.calls.Load() == 0 && !c.used.Swap(false) {
			return c
		}
		s.known.MoveToBack(first)
	}
	return nil
}

// removeLocked removes a connection. It is idempotent.
func (s *Set) removeLocked(c *Conn) {
	if c.gone {
		return
	}
	c.gone = true
	if c.known.Load() {
		s.known.Remove(c.place)
	} else {
		s.unknown.Remove(c.place)
	}
	s.exempt -= c.exempt
	c.exempt = 0
	if c.held != nil {
		s.holders.Remove(c.held)
		c.held = nil
	}
}

// makeWay closes a connection; nil: none.
func (s *Set) makeWay(c *Conn) {
	if c != nil {
		s.closed.Add(1)
		_ = c.Conn.Close()
	}
}

// holderLocked returns the connection with exempt calls to close for a new one: the
// oldest that is not known, or the oldest.
func (s *Set) holderLocked(other *Conn) (holder *Conn) {
	n := 0
	for at := s.holders.Front(); at != nil && n < tries; at, n = at.Next(), n+1 {
		c := at.Value.(*Conn)
		if c == other {
			continue
		}
		if !c.known.Load() {
			return c
		}
		if holder == nil {
			holder = c
		}
	}
	return holder
}
