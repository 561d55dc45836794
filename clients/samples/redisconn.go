package samples

import (
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// redisConn is a connection to a Redis whose answers are bounded. The driver reserves
// memory for as many elements or bytes as an answer announces, before they are there, so
// what is announced is bounded, too.
type redisConn struct {
	net.Conn
	most int
	// left is what may still come in answer to what was written last. It starts anew
	// with each write, which may be another goroutine's.
	left atomic.Int64
	// What follows is the reader's: line is the begin of a header that came in part,
	// and skip is how much of a text is still to come.
	line []byte
	skip int64
}

func newRedisConn(conn net.Conn, most int) *redisConn {
	c := &redisConn{Conn: conn, most: most}
	c.left.Store(int64(most))
	return c
}

// Write implements net.Conn.
func (c *redisConn) Write(from []byte) (int, error) {
	c.left.Store(int64(c.most))
	return c.Conn.Write(from)
}

var errRedisTooLarge = failed(Unusable, "the answer is larger than maxBytes: set more")

// Read implements net.Conn.
func (c *redisConn) Read(to []byte) (int, error) {
	n, err := c.Conn.Read(to)
	if c.left.Add(-int64(n)) < 0 || !c.fits(to[:n]) {
		return 0, errRedisTooLarge
	}
	return n, err
}

// maxHeader bounds a line that announces: its type and a number.
const maxHeader = 32

// What the driver reserves for a list and for each of its elements, about.
const (
	listBytes    = 256
	elementBytes = 32
)

// fits follows what came, and tells whether all that it announces may come.
func (c *redisConn) fits(came []byte) bool {
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

// announced notes what a line announces, and tells whether that may come: texts and lists of
// RESP2, and what RESP3 has like them. All else is in its line.
func (c *redisConn) announced() bool {
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
