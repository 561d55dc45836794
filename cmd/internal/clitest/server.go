package clitest

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// Certificate writes a self-signed certificate for localhost, which is its own CA, and its key.
func Certificate(t *testing.T, folder string, notAfter time.Time) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	own := testpki.New("localhost", testpki.Names("localhost"), testpki.Valid(time.Now().Add(-time.Hour), notAfter))
	fatal.If(t, own.Write(certFile, keyFile))
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
	t.Cleanup(func() { _ = engine.Close() })
	srv, err := server.New(engine, engine, options)
	fatal.If(t, err)
	address, _ := testserver.Serve(t, srv)
	return address
}

// Dial returns a connection to a server, in the clear, which the end of the test closes.
func Dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
