package rest_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// route is one REST route of the contract as a call that the service takes after
// one recommendation for web has been recorded.
type route struct {
	rpc, method, path string
	body              any
	code              int
	// shape is a member of the answer that must be there.
	shape string
}

func contractRoutes(tb testing.TB, id string) []route {
	return []route{
		{"RecommendationService.Recommend", "POST", "/v1/" + servertest.Web + ":recommend", servertest.WebBody, 200, "desiredReplicas"},
		{"RecommendationService.BatchRecommend", "POST", "/v1/targets:batchRecommend", &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{servertest.WebRequest(tb)}}, 200, "results"},
		{"RecommendationService.ReportScale", "POST", "/v1/" + servertest.Web + ":reportScale", map[string]any{"recommendationId": id, "outcome": "APPLIED"}, 200, "status"},
		{"TargetService.GetTarget", "GET", "/v1/" + servertest.Web, nil, 200, "lastDecision"},
		{"TargetService.ListTargets", "GET", "/v1/clusters/demo/namespaces/shop/targets", nil, 200, "targets"},
		{"TargetService.ListTargets", "GET", "/v1/clusters/-/namespaces/-/targets?pageSize=1", nil, 200, "targets"},
		{"TargetService.ListDecisions", "GET", "/v1/" + servertest.Web + "/decisions?pageSize=1", nil, 200, "decisions"},
		{"TargetService.GetRecording", "GET", "/v1/" + servertest.Web + "/recording?pageSize=1", nil, 501, "message"},             // it keeps none by itself
		{"TargetService.WatchDecisions", "GET", "/v1/" + servertest.Web + "/decisions:watch?resumeToken=none", nil, 400, "error"}, // else it does not end
		{"FleetService.GetFleet", "GET", "/v1/" + servertest.Web + "/fleet", nil, 404, "message"},
		{"OverrideService.CreateOverride", "POST", "/v1/" + servertest.Web + "/overrides?overrideId=freeze", held(), 200, "createTime"},
		{"OverrideService.CreateOverride", "POST", "/v1/clusters/demo/namespaces/shop/overrides", held(), 200, "createTime"},
		{"OverrideService.CreateOverride", "POST", "/v1/clusters/demo/overrides", held(), 200, "createTime"},
		{"OverrideService.ListOverrides", "GET", "/v1/clusters/demo/overrides?pageSize=1", nil, 200, "overrides"},
		{"OverrideService.DeleteOverride", "DELETE", "/v1/" + servertest.Web + "/overrides/freeze", nil, 404, "message"},
		{"OverrideService.DeleteOverride", "DELETE", "/v1/clusters/demo/namespaces/shop/overrides/freeze", nil, 404, "message"},
		{"OverrideService.DeleteOverride", "DELETE", "/v1/clusters/demo/overrides/freeze", nil, 404, "message"},
		{"SimulationService.Simulate", "POST", "/v1/simulations:run", "{}", 400, "error"},
		{"OperationsService.GetCaller", "GET", "/v1/caller", nil, 200, "permissions"},
		{"OperationsService.ListInstances", "GET", "/v1/instances", nil, 200, "instances"},
		{"OperationsService.GetStore", "GET", "/v1/store", nil, 200, "kind"},
		{"OperationsService.ListCallers", "GET", "/v1/callers?pageSize=1", nil, 200, "callers"},
		{"OperationsService.AnnounceAgent", "POST", "/v1/clusters/demo/agents:announce", map[string]any{"platform": servertest.Platform, "agentId": "agent-0123456789"}, 200, ""},
		{"TargetService.DeleteTarget", "DELETE", "/v1/" + servertest.Web, nil, 200, ""},
		{"TargetService.SetTargetSpec", "PUT", "/v1/" + servertest.Web + "/spec", servertest.QueueSpec(1, 10), 200, "spec"},
		{"TargetService.PromoteShadow", "POST", "/v1/" + servertest.Web + "/spec:promoteShadow", map[string]any{"shadow": "next", "etag": "00"}, 404, "message"},
		{"TargetService.GetTargetSpec", "GET", "/v1/" + servertest.Web + "/spec", nil, 404, "message"},
		{"TargetService.ListTargetSpecs", "GET", "/v1/clusters/demo/namespaces/-/targetSpecs", nil, 200, "targetSpecs"},
		{"TargetService.DeleteTargetSpec", "DELETE", "/v1/" + servertest.Web + "/spec", nil, 404, "message"},
		{"RecommendationService.ReportObservation", "POST", "/v1/" + servertest.Web + ":reportObservation", map[string]any{"noPods": true}, 200, "storedBytes"},
		{"RecommendationService.GetRecommendation", "GET", "/v1/" + servertest.Web + "/recommendation", nil, 404, "message"},
	}
}

