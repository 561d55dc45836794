// Package health serves gRPC's health protocol for a fixed set of names, all with one state.
//
//	h := health.New("", "setpoint.v1.TargetService") // not serving yet
//	healthv1.RegisterHealthServer(server, h)
//	h.Set(true)
//	h.Shutdown() // for good
//
// Anybody may ask, without credentials and as often as they like, so nothing is kept by the name
// that a caller asks for. A watch of an unknown name ends: it would wait for a service that this
// server never has.
package health

import (
	"context"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Server implements grpc.health.v1.Health. Its methods may be called concurrently.
type Server struct {
	*health.Server
	names []string
	ended atomic.Bool
}

// New returns a server that knows these names, and is not serving. "" is the server as a whole.
func New(names ...string) *Server {
	s := &Server{Server: health.NewServer(), names: names}
	s.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING) // the library's knows it
	s.Set(false)
	return s
}

// Set sets the state of all names, unless Shutdown was called.
func (s *Server) Set(serving bool) {
	state := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthv1.HealthCheckResponse_SERVING
	}
	for _, name := range s.names {
		s.SetServingStatus(name, state)
	}
}

// Shutdown sets the state to not serving, for good.
func (s *Server) Shutdown() {
	s.ended.Store(true)
	s.Server.Shutdown()
}

// Ended reports whether Shutdown was called.
func (s *Server) Ended() bool { return s.ended.Load() }

// Check implements healthv1.HealthServer. It returns NOT_FOUND for an unknown name.
func (s *Server) Check(ctx context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if !slices.Contains(s.names, req.GetService()) {
		return nil, unknown()
	}
	return s.Server.Check(ctx, req)
}

// Watch sends the state, and each change of it, until the caller goes. For an unknown name it sends
// SERVICE_UNKNOWN, as the protocol wants, and ends with NOT_FOUND.
func (s *Server) Watch(req *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	if slices.Contains(s.names, req.GetService()) {
		return s.Server.Watch(req, stream)
	}
	if err := stream.Send(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVICE_UNKNOWN}); err != nil {
		return err
	}
	return unknown()
}

func unknown() error {
	return status.Error(codes.NotFound, "unknown service: List names those of this server")
}
