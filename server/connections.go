package server

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/peer"

	"github.com/setpoint-dev/setpoint/server/connections"
)

// exemptEach is how many calls that no other limit bounds one connection may have open: a
// proxy may watch health for many clients.
const exemptEach = 64

func (s *Server) newConnections() error {
	most := s.options.MaxConnections
	s.connections = connections.New(connections.Options{Most: most, Exempt: most, ExemptEach: exemptEach})
	if s.options.Registerer == nil {
		return nil
	}
	if err := s.options.Registerer.Register(connectionMetrics{s.connections}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

type connectionKey struct{}

// withConnection has the calls of a REST connection know it.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connections.Of(conn.RemoteAddr()))
}

// restConnectionOf returns the connection of a REST call.
func restConnectionOf(r *http.Request) *connections.Conn {
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

// counted notes for the connections of REST calls that they are in use.
func counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := restConnectionOf(r)
		conn.Begin()
		defer conn.End()
		next.ServeHTTP(w, r)
	})
}

// connectionMetrics shows how many connections there are.
type connectionMetrics struct{ set *connections.Set }

var (
	connectionsOpen   = prometheus.NewDesc("setpoint_connections", "Open connections of gRPC and REST.", nil, nil)
	connectionsClosed = prometheus.NewDesc("setpoint_connections_closed_total", "Connections closed because there were too many, or too many health watches on them.", nil, nil)
)

// Describe implements prometheus.Collector.
func (connectionMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- connectionsOpen
	descs <- connectionsClosed
}

// Collect implements prometheus.Collector.
func (m connectionMetrics) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(connectionsOpen, prometheus.GaugeValue, float64(m.set.Open()))
	metrics <- prometheus.MustNewConstMetric(connectionsClosed, prometheus.CounterValue, float64(m.set.Closed()))
}
