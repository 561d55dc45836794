package clitest

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Certificate writes a self-signed certificate for localhost, which is its own CA, and its key.
func Certificate(t *testing.T, folder string, notAfter time.Time) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	own := testpki.New("localhost", testpki.Names("localhost"), testpki.Valid(time.Now().Add(-time.Hour), notAfter))
	if err := own.Write(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}

// StartServer serves on free ports of the loopback interface and returns gRPC's.
func StartServer(t *testing.T) string {
	t.Helper()
	options := server.DefaultOptions()
	options.AllowEvaluationTime = true
	// The machine of a test may be busy, or stand still for seconds.
	options.Limits.Shedding.Off, options.RequestTimeout = true, 5*time.Minute
	return StartServerWith(t, options)
}

// StartServerWith is StartServer with options of its own.
func StartServerWith(t *testing.T, options server.Options) string {
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

// Dial returns a connection to a server, in the clear, which the end of the test closes.
func Dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
