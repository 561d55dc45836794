package services_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// FuzzRecommendREST sends bodies to a server of this process. Whatever they hold,
// the answer is JSON, and a refusal leaves nothing behind. What a server covers
// varies from run to run: fuzz with -fuzzminimizetime 10x.
func FuzzRecommendREST(f *testing.F) {
	f.Add([]byte(servertest.WebBody))
	for _, req := range []*setpointv1.RecommendRequest{servertest.PodsRequest(3), servertest.Queue(servertest.Web, 3, 50)} {
		text, err := protojson.Marshal(req)
		fatal.If(f, err)
		f.Add(text)
	}
	for _, tt := range badRequests() {
		text, err := protojson.Marshal(servertest.WebRequest(f, tt.change))
		fatal.If(f, err)
		f.Add(text)
	}
	for _, text := range []string{"", "null", "{", `{"spec":{}}`, `{"a":` + strings.Repeat("[", 200), "{\"target\":\"\xff\"}", `{"scale":{},"spec":{"maxReplicas":1},"previousStatus":{"currentReplicas":2147483647}}`} {
		f.Add([]byte(text))
	}
	s := servertest.Start(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), body)
		if !json.Valid(a.Raw) {
			t.Fatalf("HTTP %d is no JSON: %q", a.Code, a.Raw)
		}
		existed, err := s.Memory.Delete(t.Context(), servertest.KeyOf(servertest.Web))
		fatal.If(t, err)
		switch a.Code {
		case http.StatusOK:
			resp := &setpointv1.RecommendResponse{}
			a.Into(t, resp)
			if resp.GetDesiredReplicas() < 0 || resp.GetCurrentReplicas() < 0 {
				t.Errorf("negative replicas: %s", a.Raw)
			}
			if recorded := resp.GetRecommendationId() != ""; recorded != existed {
				t.Errorf("an id was given: %t, something was recorded: %t", recorded, existed)
			}
		case http.StatusBadRequest, http.StatusTooManyRequests:
			if got := a.Problem(t); got.Reason == "" {
				t.Errorf("the refusal has no reason: %s", a.Raw)
			}
			if existed {
				t.Errorf("something was recorded of a refused request: %s", a.Raw)
			}
		default:
			t.Errorf("HTTP %d: %s", a.Code, a.Raw)
		}
	})
}
