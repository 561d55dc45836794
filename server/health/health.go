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
	"sync"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Server implements grpc.health.v1.Health. Its methods may be called concurrently.
type Server struct {
	healthv1.UnimplementedHealthServer
	names []string

	mu      sync.Mutex
	serving bool          // guarded by mu
	ended   bool          // guarded by mu; Shutdown was called
	changed chan struct{} // guarded by mu; closed when serving changes
}

// New returns a server that knows these names, and is not serving. "" is the server as a whole.
func New(names ...string) *Server {
	return &Server{names: names, changed: make(chan struct{})}
}

// Set sets the state of all names, unless Shutdown was called.
func (s *Server) Set(serving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.setLocked(serving)
	}
}

// Shutdown sets the state to not serving, for good.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.setLocked(false)
}

// Ended reports whether Shutdown was called.
func (s *Server) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *Server) setLocked(serving bool) {
	if s.serving != serving {
		s.serving = serving
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// now returns the state, and a channel that is closed when it changes.
func (s *Server) now() (state healthv1.HealthCheckResponse_ServingStatus, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		return healthv1.HealthCheckResponse_SERVING, s.changed
	}
	return healthv1.HealthCheckResponse_NOT_SERVING, s.changed
}

// Check implements healthv1.HealthServer, as do List and Watch. It returns NOT_FOUND for an unknown
// name.
func (s *Server) Check(_ context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if !slices.Contains(s.names, req.GetService()) {
		return nil, unknown()
	}
	state, _ := s.now()
	return &healthv1.HealthCheckResponse{Status: state}, nil
}

// List returns the state of all names.
func (s *Server) List(context.Context, *healthv1.HealthListRequest) (*healthv1.HealthListResponse, error) {
	state, _ := s.now()
	all := make(map[string]*healthv1.HealthCheckResponse, len(s.names))
	for _, name := range s.names {
		all[name] = &healthv1.HealthCheckResponse{Status: state}
	}
	return &healthv1.HealthListResponse{Statuses: all}, nil
}

// Watch sends the state, and each change of it, until the caller goes. For an unknown name it sends
// SERVICE_UNKNOWN, as the protocol wants, and ends with NOT_FOUND.
func (s *Server) Watch(req *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	if !slices.Contains(s.names, req.GetService()) {
		if err := stream.Send(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVICE_UNKNOWN}); err != nil {
			return err
		}
		return unknown()
	}
	sent := healthv1.HealthCheckResponse_UNKNOWN
	for {
		state, changed := s.now()
		if state != sent {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: state}); err != nil {
				return err
			}
			sent = state
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

func unknown() error {
	return status.Error(codes.NotFound, "unknown service: List names those of this server")
}
