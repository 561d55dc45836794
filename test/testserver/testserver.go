// Package testserver is the service in the process of a test, on an empty store.
package testserver

import (
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Recommendations returns the service with its defaults, to be called without a connection. It
// ends with the test.
func Recommendations(tb testing.TB) setpointv1.RecommendationServiceServer {
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
	return srv.Recommendations()
}
