package main

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// run runs the command as main does.
func run(t *testing.T, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, newRoot(), stdin, args...)
}

// startServer serves on free ports of the loopback interface and returns gRPC's.
func startServer(t *testing.T) string {
	t.Helper()
	options := server.DefaultOptions()
	options.AllowEvaluationTime = true
	// The machine of a test may be busy, or stand still for seconds.
	options.Limits.Shedding.Off, options.RequestTimeout = true, 5*time.Minute
	return startServerWith(t, options)
}

func startServerWith(t *testing.T, options server.Options) string {
	t.Helper()
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, options)
	if err != nil {
		t.Fatal(err)
	}
	var listeners [2]net.Listener
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, listeners[0], listeners[1]) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = engine.Close()
	})
	return listeners[0].Addr().String()
}
