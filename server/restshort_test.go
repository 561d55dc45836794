package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// overGateway is a header that only the gateway understands, and viaGateway one that only
// its answers have.
const overGateway, viaGateway = "Grpc-Timeout", "Grpc-Metadata-Content-Type"

// bodyOf returns a request as JSON without spaces, with replacements of pairs.
func bodyOf(t *testing.T, req *setpointv1.RecommendRequest, pairs ...string) string {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(jsonOf(t, req))); err != nil {
		t.Fatal(err)
	}
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
	usual := bodyOf(t, podsRequest(3), `"target":"`+web+`",`, "")
	named := bodyOf(t, podsRequest(3))
	explained := strings.Replace(usual, `{"`, `{"explain":true,"`, 1)
	inBatch := func(bodies ...string) string { return `{"requests":[` + strings.Join(bodies, ",") + `]}` }
	for _, tt := range []struct {
		name, path, body string
		short            bool // no need for the gateway
		code             int
	}{
		{"usual", recommendPath(web), usual, true, 200},
		{"explained", recommendPath(web), explained, true, 200},
		{"explained at length", recommendPath(web), strings.Replace(bodyOf(t, podsRequest(200), `"target":"`+web+`",`, ""), `{"`, `{"explain":true,"`, 1), true, 200},
		{"names of Kubernetes", recommendPath("clusters/eu-west-1.prod/namespaces/shop_1/targets/Web.2"), usual, true, 200},
		{"a name that is escaped", "/v1/clusters/a%2Db/namespaces/n/targets/t:recommend", usual, false, 200},
		{"a target in the body, too", recommendPath(web), named, false, 200},
		{"another target in the body", recommendPath(web), strings.Replace(named, "/web", "/other", 1), false, 200},
		{"a wrong spec", recommendPath(web), strings.Replace(usual, `"maxReplicas":5000`, `"maxReplicas":1`, 1), true, 400},
		{"no spec", recommendPath(web), `{}`, true, 400},
		{"an unknown field", recommendPath(web), `{"specs":{}}`, false, 400},
		{"no JSON", recommendPath(web), `{"spec":`, false, 400},
		{"more than JSON", recommendPath(web), usual + "x", false, 400},
		{"no body", recommendPath(web), "", false, 400},
		{"null", recommendPath(web), `null`, false, 400},
		{"a bad name", recommendPath("clusters/c/namespaces/n/targets/" + strings.Repeat("t", 300)), usual, true, 400},
		{"a target too many", "/v1/clusters/c/namespaces/n/targets/t/u:recommend", usual, false, 400},
		{"a batch", batchPath, inBatch(named, strings.Replace(named, "/web", "/other", 1)), true, 200},
		{"a batch with a bad request", batchPath, inBatch(named, `{"target":"x"}`), true, 200},
		{"a batch of nothing", batchPath, `{}`, true, 200},
		{"a parameter", recommendPath(web) + "?explain=true", usual, false, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			short, long := start(t), start(t)
			for round := range 2 { // the second has a history
				answers := [2]*answer{}
				for i, s := range []*service{short, long} {
					s.clock.Advance(period)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+tt.path, strings.NewReader(tt.body))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("X-Request-Id", "the-same")
					if s == long {
						req.Header.Set(overGateway, "30S")
					}
					if answers[i], err = s.send(req); err != nil {
						t.Fatal(err)
					}
				}
				compareAnswers(t, round, answers[0], answers[1])
				if answers[0].code != tt.code {
					t.Errorf("round %d: HTTP %d, want %d: %s", round, answers[0].code, tt.code, answers[0].raw)
				}
				if short := answers[0].header.Get(viaGateway) == ""; tt.code == http.StatusOK && short != tt.short {
					t.Errorf("round %d: without the gateway: %v, want %v", round, short, tt.short)
				}
			}
		})
	}
}

func compareAnswers(t *testing.T, round int, short, long *answer) {
	t.Helper()
	if short.code != long.code || withoutIDs(short.raw) != withoutIDs(long.raw) {
		t.Errorf("round %d: HTTP %d\n%s\nover the gateway %d\n%s", round, short.code, short.raw, long.code, long.raw)
	}
	for _, a := range []*answer{short, long} {
		for _, name := range []string{"Date", "Content-Length"} {
			a.header.Del(name)
		}
	}
	for name, values := range long.header {
		if name != viaGateway && strings.Join(short.header[name], ",") != strings.Join(values, ",") {
			t.Errorf("round %d: %s: %q, over the gateway %q", round, name, short.header[name], values)
		}
	}
	for name := range short.header {
		if long.header[name] == nil {
			t.Errorf("round %d: %s: %q, over the gateway nothing", round, name, short.header[name])
		}
	}
}
