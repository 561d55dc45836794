package admission_test

import (
	"context"
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

// withheld begins a call over gRPC and sends no message on it.
func withheld(ctx context.Context, tb testing.TB, s *servertest.Service, method string) grpc.ClientStream {
	tb.Helper()
	ctx, cancel := context.WithCancel(ctx)
	tb.Cleanup(cancel)
	stream, err := s.Conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
	fatal.If(tb, err)
	return stream
}

// withheldBody begins a REST call and sends the beginning of its body.
func withheldBody(tb testing.TB, s *servertest.Service, announced int, begin, token string) net.Conn {
	tb.Helper()
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", s.HTTPAddress)
	fatal.If(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", servertest.RecommendPath(servertest.Web), token, announced, begin); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// Callers that withhold their messages take no place from those that send theirs.
func TestWithheldMessagesTakeNoPlace(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t, func(su *servertest.Setup) { su.Options.Limits.InFlight = 2 })
	const many = 12
	for range many / 3 {
		withheld(t.Context(), t, s, setpointv1.RecommendationService_Recommend_FullMethodName)
		withheld(t.Context(), t, s, setpointv1.TargetService_GetTarget_FullMethodName)
		withheldBody(t, s, 1000, "{", "")
	}
	// A call has a place until it is found to wait: some of them may be refused meanwhile.
	servertest.Eventually(t, func() bool {
		now := servertest.Read(t, r)
		return now["calls_waiting"]+now["calls_refused_total{limit=global_in_flight}"] == many && now["calls_in_flight"] == 0
	})
	if servertest.Read(t, r)["calls_waiting"] == 0 {
		t.Fatal("none waits for its message")
	}
	for range 5 {
		if _, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50)); err != nil {
			t.Fatalf("over gRPC: %v", err)
		}
		s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.Queue(servertest.Web, 3, 50)).Expect(t, http.StatusOK)
	}
}

// The server reads nothing from unknown callers; it refuses callers without permission
// as soon as the call's target is known.
func TestNothingIsReadOfUnknownCallers(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	for _, token := range []string{"", servertest.UnknownToken} {
		stream := withheld(servertest.As(t.Context(), token), t, s, setpointv1.RecommendationService_Recommend_FullMethodName)
		if err := stream.RecvMsg(new(setpointv1.RecommendResponse)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("token %q over gRPC: %v", token, err)
		}
		conn := withheldBody(t, s, 1000, "{", token)
		answer := make([]byte, 100)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 401 ") {
			t.Errorf("token %q over REST: %q, %v", token, answer[:n], err)
		}
	}
	stream := withheld(servertest.As(t.Context(), servertest.NobodyToken), t, s, setpointv1.RecommendationService_Recommend_FullMethodName)
	fatal.If(t, stream.SendMsg(servertest.Queue(servertest.Web, 3, 50)))
	fatal.If(t, stream.CloseSend())
	if err := stream.RecvMsg(new(setpointv1.RecommendResponse)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("who is known and may not: %v", err)
	}
}

// Callers that withhold the rest of large messages are cut off, whoever else is there.
func TestWithheldGiantsMakeWay(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxRequestBytes = 16 << 20 })
	const size, sent = 16 << 20, 15 << 20
	begin := "{" + strings.Repeat(" ", sent)
	var all []net.Conn
	for range 6 { // four fit into 64 MiB
		all = append(all, withheldBody(t, s, size, begin, ""))
		if _, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50)); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	deadline := time.Now().Add(40 * time.Second) // after a minute bodies are cut off anyway
	for refused < 2 && time.Now().Before(deadline) {
		refused = 0
		for _, conn := range all {
			answer := make([]byte, 100)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if n, err := conn.Read(answer); n > 0 && strings.HasPrefix(string(answer), "HTTP/1.1 429 ") || n == 0 && err != nil && !strings.Contains(err.Error(), "timeout") {
				refused++
			}
		}
	}
	if refused < 2 {
		t.Errorf("%d of %d calls that withhold 15 MiB each had to make way, want 2", refused, len(all))
	}
}
