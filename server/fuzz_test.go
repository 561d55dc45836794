package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// FuzzRecommendREST sends bodies to a server of this process. Whatever they hold,
// the answer is JSON, and a refusal leaves nothing behind. What a server covers
// varies from run to run: fuzz with -fuzzminimizetime 10x.
func FuzzRecommendREST(f *testing.F) {
	f.Add([]byte(webBody))
	for _, req := range []*setpointv1.RecommendRequest{manyMetrics(f), queue(web, 3, 50)} {
		text, err := protojson.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, tt := range badRequests() {
		text, err := protojson.Marshal(webRequest(f, tt.change))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{"", "null", "{", `{"spec":{}}`, `{"a":` + strings.Repeat("[", 200), "{\"target\":\"\xff\"}", `{"scale":{},"spec":{"maxReplicas":1},"previousStatus":{"currentReplicas":2147483647}}`} {
		f.Add([]byte(text))
	}
	s := start(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		a := s.ask(t, http.MethodPost, recommendPath(web), body)
		if !json.Valid(a.raw) {
			t.Fatalf("HTTP %d is no JSON: %q", a.code, a.raw)
		}
		existed, err := s.memory.Delete(t.Context(), keyOf(web))
		if err != nil {
			t.Fatal(err)
		}
		switch a.code {
		case http.StatusOK:
			resp := &setpointv1.RecommendResponse{}
			a.into(t, resp)
			if resp.GetDesiredReplicas() < 0 || resp.GetCurrentReplicas() < 0 {
				t.Errorf("negative replicas: %s", a.raw)
			}
			if recorded := resp.GetRecommendationId() != ""; recorded != existed {
				t.Errorf("an id was given: %t, something was recorded: %t", recorded, existed)
			}
		case http.StatusBadRequest, http.StatusTooManyRequests:
			if got := a.problem(t); got.reason == "" {
				t.Errorf("the refusal has no reason: %s", a.raw)
			}
			if existed {
				t.Errorf("something was recorded of a refused request: %s", a.raw)
			}
		default:
			t.Errorf("HTTP %d: %s", a.code, a.raw)
		}
	})
}
