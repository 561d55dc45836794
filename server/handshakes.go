package server

import (
	"net"
	"sync"
	"time"
)

// handshakes are the connections of gRPC whose handshake has not ended, by their deadline, which gRPC sets for that time.
// A stop of gRPC waits for them before it does anything else: whoever connects and sends nothing would keep clients here
// that are to go elsewhere, and the stop beyond its own timeout.
type handshakes struct {
	mu    sync.Mutex
	open  map[*handshake]struct{} // guarded by mu
	ended bool                    // guarded by mu
}

// end closes them, and those to come.
func (h *handshakes) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for c := range h.open {
		_ = c.Conn.Close()
	}
}

// Listen returns a listener of connections whose handshakes are known.
func (h *handshakes) Listen(l net.Listener) net.Listener { return handshakesOf{l, h} }

type handshakesOf struct {
	net.Listener
	all *handshakes
}

// Accept implements net.Listener.
func (l handshakesOf) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &handshake{conn, l.all}, nil
}

// handshake is a connection, during its handshake among all.
type handshake struct {
	net.Conn
	all *handshakes
}

// SetDeadline implements net.Conn.
func (c *handshake) SetDeadline(at time.Time) error {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	switch {
	case at.IsZero():
		delete(c.all.open, c)
	case c.all.ended:
		return c.Conn.Close()
	default:
		c.all.open[c] = struct{}{}
	}
	return c.Conn.SetDeadline(at)
}

// Close implements net.Conn.
func (c *handshake) Close() error {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	delete(c.all.open, c)
	return c.Conn.Close()
}
