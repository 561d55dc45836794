package admission

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/setpoint-dev/setpoint/server/connections"
)

// exemptEach is how many exempt calls one connection may have open: a proxy may watch health for
// many clients.
const exemptEach = 64

// MostExemptBytes limits a message of an exempt call: the name of a service or of a file.
const MostExemptBytes = 1 << 10

func (g *Guard) newConnections() error {
	most := g.options.MaxConnections
	g.Connections = connections.New(connections.Options{Most: most, Exempt: most, ExemptEach: exemptEach})
	if g.options.Registerer == nil {
		return nil
	}
	if err := g.options.Registerer.Register(connectionMetrics{g.Connections}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

type connectionKey struct{}

// WithConnection adds the connection to the contexts of its REST calls.
func WithConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connections.Of(conn.RemoteAddr()))
}

// RESTConnectionOf returns the connection of a REST call.
func RESTConnectionOf(r *http.Request) *connections.Conn {
	c, _ := r.Context().Value(connectionKey{}).(*connections.Conn)
	return c
}

// connectionOf returns the connection of a gRPC call, nil for calls within the process.
func connectionOf(ctx context.Context) *connections.Conn {
	if p, ok := peer.FromContext(ctx); ok {
		return connections.Of(p.Addr)
	}
	return nil
}

const (
	// RESTCallsEach is how many REST calls one HTTP/2 connection may have open: more than the page
	// has files, and some watches beside. Clients open further connections when they need more;
	// a browser waits.
	RESTCallsEach = 32
	// RESTWindow is how many bytes of bodies that nobody has read yet an HTTP/2 connection may send.
	RESTWindow = 128 << 10
	// unreadEnd is how long the end of a response, which is at most a buffer of 4 KiB, may wait for
	// an HTTP/2 caller to admit it.
	unreadEnd = 10 * time.Second
)

// CountREST counts the REST calls of connections, so that those in use stay open. Over HTTP/2, where
// a connection has many, it counts a call until its response is sent: a response waits for the
// caller's window after its handler has returned, too.
func CountREST(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := RESTConnectionOf(r)
		conn.Begin()
		defer conn.End()
		if stream, ok := w.(http.CloseNotifier); ok && conn != nil && r.ProtoMajor == 2 { //nolint:staticcheck // the request's context ends with the handler
			if !conn.BeginExempt() {
				panic(http.ErrAbortHandler)
			}
			closed := stream.CloseNotify()
			defer func() { go endREST(conn, closed) }()
		}
		next.ServeHTTP(w, r)
	})
}

// endREST ends the count of a call when its response is sent or dropped. It closes the connection of
// a caller that does not take the end of its response.
func endREST(conn *connections.Conn, closed <-chan bool) {
	defer conn.EndExempt()
	unread := time.NewTimer(unreadEnd)
	defer unread.Stop()
	select {
	case <-closed:
	case <-unread.C:
		_ = conn.Close()
	}
}
