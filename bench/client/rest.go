package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/request"
)

// REST has HTTP/1.1 connections, one per caller.
type REST struct {
	address string
	conns   []net.Conn
	readers []*bufio.Reader
	buffers [][]byte
}

// NewREST returns connections for that many callers, opened on demand.
func NewREST(address string, callers int) *REST {
	return &REST{address, make([]net.Conn, callers), make([]*bufio.Reader, callers), make([][]byte, callers)}
}

// Close closes the connections.
func (c *REST) Close() {
	for _, conn := range c.conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// Call returns a load of recommendations. It writes pre-encoded requests, and parses
// headers with the standard library.
func (c *REST) Call(set *request.Set) load.Call {
	parts := split(set, len(c.conns))
	return func(ctx context.Context, caller int) error {
		if c.conns[caller] == nil {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
			if err != nil {
				return err
			}
			c.conns[caller], c.readers[caller] = conn, bufio.NewReader(conn)
		}
		c.buffers[caller] = parts[caller].AppendHTTP(c.buffers[caller][:0])
		err := exchange(c.conns[caller], c.readers[caller], c.buffers[caller])
		if err != nil {
			_ = c.conns[caller].Close()
			c.conns[caller] = nil
		}
		return err
	}
}

func exchange(conn net.Conn, answers *bufio.Reader, call []byte) error {
	if _, err := conn.Write(call); err != nil {
		return err
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("%s: %s", response.Status, said)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
