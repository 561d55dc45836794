package agenttest

import (
	"context"
	"net"
	"sync"
)

// Pipe is an in-process network with one server, for adapters whose platform speaks HTTP: in a
// bubble of testing/synctest time stands still while a goroutine waits for a real connection.
// It implements net.Listener.
//
//	pipe := agenttest.NewPipe()
//	go server.Serve(pipe)
//	client := &http.Client{Transport: &http.Transport{DialContext: pipe.DialContext}}
type Pipe struct {
	dialed chan net.Conn
	closed chan struct{}
	close  func()
}

// NewPipe returns a pipe without a server yet.
func NewPipe() *Pipe {
	p := &Pipe{dialed: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// DialContext connects to the server, whatever the address.
func (p *Pipe) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.dialed <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipe) Close() error {
	p.close()
	return nil
}

// Addr implements net.Listener.
func (*Pipe) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
