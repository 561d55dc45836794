package redis

import (
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
)

// boundedConn is a connection to a Redis with bounded answers. The driver allocates memory for
// the announced number of elements or bytes before they arrive, so the announcements are
// bounded, too.
type boundedConn struct {
	net.Conn
	most int
	// left is how much may still arrive in answer to the last write. Each write resets it,
	// possibly from another goroutine.
	left atomic.Int64
	// Owned by the reader: line is the beginning of an incomplete header, and skip is how much
	// of a text is still to come.
	line []byte
	skip int64
}

func newConn(conn net.Conn, most int) net.Conn {
	c := &boundedConn{Conn: conn, most: most}
	c.left.Store(int64(most))
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	if socket, is := conn.(syscall.Conn); is {
		return socketConn{c, socket}
	}
	return c
}

// socketConn is a connection of which the driver finds before a command that the other side has closed it: else each of those
// that there were when Redis started anew would cost a query.
type socketConn struct {
	*boundedConn
	syscall.Conn
}

// Write implements net.Conn.
func (c *boundedConn) Write(from []byte) (int, error) {
	c.left.Store(int64(c.most))
	return c.Conn.Write(from)
}

var errAnswerTooLarge = source.Failed(source.Unusable, "the answer is larger than maxBytes: set more")

// Read implements net.Conn.
func (c *boundedConn) Read(to []byte) (int, error) {
	n, err := c.Conn.Read(to)
	if c.left.Add(-int64(n)) < 0 || !c.fits(to[:n]) {
		return 0, errAnswerTooLarge
	}
	return n, err
}

// maxHeader bounds a header line: a type and a number.
const maxHeader = 32

// Approximate allocations of the driver for a list and for each of its elements.
const (
	listBytes    = 256
	elementBytes = 32
)

// fits follows the received bytes, and reports whether all announced data is within the bound.
func (c *boundedConn) fits(came []byte) bool {
	for len(came) > 0 {
		if c.skip > 0 {
			n := min(c.skip, int64(len(came)))
			c.skip, came = c.skip-n, came[n:]
			continue
		}
		b := came[0]
		came = came[1:]
		if b != '\n' {
			if len(c.line) <= maxHeader {
				c.line = append(c.line, b)
			}
			continue
		}
		if !c.announced() {
			return false
		}
		c.line = c.line[:0]
	}
	return true
}

// announced parses a header line, and reports whether the announced data is within the bound:
// texts and lists of RESP2, and their counterparts of RESP3. All other types fit into their
// line.
func (c *boundedConn) announced() bool {
	if len(c.line) == 0 {
		return true
	}
	kind, number := c.line[0], strings.TrimSuffix(string(c.line[1:]), "\r")
	n, err := strconv.ParseInt(number, 10, 64)
	switch kind {
	case '$', '=', '!':
		if err == nil && n >= 0 {
			c.skip = n + 2 // the end of its line
		}
		return len(number) < maxHeader && n <= int64(c.most)
	case '*', '~', '>', '%', '|':
		return len(number) < maxHeader && n <= int64(c.most) && c.left.Add(-listBytes-elementBytes*max(n, 0)) >= 0
	}
	return true
}