// held is an override that holds the count for an hour.
func held() map[string]any {
	return map[string]any{"hold": true, "reason": "migration", "expireTime": servertest.T0.Add(time.Hour).Format(time.RFC3339)}
}

func TestEveryRouteOfTheContractIsServed(t *testing.T) {
	t.Parallel()
	for i, r := range contractRoutes(t, "") {
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			r := contractRoutes(t, s.Recommend(t, servertest.WebRequest(t)).GetRecommendationId())[i]
			body := s.Ask(t, r.method, r.path, r.body).Expect(t, r.code)
			if _, there := body[r.shape]; r.shape != "" && !there {
				t.Errorf("the answer has no %s: %v", r.shape, body)
			}
		})
	}
}

func TestEveryAnnotatedMethodIsARouteOfTheContract(t *testing.T) {
	t.Parallel()
	var rpcs []string
	for _, r := range contractRoutes(t, "") {
		rpcs = append(rpcs, r.rpc)
	}
	for _, m := range servertest.Methods() {
		name := string(m.Parent().Name() + "." + m.Name())
		if annotated := len(servertest.Routes(m, servertest.Web)) > 0; annotated != slices.Contains(rpcs, name) {
			t.Errorf("%s: REST annotation %t, in the contract's routes %t", name, annotated, !annotated)
		}
	}
}

func TestABodyMayNotContradictThePath(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, tt := range []struct{ method, path, field, same, body string }{
		{"POST", "/v1/" + servertest.Web + ":recommend", "target", servertest.Web, servertest.JSON(t, servertest.WebRequest(t, servertest.WithTarget("")))},
		{"POST", "/v1/" + url.PathEscape(servertest.Web) + ":reportObservation", "target", servertest.Web, `{"noPods":true}`},
		{"PUT", "/v1/" + servertest.Web + "/spec", "name", servertest.Web, servertest.JSON(t, servertest.QueueSpec(1, 10))},
		{"POST", "/v1/clusters/demo/agents:announce", "parent", "clusters/demo", `{"platform":"` + servertest.Platform + `","agentId":"agent-0123456789"}`},
	} {
		with := func(name string) string {
			return `{"` + tt.field + `":"` + name + `",` + strings.TrimPrefix(tt.body, "{")
		}
		for _, name := range []string{"rubbish", "clusters/other/namespaces/shop/targets/web"} {
			a := s.Ask(t, tt.method, tt.path, with(name))
			if got := a.Problem(t); a.Code != http.StatusBadRequest || !slices.Equal(got.Fields, []string{tt.field}) || !strings.Contains(got.Message, "is not the name in the path") {
				t.Errorf("%s %s with %s: HTTP %d %s", tt.method, tt.path, name, a.Code, a.Raw)
			}
		}
		s.Ask(t, http.MethodGet, "/v1/clusters/other/namespaces/shop/targets/web", nil).Expect(t, http.StatusNotFound)
		s.Ask(t, tt.method, tt.path, with(tt.same)).Expect(t, http.StatusOK)
		s.Ask(t, tt.method, tt.path, with("")).Expect(t, http.StatusOK)
	}
}

