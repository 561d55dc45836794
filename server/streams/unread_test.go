package streams_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// longSimulation is answered with some megabytes.
func longSimulation() *setpointv1.SimulateRequest {
	return &setpointv1.SimulateRequest{Scenario: strings.Replace(servertest.DayOfWeb, "24h", "500h", 1), Spec: servertest.SimulatedSpec(60, 50)}
}

// smallWindow is a connection whose client takes little before its streams are read.
func smallWindow(tb testing.TB, s *servertest.Service) *grpc.ClientConn {
	tb.Helper()
	return s.Dial(tb, grpc.WithInitialWindowSize(64<<10))
}

// unreadWatch opens a watch that reads nothing but its first response, and has much decided.
func unreadWatch(t *testing.T, s *servertest.Service) grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse] {
	t.Helper()
	stream, err := setpointv1.NewTargetServiceClient(smallWindow(t, s)).WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	fatal.If(t, err)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		s.Recommend(t, servertest.Queue(fmt.Sprint("clusters/demo/namespaces/shop/targets/t", i), 2, 20))
	}
	return stream
}

// ends reads what there is of a stream, up to its end.
func ends[R any](t *testing.T, stream grpc.ServerStreamingClient[R], code codes.Code) {
	t.Helper()
	for {
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) != code {
				t.Errorf("the stream ended with %v, want %s", err, code)
			}
			return
		}
	}
}

// eventuallyOpens waits until a stream can be opened that is refused for a limit until then.
func eventuallyOpens[R any](t *testing.T, open func() (grpc.ServerStreamingClient[R], error)) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		stream, err := open()
		if err == nil {
			_, err = stream.Recv()
		}
		switch {
		case err == nil:
			return
		case status.Code(err) != codes.ResourceExhausted || time.Now().After(deadline):
			t.Fatalf("its place is not free: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A watcher that reads nothing keeps its place no longer than is allowed.
func TestAWatcherThatReadsNothingLosesItsPlace(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.UnreadTimeout, su.Options.MaxWatchers = time.Second, 1 })
	unread := unreadWatch(t, s)
	eventuallyOpens(t, func() (grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse], error) {
		return s.Targets.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: "clusters/demo/namespaces/shop/targets/other"})
	})
	ends(t, unread, codes.Aborted)
}

// A simulation whose answer nobody reads gives its place to others.
func TestASimulationWithoutAReaderLosesItsPlace(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.UnreadTimeout = time.Second })
	unread, err := setpointv1.NewSimulationServiceClient(smallWindow(t, s)).Simulate(t.Context(), longSimulation())
	fatal.If(t, err)
	if _, err := unread.Recv(); err != nil {
		t.Fatal(err)
	}
	eventuallyOpens(t, func() (grpc.ServerStreamingClient[setpointv1.SimulateResponse], error) {
		return s.Simulations.Simulate(t.Context(), &setpointv1.SimulateRequest{Scenario: servertest.DayOfWeb, Spec: servertest.SimulatedSpec(60, 50), FiguresOnly: true})
	})
	ends(t, unread, codes.Aborted)
}

// No caller that reads nothing keeps a server from stopping.
func TestAStopDoesNotWaitForCallersThatReadNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *servertest.Service){
		"watch": func(t *testing.T, s *servertest.Service) { unreadWatch(t, s) },
		"simulation": func(t *testing.T, s *servertest.Service) {
			unread, err := setpointv1.NewSimulationServiceClient(smallWindow(t, s)).Simulate(t.Context(), longSimulation())
			fatal.If(t, err)
			if _, err := unread.Recv(); err != nil {
				t.Fatal(err)
			}
		},
		"simulation over REST": func(t *testing.T, s *servertest.Service) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.HTTPAddress)
			fatal.If(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			body := fmt.Sprintf(`{"scenario": %q, "spec": {"minReplicas": 2, "maxReplicas": 50, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}}`, longSimulation().GetScenario())
			if _, err := fmt.Fprintf(conn, "POST /v1/simulations:run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 64)
			if n, err := conn.Read(first); err != nil || !strings.HasPrefix(string(first[:n]), fmt.Sprintf("HTTP/1.1 %d", http.StatusOK)) {
				t.Fatalf("%q, %v", first[:n], err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) { su.Options.DrainTimeout = 3 * time.Minute })
			open(t, s)
			began := time.Now()
			s.StopAndWait(t)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("the stop took %s", took)
			}
		})
	}
}
