package server_test

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
)

// withheld begins a call over gRPC and sends no message on it.
func (s *service) withheld(ctx context.Context, tb testing.TB, method string) grpc.ClientStream {
	tb.Helper()
	ctx, cancel := context.WithCancel(ctx)
	tb.Cleanup(cancel)
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

// withheldBody begins a REST call and sends the beginning of its body.
func (s *service) withheldBody(tb testing.TB, announced int, begin, token string) net.Conn {
	tb.Helper()
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", s.httpAddress)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", recommendPath(web), token, announced, begin); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// Callers that withhold their messages take no place from those that send theirs.
func TestWithheldMessagesTakeNoPlace(t *testing.T) {
	t.Parallel()
	s, r := measured(t, func(su *setup) { su.options.Limits.InFlight = 2 })
	const withheld = 12
	for range withheld / 3 {
		s.withheld(t.Context(), t, setpointv1.RecommendationService_Recommend_FullMethodName)
		s.withheld(t.Context(), t, setpointv1.TargetService_GetTarget_FullMethodName)
		s.withheldBody(t, 1000, "{", "")
	}
	// A call has a place until it is found to wait: some of them may be refused meanwhile.
	eventually(t, func() bool {
		now := read(t, r)
		return now["calls_waiting"]+now["calls_refused_total{limit=global_in_flight}"] == withheld && now["calls_in_flight"] == 0
	})
	if read(t, r)["calls_waiting"] == 0 {
		t.Fatal("none waits for its message")
	}
	for range 5 {
		if _, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
			t.Fatalf("over gRPC: %v", err)
		}
		s.ask(t, http.MethodPost, recommendPath(web), reader(t, queue(web, 3, 50))).expect(t, http.StatusOK)
	}
}

// The server reads nothing from unknown callers; it refuses callers without permission
// as soon as the call's target is known.
func TestNothingIsReadOfUnknownCallers(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	for _, token := range []string{"", unknownToken} {
		stream := s.withheld(as(t.Context(), token), t, setpointv1.RecommendationService_Recommend_FullMethodName)
		if err := stream.RecvMsg(new(setpointv1.RecommendResponse)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("token %q over gRPC: %v", token, err)
		}
		conn := s.withheldBody(t, 1000, "{", token)
		answer := make([]byte, 100)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 401 ") {
			t.Errorf("token %q over REST: %q, %v", token, answer[:n], err)
		}
	}
	stream := s.withheld(as(t.Context(), nobodyToken), t, setpointv1.RecommendationService_Recommend_FullMethodName)
	if err := stream.SendMsg(queue(web, 3, 50)); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(setpointv1.RecommendResponse)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("who is known and may not: %v", err)
	}
}

// Callers that withhold the rest of large messages are cut off, whoever else is there.
func TestWithheldGiantsMakeWay(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxRequestBytes = 16 << 20 })
	const size, sent = 16 << 20, 15 << 20
	begin := "{" + strings.Repeat(" ", sent)
	var all []net.Conn
	for range 6 { // four fit into 64 MiB
		all = append(all, s.withheldBody(t, size, begin, ""))
		if _, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
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

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/v1/clusters/%ff/namespaces/a/targets/web", "/v1/targets?pageToken=%ff", "/v1/targets?%c0%80=1"} {
		s.ask(t, http.MethodGet, path, nil).expect(t, http.StatusBadRequest)
	}
	for _, method := range []string{setpointv1.RecommendationService_Recommend_FullMethodName, setpointv1.TargetService_GetTarget_FullMethodName} {
		// Field 1, two bytes that are no text.
		err := s.conn.Invoke(t.Context(), method, []byte("\x0a\x02\xff\xfe"), new([]byte), grpc.ForceCodec(bytesCodec{}))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestParametersOfURLsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	const shop = "/v1/clusters/c/namespaces/shop/"
	for _, tc := range []struct{ method, path, want string }{
		{http.MethodGet, shop + "targets?pagesiz=3", `pagesiz: unknown parameter, did you mean "pageSize"?`},
		{http.MethodGet, shop + "targets?limit=3", "limit: unknown parameter: there are pageSize, page_size, pageToken, page_token"},
		{http.MethodGet, shop + "targets/web?x.y=3", "x.y: unknown parameter: this call takes none"},
		{http.MethodPost, shop + "targets/web:recommend?explain=true", "explain: unknown parameter: this call takes none"},
		{http.MethodGet, shop + "targets?pageSize=many", `pageSize: Invalid value: "many": must be a whole number`},
		{http.MethodGet, shop + "targets?page_size=1", ""},
	} {
		var body any
		if tc.method == http.MethodPost {
			body = map[string]any{}
		}
		code := http.StatusOK
		if tc.want != "" {
			code = http.StatusBadRequest
		}
		message, _ := s.ask(t, tc.method, tc.path, body).expect(t, code)["message"].(string)
		if !strings.Contains(message, tc.want) {
			t.Errorf("%s %s: %s, want %s", tc.method, tc.path, message, tc.want)
		}
	}
}

// bytesCodec is for messages that are encoded already.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (bytesCodec) Name() string { return "proto" }
