// Package testserver is the service in the process of a test.
package testserver

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Service is the service, to be called without a connection.
type Service struct {
	Recommendations setpointv1.RecommendationServiceServer
	// Announce is AnnounceAgent as clients call it.
	Announce func(context.Context, *setpointv1.AnnounceAgentRequest, ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error)
}

// Start returns the service with its defaults, on an empty store. It ends with the test.
func Start(tb testing.TB) *Service {
	tb.Helper()
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, server.DefaultOptions())
	fatal.If(tb, err)
	tb.Cleanup(func() {
		srv.Close()
		_ = engine.Close()
	})
	return &Service{srv.Recommendations(), func(ctx context.Context, req *setpointv1.AnnounceAgentRequest, _ ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error) {
		return srv.Operations().AnnounceAgent(ctx, req)
	}}
}

// Serve lets a service listen on loopback for gRPC and REST, and returns the addresses. With the test it stops, which must
// not fail.
func Serve(tb testing.TB, srv *server.Server) (grpcAddress, restAddress string) {
	tb.Helper()
	var listeners [2]net.Listener
	for i := range listeners {
		var err error
		listeners[i], err = net.Listen("tcp", "127.0.0.1:0")
		fatal.If(tb, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, listeners[0], listeners[1]) }()
	tb.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	return listeners[0].Addr().String(), listeners[1].Addr().String()
}

// Recommendations returns the recommendations of a service that Start starts.
func Recommendations(tb testing.TB) setpointv1.RecommendationServiceServer {
	tb.Helper()
	return Start(tb).Recommendations
}