func TestSegmentsMayHaveEveryCharacterOfTheContract(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, target := range []string{
		"clusters/a/namespaces/b/targets/c",
		"clusters/A.z_0-9/namespaces/..../targets/-.-",
		"clusters/" + strings.Repeat("c", 253) + "/namespaces/" + strings.Repeat("n", 253) + "/targets/" + strings.Repeat("t", 253),
	} {
		s.Ask(t, http.MethodPost, servertest.RecommendPath(target), servertest.WebBody).Expect(t, http.StatusOK)
		body := s.Ask(t, http.MethodGet, "/v1/"+target, nil).Expect(t, http.StatusOK)
		if body["name"] != target {
			t.Errorf("the target is named %v, want %s", body["name"], target)
		}
		// As clients do that escape a parameter as a whole.
		s.Ask(t, http.MethodGet, "/v1/"+url.PathEscape(target), nil).Expect(t, http.StatusOK)
	}
}

func TestGetReturnsTheTargetItself(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.WebRequest(t))
	a := s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil)
	a.Expect(t, http.StatusOK)
	overREST := &setpointv1.Target{}
	a.Into(t, overREST)
	servertest.SameMessage(t, overREST, s.Target(t, servertest.Web))
	if overREST.GetName() != servertest.Web || len(overREST.GetHistory().GetRecommendations()) != 2 || overREST.GetHistory().GetPending() == nil {
		t.Errorf("got %v, want %s with the count at first sight, one recommendation and a pending change", overREST, servertest.Web)
	}
}

func TestDeleteForgetsATarget(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	path := "/v1/" + servertest.Web
	wantUnknown := func(a *servertest.Answer) {
		t.Helper()
		body := a.Expect(t, http.StatusNotFound)
		if body["code"] != float64(codes.NotFound) || servertest.At(body, "details", 0, "reason") != "TARGET_NOT_FOUND" ||
			servertest.At(body, "details", 0, "metadata", "target") != servertest.Web {
			t.Errorf("got %v, want NOT_FOUND of %s", body, servertest.Web)
		}
	}
	wantUnknown(s.Ask(t, http.MethodGet, path, nil))
	wantUnknown(s.Ask(t, http.MethodDelete, path, nil))
	wantUnknown(s.Ask(t, http.MethodGet, path+"/decisions", nil))
	id := s.Recommend(t, servertest.WebRequest(t, servertest.WithID("a"))).GetRecommendationId()
	s.Recommend(t, servertest.WebRequest(t))
	s.Ask(t, http.MethodDelete, path, nil).Expect(t, http.StatusOK)
	wantUnknown(s.Ask(t, http.MethodGet, path, nil))
	wantUnknown(s.Ask(t, http.MethodDelete, path, nil))
	wantUnknown(s.Ask(t, http.MethodGet, path+"/decisions", nil))
	wantUnknown(s.Ask(t, http.MethodPost, path+":reportScale", map[string]any{"recommendationId": id, "outcome": "APPLIED"}))
	list := s.Ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets", nil).Expect(t, http.StatusOK)
	if got := servertest.At(list, "targets").([]any); len(got) != 0 {
		t.Errorf("the list still has %v", got)
	}
	// The target starts again: neither the answer nor the decisions are kept.
	if again := s.Recommend(t, servertest.WebRequest(t, servertest.WithID("a"))); again.GetRecommendationId() == id {
		t.Error("the answer to a request id outlived its target")
	}
	if got := len(s.Decisions(t, servertest.Web)); got != 1 {
		t.Errorf("the log has %d decisions, want the one since", got)
	}
}

func TestUnknownPathsAndMethodsAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, tt := range []struct {
		method, path string
		code         int
		rpc          codes.Code
		allow        string
	}{
		{"GET", "/nowhere", 404, codes.NotFound, ""},
		{"GET", "/v2/" + servertest.Web, 404, codes.NotFound, ""},
		{"POST", "/v1/targets:recommend", 404, codes.NotFound, ""},
		{"POST", "/", 405, codes.Unimplemented, "GET, HEAD"},
		{"GET", "/ui/", 404, codes.NotFound, ""}, // no page is configured
		{"POST", "/docs", 405, codes.Unimplemented, "GET, HEAD"},
		{"DELETE", "/docs/", 405, codes.Unimplemented, "GET, HEAD"},
		{"POST", "/docs/swagger-ui.css", 405, codes.Unimplemented, "GET, HEAD"},
		{"PUT", "/openapi.json", 405, codes.Unimplemented, "GET, HEAD"},
		{"POST", "/healthz", 405, codes.Unimplemented, "GET, HEAD"},
		{"POST", "/readyz", 405, codes.Unimplemented, "GET, HEAD"},
	} {
		a := s.Ask(t, tt.method, tt.path, nil)
		if got := a.Header.Get("Allow"); got != tt.allow {
			t.Errorf("%s %s: allowed are %q, want %q", tt.method, tt.path, got, tt.allow)
		}
		if a.Code != tt.code || servertest.At(a.Body, "code") != float64(tt.rpc) || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got HTTP %d %s %s, want %d and the code %d in JSON", tt.method, tt.path, a.Code, a.Header.Get("Content-Type"), a.Raw, tt.code, tt.rpc)
		}
	}
}

// HEAD is answered as GET is, without the body, which a stream does not end; and no answer has headers of gRPC's.
func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.WebRequest(t))
	asked, found := 0, 0
	for _, r := range contractRoutes(t, servertest.Web) {
		if r.method != http.MethodGet || strings.Contains(r.path, ":watch") {
			continue
		}
		get, head := s.Ask(t, http.MethodGet, r.path, nil), s.Ask(t, http.MethodHead, r.path, nil)
		if asked++; get.Code == http.StatusOK {
			found++
		}
		if head.Code != get.Code || len(head.Raw) != 0 {
			t.Errorf("HEAD %s: HTTP %d %s, GET has %d", r.path, head.Code, head.Raw, get.Code)
		}
		for _, a := range []*servertest.Answer{get, head} {
			for _, name := range []string{"Date", "X-Request-Id", "Content-Length"} { // which may differ
				a.Header.Del(name)
			}
		}
		if !reflect.DeepEqual(get.Header, head.Header) {
			t.Errorf("HEAD %s: headers %v, GET has %v", r.path, head.Header, get.Header)
		}
		for name := range get.Header {
			if strings.HasPrefix(name, "Grpc-") {
				t.Errorf("GET %s: has the header %s", r.path, name)
			}
		}
	}
	if asked < 10 || found < 4 {
		t.Errorf("only %d routes, %d of them found something", asked, found)
	}
}

// A forgotten POST is not taken for a call about a target with a colon in its name.
func TestEveryPathSaysWhichMethodsItTakes(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	served := map[string][]string{}
	for _, r := range contractRoutes(t, "") {
		path, _, _ := strings.Cut(r.path, "?")
		served[path] = append(served[path], r.method)
	}
	for path, methods := range served {
		if slices.Contains(methods, http.MethodGet) && !strings.HasSuffix(path, ":watch") {
			methods = append(methods, http.MethodHead)
		}
		slices.Sort(methods)
		methods = slices.Compact(methods)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(methods, method) {
				continue
			}
			for _, body := range []any{nil, servertest.WebBody} {
				a := s.Ask(t, method, path, body)
				if got, want := a.Header.Get("Allow"), strings.Join(methods, ", "); a.Code != http.StatusMethodNotAllowed || got != want {
					t.Errorf("%s %s: HTTP %d, allowed are %q, want 405 and %q", method, path, a.Code, got, want)
				}
				if want := "use " + strings.Join(methods, " or "); method != "HEAD" && !strings.Contains(string(a.Raw), want) {
					t.Errorf("%s %s: told %s, want %q", method, path, a.Raw, want)
				}
				listed := strings.Contains(string(a.Raw), "overrides are listed by GET /v1/clusters/")
				if want := method == "GET" && strings.Contains(path, "/namespaces/") && strings.HasSuffix(path, "/overrides"); listed != want {
					t.Errorf("%s %s: told %s", method, path, a.Raw)
				}
			}
		}
		// No method is served under a verb that does not exist.
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			a := s.Ask(t, method, path+":recomend", nil)
			if a.Code != http.StatusBadRequest && a.Code != http.StatusNotFound || !strings.Contains(string(a.Raw), "see /docs") {
				t.Errorf("%s %s:recomend: HTTP %d %s", method, path, a.Code, a.Raw)
			}
		}
	}
}

