package access_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// A caller is known before its message arrives, which may take any time. What it loses meanwhile, it
// loses for that call, too.
func TestReloadsReachCallsWhoseMessageIsStillToCome(t *testing.T) {
	t.Parallel()
	const target = "clusters/red/namespaces/shop/targets/web"
	tokens, metrics := map[string]string{"sp_t": "red"}, prometheus.NewRegistry()
	y := servertest.NewTenancy(t, tokens, redRecommends, func(su *servertest.Setup) { su.Options.Registerer = metrics })
	for transport, begin := range map[string]func() (end func() codes.Code){
		"gRPC": func() (end func() codes.Code) { return heldGRPC(t, y.Service, target) },
		"REST": func() (end func() codes.Code) { return heldREST(t, y.Service, target) },
	} {
		for what, tt := range map[string]struct {
			tokens map[string]string
			policy string
			want   codes.Code
		}{
			"nothing":                  {tokens, redRecommends, codes.OK},
			"the token is revoked":     {map[string]string{"sp_other": "red"}, redRecommends, codes.Unauthenticated},
			"the token is another's":   {map[string]string{"sp_t": "blue"}, redRecommends, codes.PermissionDenied},
			"the grant is another's":   {tokens, strings.ReplaceAll(redRecommends, "clusters: [red]", "clusters: [none]"), codes.PermissionDenied},
			"there is no grant at all": {tokens, "grants: []", codes.PermissionDenied},
			"the token expires":        {nil, redRecommends, codes.Unauthenticated},
		} {
			given, expires := tokens, time.Now().Add(500*time.Millisecond)
			if tt.tokens == nil {
				given = map[string]string{"sp_t": fmt.Sprintf("red, expires: %q", expires.Format(time.RFC3339Nano))}
			}
			y.Reload(t, given, redRecommends)
			end := begin()
			servertest.Eventually(t, func() bool { return servertest.Read(t, metrics)["calls_waiting"] == 1 })
			if tt.tokens != nil {
				y.Reload(t, tt.tokens, tt.policy)
			} else {
				time.Sleep(time.Until(expires))
			}
			if got := end(); got != tt.want {
				t.Errorf("%s, %s: got %s, want %s", transport, what, got, tt.want)
			}
		}
	}
}

// heldGRPC begins a call as sp_t, whose message comes at its end.
func heldGRPC(t *testing.T, s *servertest.Service, target string) (end func() codes.Code) {
	t.Helper()
	call, err := s.Conn.NewStream(servertest.As(t.Context(), "sp_t"), &grpc.StreamDesc{ClientStreams: true}, servertest.UnaryMethod)
	fatal.If(t, err)
	return func() codes.Code {
		if err := call.SendMsg(servertest.RequestFor(target)); err != nil {
			return status.Code(err)
		}
		if err := call.CloseSend(); err != nil {
			return status.Code(err)
		}
		return status.Code(call.RecvMsg(&setpointv1.RecommendResponse{}))
	}
}

// heldREST is heldGRPC over REST.
func heldREST(t *testing.T, s *servertest.Service, target string) (end func() codes.Code) {
	t.Helper()
	req := servertest.RequestFor(target)
	req.Target = ""
	text, err := protojson.Marshal(req)
	fatal.If(t, err)
	body, rest := io.Pipe()
	call := s.Request(t, http.MethodPost, servertest.RecommendPath(target), io.MultiReader(bytes.NewReader(text[:1]), body))
	call.Header.Set("Authorization", "Bearer sp_t")
	answered := make(chan codes.Code, 1)
	go func() {
		answer, err := s.Send(call)
		said := struct{ Code codes.Code }{}
		if err != nil || json.Unmarshal(answer.Raw, &said) != nil {
			said.Code = codes.Unknown
		}
		answered <- said.Code
	}()
	return func() codes.Code {
		_, _ = rest.Write(text[1:])
		_ = rest.Close()
		return <-answered
	}
}
