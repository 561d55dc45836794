// Package testserver is the service in the process of a test, on an empty store.
package testserver

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Service is the service, to be called without a connection.
type Service struct {
	Recommendations setpointv1.RecommendationServiceServer
	// Announce is AnnounceAgent as clients call it.
	Announce func(context.Context, *setpointv1.AnnounceAgentRequest, ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error)
}

// Start returns the service with its defaults. It ends with the test.
func Start(tb testing.TB) *Service {
	tb.Helper()
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, server.DefaultOptions())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		srv.Close()
		_ = engine.Close()
	})
	return &Service{srv.Recommendations(), func(ctx context.Context, req *setpointv1.AnnounceAgentRequest, _ ...grpc.CallOption) (*setpointv1.AnnounceAgentResponse, error) {
		return srv.Operations().AnnounceAgent(ctx, req)
	}}
}

// Recommendations returns the recommendations of a service that Start starts.
func Recommendations(tb testing.TB) setpointv1.RecommendationServiceServer {
	tb.Helper()
	return Start(tb).Recommendations
}