// The error lists everything that may follow a target.
func TestAPathThatNamesNoTarget(t *testing.T) {
	t.Parallel()
	a := servertest.Start(t).Ask(t, "GET", "/v1/clusters/demo/shop/web", nil)
	const want = "followed by nothing, /decisions, /decisions:watch, /fleet, /overrides, /recommendation, /recording, /spec, /spec:promoteShadow, :recommend, :reportObservation or :reportScale; see /docs"
	if !strings.Contains(string(a.Raw), want) {
		t.Errorf("told %s, want %q", a.Raw, want)
	}
}

// A slip in a path is answered with the path that was meant.
func TestPathsThatAreNearlyRight(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, tt := range []struct{ method, path, meant string }{
		{"POST", "/v1/" + servertest.Web + ":recomend", "/v1/" + servertest.Web + ":recommend"},
		{"GET", "/v1/" + servertest.Web + ":Recommend", "/v1/" + servertest.Web + ":recommend"},
		{"POST", "/v1/" + servertest.Web + "/recommend", "/v1/" + servertest.Web + ":recommend"},
		{"GET", "/v1/" + servertest.Web + "/decision", "/v1/" + servertest.Web + "/decisions"},
		{"GET", "/v1/" + servertest.Web + "/decisions:wach", "/v1/" + servertest.Web + "/decisions:watch"},
		{"GET", "/v1/clusters/demo/namespaces/shop/target", "/v1/clusters/demo/namespaces/shop/targets"},
		{"POST", "/v1/target:batchRecommend", "/v1/targets:batchRecommend"},
		{"GET", "/v1/" + servertest.Web + "/", ""},
		{"GET", "/v1/" + servertest.Web + "/nothing:else", ""},
		{"POST", "/v1/" + servertest.Web + ":" + strings.Repeat("recommend", 100), ""},
	} {
		a := s.Ask(t, tt.method, tt.path, nil)
		told, _ := servertest.At(a.Body, "message").(string)
		if _, meant, _ := strings.Cut(told, "did you mean "); a.Header.Get("Allow") != "" || a.Code/100 != 4 || strings.TrimSuffix(meant, "?") != quoted(tt.meant) {
			t.Errorf("%s %s: HTTP %d, allowed are %q: %s, want that %q is meant", tt.method, tt.path, a.Code, a.Header.Get("Allow"), a.Raw, tt.meant)
		}
	}
}

// quoted is a text as errors have it, "" for none.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return strconv.Quote(text)
}

func TestDocumentationIsServed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, path := range []string{"/docs", "/docs/"} {
		page := s.Ask(t, http.MethodGet, path, nil)
		page.Expect(t, http.StatusOK)
		if text := string(page.Raw); !strings.Contains(text, "<html") || !strings.Contains(text, `"page.js"`) {
			t.Errorf("%s is no page with a script of ours: %s", path, text)
		}
	}
	if text := string(s.Ask(t, http.MethodGet, "/docs/page.js", nil).Raw); !strings.Contains(text, "/openapi.json") {
		t.Errorf("the page does not show /openapi.json: %s", text)
	}
	for _, asset := range []string{"/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"} {
		if a := s.Ask(t, http.MethodGet, asset, nil); a.Code != http.StatusOK || len(a.Raw) == 0 {
			t.Errorf("%s: HTTP %d, %d bytes", asset, a.Code, len(a.Raw))
		}
	}
	var document struct {
		Paths map[string]map[string]any
	}
	fatal.If(t, json.Unmarshal(s.Ask(t, http.MethodGet, "/openapi.json", nil).Raw, &document))
	const target = "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}"
	for _, r := range []struct{ method, path string }{
		{"post", target + ":recommend"},
		{"post", "/v1/targets:batchRecommend"},
		{"post", target + ":reportScale"},
		{"get", target},
		{"delete", target},
		{"get", "/v1/clusters/{cluster}/namespaces/{namespace}/targets"},
		{"get", target + "/decisions"},
		{"get", target + "/decisions:watch"},
		{"post", "/v1/simulations:run"},
	} {
		if document.Paths[r.path][r.method] == nil {
			t.Errorf("openapi.json does not mention %s %s", r.method, r.path)
		}
	}
}

