package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
		{"RecommendationService.Recommend", "POST", "/v1/" + web + ":recommend", webBody, 200, "desiredReplicas"},
		{"RecommendationService.BatchRecommend", "POST", "/v1/targets:batchRecommend", &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{webRequest(tb)}}, 200, "results"},
		{"RecommendationService.ReportScale", "POST", "/v1/" + web + ":reportScale", map[string]any{"recommendationId": id, "outcome": "APPLIED"}, 200, "status"},
		{"TargetService.GetTarget", "GET", "/v1/" + web, nil, 200, "lastDecision"},
		{"TargetService.ListTargets", "GET", "/v1/clusters/demo/namespaces/shop/targets", nil, 200, "targets"},
		{"TargetService.ListTargets", "GET", "/v1/clusters/-/namespaces/-/targets?pageSize=1", nil, 200, "targets"},
		{"TargetService.ListDecisions", "GET", "/v1/" + web + "/decisions?pageSize=1", nil, 200, "decisions"},
		{"TargetService.WatchDecisions", "GET", "/v1/" + web + "/decisions:watch?resumeToken=none", nil, 400, "error"}, // else it does not end
		{"SimulationService.Simulate", "POST", "/v1/simulations:run", "{}", 400, "error"},
		{"OperationsService.GetCaller", "GET", "/v1/caller", nil, 200, "permissions"},
		{"OperationsService.ListInstances", "GET", "/v1/instances", nil, 200, "instances"},
		{"OperationsService.GetStore", "GET", "/v1/store", nil, 200, "kind"},
		{"OperationsService.ListCallers", "GET", "/v1/callers?pageSize=1", nil, 200, "callers"},
		{"TargetService.DeleteTarget", "DELETE", "/v1/" + web, nil, 200, ""},
		{"TargetService.SetTargetSpec", "PUT", "/v1/" + web + "/spec", queueSpec(1, 10), 200, "spec"},
		{"TargetService.GetTargetSpec", "GET", "/v1/" + web + "/spec", nil, 404, "message"},
		{"TargetService.ListTargetSpecs", "GET", "/v1/clusters/demo/namespaces/-/targetSpecs", nil, 200, "targetSpecs"},
		{"TargetService.DeleteTargetSpec", "DELETE", "/v1/" + web + "/spec", nil, 404, "message"},
		{"RecommendationService.ReportObservation", "POST", "/v1/" + web + ":reportObservation", map[string]any{"noPods": true}, 200, "storedBytes"},
		{"RecommendationService.GetRecommendation", "GET", "/v1/" + web + "/recommendation", nil, 404, "message"},
	}
}

func TestEveryRouteOfTheContractIsServed(t *testing.T) {
	t.Parallel()
	for i, r := range contractRoutes(t, "") {
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			r := contractRoutes(t, s.recommend(t, webRequest(t)).GetRecommendationId())[i]
			body := s.ask(t, r.method, r.path, r.body).expect(t, r.code)
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
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_recommendation_service_proto,
		setpointv1.File_setpoint_v1_target_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto,
		setpointv1.File_setpoint_v1_operations_service_proto,
	} {
		methods := file.Services().Get(0).Methods()
		for i := range methods.Len() {
			name := string(file.Services().Get(0).Name() + "." + methods.Get(i).Name())
			annotated := proto.HasExtension(methods.Get(i).Options(), annotations.E_Http)
			if annotated != slices.Contains(rpcs, name) {
				t.Errorf("%s: REST annotation %t, in the contract's routes %t", name, annotated, !annotated)
			}
		}
	}
}

func TestPathsSetTheTargetWhateverTheBodySays(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ask(t, http.MethodPost, recommendPath(web), webRequest(t, withTarget("clusters/other/namespaces/shop/targets/web"))).expect(t, http.StatusOK)
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusOK)
	s.ask(t, http.MethodGet, "/v1/clusters/other/namespaces/shop/targets/web", nil).expect(t, http.StatusNotFound)
}

func TestSegmentsMayHaveEveryCharacterOfTheContract(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, target := range []string{
		"clusters/a/namespaces/b/targets/c",
		"clusters/A.z_0-9/namespaces/..../targets/-.-",
		"clusters/" + strings.Repeat("c", 253) + "/namespaces/" + strings.Repeat("n", 253) + "/targets/" + strings.Repeat("t", 253),
	} {
		s.ask(t, http.MethodPost, recommendPath(target), webBody).expect(t, http.StatusOK)
		body := s.ask(t, http.MethodGet, "/v1/"+target, nil).expect(t, http.StatusOK)
		if body["name"] != target {
			t.Errorf("the target is named %v, want %s", body["name"], target)
		}
		// As clients do that escape a parameter as a whole.
		s.ask(t, http.MethodGet, "/v1/"+url.PathEscape(target), nil).expect(t, http.StatusOK)
	}
}

