package rest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// bodyOf returns a request as JSON without spaces, with replacements of pairs.
func bodyOf(t *testing.T, req *setpointv1.RecommendRequest, pairs ...string) string {
	t.Helper()
	var compact bytes.Buffer
	fatal.If(t, json.Compact(&compact, []byte(servertest.JSON(t, req))))
	return strings.NewReplacer(pairs...).Replace(compact.String())
}

// ids are those of recommendations, which no two services share.
var ids = regexp.MustCompile(`"recommendationId":"[^"]*"`)

func withoutIDs(text []byte) string { return ids.ReplaceAllString(string(text), "") }

// Two services with the same clock get the same requests, one through the gateway: they
// return the same responses.
func TestRESTAnswersTheSameEitherWay(t *testing.T) {
	t.Parallel()
	const batchPath = "/v1/targets:batchRecommend"
	usual := bodyOf(t, servertest.PodsRequest(3), `"target":"`+servertest.Web+`",`, "")
	named := bodyOf(t, servertest.PodsRequest(3))
	explained := strings.Replace(usual, `{"`, `{"explain":true,"`, 1)
	inBatch := func(bodies ...string) string { return `{"requests":[` + strings.Join(bodies, ",") + `]}` }
	for _, tt := range []struct {
		name, path, body string
		short            bool // no need for the gateway
		code             int
	}{
		{"usual", servertest.RecommendPath(servertest.Web), usual, true, 200},
		{"explained", servertest.RecommendPath(servertest.Web), explained, true, 200},
		{"explained at length", servertest.RecommendPath(servertest.Web), strings.Replace(bodyOf(t, servertest.PodsRequest(200), `"target":"`+servertest.Web+`",`, ""), `{"`, `{"explain":true,"`, 1), true, 200},
		{"names of Kubernetes", servertest.RecommendPath("clusters/eu-west-1.prod/namespaces/shop_1/targets/Web.2"), usual, true, 200},
		{"a name that is escaped", "/v1/clusters/a%2Db/namespaces/n/targets/t:recommend", usual, false, 200},
		{"a target in the body, too", servertest.RecommendPath(servertest.Web), named, false, 200},
		{"another target in the body", servertest.RecommendPath(servertest.Web), strings.Replace(named, "/web", "/other", 1), false, 400},
		{"a wrong spec", servertest.RecommendPath(servertest.Web), strings.Replace(usual, `"maxReplicas":5000`, `"maxReplicas":1`, 1), true, 400},
		{"no spec", servertest.RecommendPath(servertest.Web), `{}`, true, 400},
		{"an unknown field", servertest.RecommendPath(servertest.Web), `{"specs":{}}`, false, 400},
		{"no JSON", servertest.RecommendPath(servertest.Web), `{"spec":`, false, 400},
		{"more than JSON", servertest.RecommendPath(servertest.Web), usual + "x", false, 400},
		{"no body", servertest.RecommendPath(servertest.Web), "", false, 400},
		{"null", servertest.RecommendPath(servertest.Web), `null`, false, 400},
		{"a bad name", servertest.RecommendPath("clusters/c/namespaces/n/targets/" + strings.Repeat("t", 300)), usual, true, 400},
		{"a target too many", "/v1/clusters/c/namespaces/n/targets/t/u:recommend", usual, false, 400},
		{"a batch", batchPath, inBatch(named, strings.Replace(named, "/web", "/other", 1)), true, 200},
		{"a batch with a bad request", batchPath, inBatch(named, `{"target":"x"}`), true, 200},
		{"a batch of nothing", batchPath, `{}`, true, 200},
		{"a parameter", servertest.RecommendPath(servertest.Web) + "?explain=true", usual, false, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			short, metrics := servertest.Measured(t)
			long := servertest.Start(t)
			for round := range 2 { // the second has a history
				before := servertest.Read(t, metrics)
				answers := [2]*servertest.Answer{}
				for i, s := range []*servertest.Service{short, long} {
					s.Clock.Advance(servertest.Period)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+tt.path, strings.NewReader(tt.body))
					fatal.If(t, err)
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("X-Request-Id", "the-same")
					if s == long {
						req.Header.Set(servertest.OverGateway, "30S")
					}
					answers[i], err = s.Send(req)
					fatal.If(t, err)
				}
				compareAnswers(t, round, answers[0], answers[1])
				if answers[0].Code != tt.code {
					t.Errorf("round %d: HTTP %d, want %d: %s", round, answers[0].Code, tt.code, answers[0].Raw)
				}
				if tt.code == http.StatusOK && !tt.short {
					servertest.Read(t, metrics).Since(before, "requests_slow_path_total").Expect(t, servertest.Reading{"requests_slow_path_total{reason=unusual,stage=rest}": 1})
				} else if tt.code == http.StatusOK {
					servertest.Read(t, metrics).Since(before, "requests_slow_path_total{reason=unusual,stage=rest}").Expect(t, servertest.Reading{})
				}
			}
		})
	}
}

func compareAnswers(t *testing.T, round int, short, long *servertest.Answer) {
	t.Helper()
	if short.Code != long.Code || withoutIDs(short.Raw) != withoutIDs(long.Raw) {
		t.Errorf("round %d: HTTP %d\n%s\nover the gateway %d\n%s", round, short.Code, short.Raw, long.Code, long.Raw)
	}
	for _, a := range []*servertest.Answer{short, long} {
		for _, name := range []string{"Date", "Content-Length"} {
			a.Header.Del(name)
		}
	}
	for name, values := range long.Header {
		if strings.Join(short.Header[name], ",") != strings.Join(values, ",") {
			t.Errorf("round %d: %s: %q, over the gateway %q", round, name, short.Header[name], values)
		}
	}
	for name := range short.Header {
		if long.Header[name] == nil {
			t.Errorf("round %d: %s: %q, over the gateway nothing", round, name, short.Header[name])
		}
	}
}
