package admission_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// opened is how many streams one connection can open until one is refused.
func opened(t *testing.T, open func() (grpc.ClientStream, error)) (n int) {
	t.Helper()
	for ; n < 200; n++ {
		stream, err := open()
		if err == nil {
			err = stream.RecvMsg(new(healthv1.HealthCheckResponse))
		}
		switch status.Code(err) {
		case codes.OK:
		case codes.ResourceExhausted, codes.Unavailable:
			return n
		default:
			t.Fatalf("stream %d: %v", n, err)
		}
	}
	return n
}

// Calls that no other limit bounds are bounded for each connection, and a health check on a
// connection of its own is answered meanwhile.
func TestExemptCallsAreFewOnAConnection(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	conn := s.Dial(t)
	n := opened(t, func() (grpc.ClientStream, error) {
		return healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	})
	if n != 64 {
		t.Errorf("%d Health/Watch were let in, want 64", n)
	}
	conn = s.Dial(t)
	n = opened(t, func() (grpc.ClientStream, error) {
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err == nil {
			err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
		}
		return stream, err
	})
	if n != 64 {
		t.Errorf("%d reflections were let in, want 64", n)
	}
	if _, err := healthv1.NewHealthClient(s.Dial(t)).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("a health check meanwhile: %v", err)
	}
}

// Closed watches free their places.
func TestExemptCallsThatEndCountNoMore(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	health := healthv1.NewHealthClient(s.Dial(t))
	served := 0
	for range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		watch, err := health.Watch(ctx, &healthv1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		cancel()
		switch {
		case err == nil:
			served++
		case status.Code(err) != codes.ResourceExhausted: // the end of those before may be on its way
			t.Fatal(err)
		}
	}
	if served < 100 {
		t.Errorf("%d of 500 were served", served)
	}
	for range 300 {
		if _, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}

// However many connections to gRPC and REST are held open, callers and health checks are
// served on new ones, and authenticated callers keep theirs.
func TestConnectionsMakeWay(t *testing.T) {
	t.Parallel()
	const most = 40
	s, r := servertest.Measured(t, func(su *servertest.Setup) { su.Options.MaxConnections = most })
	s.Recommend(t, servertest.WebRequest(t)) // on the connection of the tests, which is known now
	var held []net.Conn
	begun := time.Now()
	for n := range 3 * most {
		address := s.GRPCAddress
		if n%2 == 0 {
			address = s.URL[len("http://"):]
		}
		conn, err := net.Dial("tcp", address)
		fatal.If(t, err)
		defer conn.Close()
		held = append(held, conn)
	}
	// The health check comes after all of them, not between. On a machine that stands still some of them end by
	// themselves, as they say nothing for ten seconds, which neither counts.
	var closed float64
	servertest.Eventually(t, func() bool {
		now := servertest.Read(t, r)
		closed = now["connections_closed_total"]
		return now["connections"] <= most && (now["connections"]+closed == 3*most+1 || time.Since(begun) > 20*time.Second)
	})
	if closed == 0 {
		t.Error("none was closed for another one")
	}
	if _, err := healthv1.NewHealthClient(s.Dial(t)).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("a health check: %v", err)
	}
	s.Ask(t, http.MethodGet, "/readyz", nil).Expect(t, http.StatusOK)
	s.Recommend(t, servertest.WebRequest(t))
	_ = held[0].SetReadDeadline(time.Now().Add(5 * time.Minute))
	if _, err := held[0].Read(make([]byte, 100)); err == nil {
		// gRPC says its settings first.
		_, err = held[0].Read(make([]byte, 100))
		if err == nil {
			t.Error("the first of those that were held open still is")
		}
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Error("the first of those that were held open still is")
	}
}