func TestGetReturnsTheTargetItself(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, webRequest(t))
	a := s.ask(t, http.MethodGet, "/v1/"+web, nil)
	a.expect(t, http.StatusOK)
	overREST := &setpointv1.Target{}
	a.into(t, overREST)
	sameMessage(t, overREST, s.target(t, web))
	if overREST.GetName() != web || len(overREST.GetHistory().GetRecommendations()) != 2 || overREST.GetHistory().GetPending() == nil {
		t.Errorf("got %v, want %s with the count at first sight, one recommendation and a pending change", overREST, web)
	}
}

func TestDeleteForgetsATarget(t *testing.T) {
	t.Parallel()
	s := start(t)
	path := "/v1/" + web
	wantUnknown := func(a *answer) {
		t.Helper()
		body := a.expect(t, http.StatusNotFound)
		if body["code"] != float64(codes.NotFound) || at(body, "details", 0, "reason") != "TARGET_NOT_FOUND" ||
			at(body, "details", 0, "metadata", "target") != web {
			t.Errorf("got %v, want NOT_FOUND of %s", body, web)
		}
	}
	wantUnknown(s.ask(t, http.MethodGet, path, nil))
	wantUnknown(s.ask(t, http.MethodDelete, path, nil))
	wantUnknown(s.ask(t, http.MethodGet, path+"/decisions", nil))
	id := s.recommend(t, webRequest(t, withID("a"))).GetRecommendationId()
	s.recommend(t, webRequest(t))
	s.ask(t, http.MethodDelete, path, nil).expect(t, http.StatusOK)
	wantUnknown(s.ask(t, http.MethodGet, path, nil))
	wantUnknown(s.ask(t, http.MethodDelete, path, nil))
	wantUnknown(s.ask(t, http.MethodGet, path+"/decisions", nil))
	wantUnknown(s.ask(t, http.MethodPost, path+":reportScale", map[string]any{"recommendationId": id, "outcome": "APPLIED"}))
	list := s.ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets", nil).expect(t, http.StatusOK)
	if got := at(list, "targets").([]any); len(got) != 0 {
		t.Errorf("the list still has %v", got)
	}
	// The target starts again: neither the answer nor the decisions are kept.
	if again := s.recommend(t, webRequest(t, withID("a"))); again.GetRecommendationId() == id {
		t.Error("the answer to a request id outlived its target")
	}
	if got := len(s.decisions(t, web)); got != 1 {
		t.Errorf("the log has %d decisions, want the one since", got)
	}
}

func TestUnknownPathsAndMethodsAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct {
		method, path string
		code         int
		rpc          codes.Code
		allow        string
	}{
		{"GET", "/nowhere", 404, codes.NotFound, ""},
		{"GET", "/v2/" + web, 404, codes.NotFound, ""},
		{"POST", "/v1/targets:recommend", 404, codes.NotFound, ""},
		{"PUT", "/v1/" + web, 405, codes.Unimplemented, "DELETE, GET"},
		{"POST", "/v1/" + web, 405, codes.Unimplemented, "DELETE, GET"},
		{"PATCH", "/v1/" + web + ":recommend", 405, codes.Unimplemented, "POST"},
		{"GET", "/v1/targets:batchRecommend", 405, codes.Unimplemented, "POST"},
		{"DELETE", "/v1/clusters/demo/namespaces/shop/targets", 405, codes.Unimplemented, "GET"},
		{"POST", "/v1/" + web + "/decisions", 405, codes.Unimplemented, "GET"},
		{"POST", "/v1/" + web + "/spec", 405, codes.Unimplemented, "DELETE, GET, PUT"},
		{"GET", "/v1/simulations:run", 405, codes.Unimplemented, "POST"},
		{"POST", "/v1/" + web + "/decisions:watch", 405, codes.Unimplemented, "GET"},
		{"POST", "/", 405, codes.Unimplemented, "GET, HEAD"},
		{"GET", "/ui/", 404, codes.NotFound, ""}, // no page is configured
		{"POST", "/docs", 405, codes.Unimplemented, "GET, HEAD"},
		{"DELETE", "/docs/", 405, codes.Unimplemented, "GET, HEAD"},
		{"POST", "/docs/swagger-ui.css", 405, codes.Unimplemented, "GET, HEAD"},
		{"PUT", "/openapi.json", 405, codes.Unimplemented, "GET, HEAD"},
		{"POST", "/healthz", 405, codes.Unimplemented, "GET, HEAD"},
		{"POST", "/readyz", 405, codes.Unimplemented, "GET, HEAD"},
	} {
		a := s.ask(t, tt.method, tt.path, nil)
		if got := a.header.Get("Allow"); got != tt.allow {
			t.Errorf("%s %s: allowed are %q, want %q", tt.method, tt.path, got, tt.allow)
		}
		if a.code != tt.code || at(a.body, "code") != float64(tt.rpc) || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got HTTP %d %s %s, want %d and the code %d in JSON", tt.method, tt.path, a.code, a.header.Get("Content-Type"), a.raw, tt.code, tt.rpc)
		}
	}
}