// Whatever finds it, the JSON or the rules, a problem of the body is named by its path in the body. Over gRPC it is the
// path in the request.
func TestProblemsAreNamedByTheirPathsInTheBody(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	calls := map[string]struct{ body, field, start string }{
		http.MethodPost + " /v1/clusters/demo/overrides?overrideId=a": {`{"pin":-1,"reason":"r","expireTime":"2100-01-01T00:00:00Z"}`, "pin", "invalid request: pin: must be"},
		http.MethodPost + " /v1/clusters/demo/overrides?overrideId=b": {`{"reason":"r","expireTime":"2026-01-01T01:00:00Z"}`, "", "invalid request: Required value: must have at least one of hold"},
		http.MethodPost + " /v1/clusters/demo/overrides?overrideId=c": {`{"pin":true}`, "pin", "invalid request: pin: must be"},
		http.MethodPost + " /v1/clusters/demo/overrides?overrideId=d": {`{"override":{"pin":1}}`, "override", "invalid request: override: unknown field"},
		http.MethodPut + " /v1/" + servertest.Web + "/spec":           {`{"spec":{"maxReplicas":0}}`, "spec.maxReplicas", "invalid request: spec.maxReplicas: Required value"},
		http.MethodPut + " /v1/" + servertest.Polled + "/spec":        {`{"spec":{"maxReplicas":true}}`, "spec.maxReplicas", "invalid request: spec.maxReplicas: must be"},
		http.MethodPost + " /v1/" + servertest.Web + ":reportScale":   {`{"outcome":"APPLIED"}`, "recommendationId", "invalid request: recommendationId: "},
	}
	for call, want := range calls {
		method, path, _ := strings.Cut(call, " ")
		a := s.Ask(t, method, path, want.body)
		a.Expect(t, http.StatusBadRequest)
		got := a.Problem(t)
		servertest.WantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
		if !slices.Contains(got.Fields, want.field) || !strings.HasPrefix(got.Message, want.start) {
			t.Errorf("%s %s: %q of %q, want %q of %q", call, want.body, got.Message, got.Fields, want.start, want.field)
		}
	}
}

// A client follows a redirect with the same method: without its empty name, the path of a spec is that of a target
// called "spec".
func TestAnEmptyNameInAPathIsNoOtherResource(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, r := range contractRoutes(t, "") {
		path, query, _ := strings.Cut(r.path, "?")
		for i := range path {
			if path[i] != '/' {
				continue
			}
			a := s.Ask(t, r.method, path[:i]+"/"+path[i:]+"?"+query, r.body)
			if a.Code != http.StatusBadRequest && a.Code != http.StatusNotFound || !strings.Contains(string(a.Raw), "see /docs") {
				t.Errorf("%s %s/%s: HTTP %d %s", r.method, path[:i], path[i:], a.Code, a.Raw)
			}
		}
	}
	const spec = "/v1/clusters/demo/namespaces/shop/targets//spec"
	if a := s.Ask(t, http.MethodDelete, spec, nil); a.Code != http.StatusBadRequest || !strings.Contains(string(a.Raw), "no segment empty") {
		t.Errorf("DELETE %s: HTTP %d %s", spec, a.Code, a.Raw)
	}
}
