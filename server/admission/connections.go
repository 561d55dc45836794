package admission

import (
	"context"
	"fmt"
	"net"
	"net/http"

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

// CountREST counts the REST calls of connections, so that those in use stay open.
func CountREST(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := RESTConnectionOf(r)
		conn.Begin()
		defer conn.End()
		next.ServeHTTP(w, r)
	})
}