// A forgotten POST is not taken for a call about a target with a colon in its name.
func TestEveryPathSaysWhichMethodsItTakes(t *testing.T) {
	t.Parallel()
	s := start(t)
	served := map[string][]string{}
	for _, r := range contractRoutes(t, "") {
		path, _, _ := strings.Cut(r.path, "?")
		served[path] = append(served[path], r.method)
	}
	for path, methods := range served {
		slices.Sort(methods)
		methods = slices.Compact(methods)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(methods, method) {
				continue
			}
			for _, body := range []any{nil, webBody} {
				a := s.ask(t, method, path, body)
				if got, want := a.header.Get("Allow"), strings.Join(methods, ", "); a.code != http.StatusMethodNotAllowed || got != want {
					t.Errorf("%s %s: HTTP %d, allowed are %q, want 405 and %q", method, path, a.code, got, want)
				}
				if want := "use " + strings.Join(methods, " or "); method != "HEAD" && !strings.Contains(string(a.raw), want) {
					t.Errorf("%s %s: told %s, want %q", method, path, a.raw, want)
				}
			}
		}
		// No method is served under a verb that does not exist.
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			a := s.ask(t, method, path+":recomend", nil)
			if a.code != http.StatusBadRequest && a.code != http.StatusNotFound || !strings.Contains(string(a.raw), "see /docs") {
				t.Errorf("%s %s:recomend: HTTP %d %s", method, path, a.code, a.raw)
			}
		}
	}
}

// The error lists everything that may follow a target.
func TestAPathThatNamesNoTarget(t *testing.T) {
	t.Parallel()
	a := start(t).ask(t, "GET", "/v1/clusters/demo/shop/web", nil)
	const want = "followed by nothing, /decisions, /decisions:watch, /recommendation, /spec, :recommend, :reportObservation or :reportScale; see /docs"
	if !strings.Contains(string(a.raw), want) {
		t.Errorf("told %s, want %q", a.raw, want)
	}
}

func TestDocumentationIsServed(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/docs", "/docs/"} {
		page := s.ask(t, http.MethodGet, path, nil)
		page.expect(t, http.StatusOK)
		if text := string(page.raw); !strings.Contains(text, "<html") || !strings.Contains(text, "/docs/page.js") {
			t.Errorf("%s is no page with a script of ours: %s", path, text)
		}
	}
	if text := string(s.ask(t, http.MethodGet, "/docs/page.js", nil).raw); !strings.Contains(text, "/openapi.json") {
		t.Errorf("the page does not show /openapi.json: %s", text)
	}
	for _, asset := range []string{"/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"} {
		if a := s.ask(t, http.MethodGet, asset, nil); a.code != http.StatusOK || len(a.raw) == 0 {
			t.Errorf("%s: HTTP %d, %d bytes", asset, a.code, len(a.raw))
		}
	}
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(s.ask(t, http.MethodGet, "/openapi.json", nil).raw, &document); err != nil {
		t.Fatal(err)
	}
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

func TestHealthIsServedOverBothTransports(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := s.ask(t, http.MethodGet, path, nil); a.code != http.StatusOK || string(a.raw) != "ok\n" {
			t.Errorf("%s: HTTP %d %q, want 200 ok", path, a.code, a.raw)
		}
	}
	health, err := healthv1.NewHealthClient(s.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("gRPC health: %v, %v, want SERVING", health, err)
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(s.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, service := range resp.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	for _, want := range []string{
		"setpoint.v1.RecommendationService", "setpoint.v1.TargetService", "setpoint.v1.SimulationService", "setpoint.v1.OperationsService", "grpc.health.v1.Health",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("reflection lists %v, which lacks %s", names, want)
		}
	}
}
