package server_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/integration"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// served is a route of REST about the target polled.
type served struct {
	rpc, method, path string
	// query are the parameters of the message that have a simple type.
	query string
}

// everyRoute returns all routes: of all methods of the contract, by its descriptors, and of other
// systems' contracts.
func everyRoute(tb testing.TB) (routes []served) {
	tb.Helper()
	for _, m := range servertest.Methods() {
		for _, r := range servertest.Routes(m, servertest.Polled) {
			routes = append(routes, served{string(m.Parent().Name() + "." + m.Name()), r.Method, r.Path, simpleQuery(m, r.Template)})
		}
	}
	for name := range integration.Contracts {
		routes = append(routes, served{"integrations." + name, http.MethodPost, "/v1/integrations/" + name + "/clusters/demo", ""})
	}
	if len(routes) < 20 {
		tb.Fatalf("only %d routes", len(routes))
	}
	return routes
}

// simpleQuery gives each number of a request a value, and each flag. A stream gets a token that
// ends it.
func simpleQuery(m protoreflect.MethodDescriptor, template string) string {
	query := url.Values{}
	for i := range m.Input().Fields().Len() {
		switch f := m.Input().Fields().Get(i); {
		case f.Cardinality() == protoreflect.Repeated:
		case f.Kind() == protoreflect.Int32Kind:
			query.Set(f.JSONName(), "3")
		case f.Kind() == protoreflect.BoolKind:
			query.Set(f.JSONName(), "true")
		case f.Kind() == protoreflect.StringKind && m.IsStreamingServer() && !strings.Contains(template, "{"+string(f.Name())+"="):
			query.Set(f.JSONName(), "none")
		}
	}
	return query.Encode()
}

// safeEffects are the safe methods that change something, and what.
var safeEffects = map[string]string{
	"RecommendationService.GetRecommendation": "decides once a period, with the bounds of the stored spec",
}

// prepare starts a service with a stored target whose first decision is due.
func prepare(t *testing.T) *servertest.Service {
	t.Helper()
	s := servertest.Start(t)
	s.SetSpec(t, servertest.QueueSpec(1, 100))
	s.Observe(t, 2, "80")
	return s
}

// A GET changes nothing that is stored, but for what safeEffects say, and no cache may keep its answer.
func TestSafeMethodsChangeNothing(t *testing.T) {
	t.Parallel()
	effects := make(map[string]bool)
	for _, r := range everyRoute(t) {
		if r.method != http.MethodGet {
			continue
		}
		s := prepare(t)
		for _, method := range []string{http.MethodHead, http.MethodGet} {
			for _, query := range []string{r.query, ""} {
				if query == "" && strings.HasSuffix(r.path, ":watch") {
					continue // it would not end
				}
				before := s.Contents(t)
				if a := s.Ask(t, method, r.path+"?"+query, nil); a.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s %s: a cache may keep the answer: %v", method, r.path, a.Header)
				}
				if s.Contents(t) == before {
					continue
				}
				if effects[r.rpc] {
					t.Errorf("%s %s?%s: changed what is stored a second time", method, r.path, query)
				}
				effects[r.rpc] = true
				if safeEffects[r.rpc] == "" {
					t.Errorf("%s %s?%s: changed what is stored; is it a safe method?", method, r.path, query)
				}
			}
		}
		if r.rpc == "RecommendationService.GetRecommendation" && s.Target(t, servertest.Polled).GetStatus().GetDesiredReplicas() != 6 {
			t.Errorf("a GET with bounds recorded %v", s.Target(t, servertest.Polled).GetStatus())
		}
	}
	if got, want := slices.Sorted(maps.Keys(effects)), slices.Sorted(maps.Keys(safeEffects)); !slices.Equal(got, want) {
		t.Errorf("changed by %q, and it is said of %q", got, want)
	}
}

// What a browser sends for another site is refused at every route, whatever its method, and has
// no effect: images, forms, scripts, and links.
func TestOtherSitesAreRefusedAtEveryRoute(t *testing.T) {
	t.Parallel()
	const evil = "https://evil.example"
	headers := map[string][]string{
		"an image":                {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
		"an image of a neighbour": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
		"a link":                  {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-User", "?1"},
		"a script":                {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", evil},
		"an old browser's script": {"Origin", evil},
		"a sandboxed frame":       {"Origin", "null"},
		"an unknown site":         {"Sec-Fetch-Site", "other-site"},
	}
	s := prepare(t)
	before := s.Contents(t)
	for _, r := range everyRoute(t) {
		methods := []string{r.method}
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for name, set := range headers {
			for _, method := range methods {
				if code := foreign(t, s, method, r.path, set); code != http.StatusForbidden {
					t.Errorf("%s by %s %s: HTTP %d, want 403", name, method, r.path, code)
				}
			}
		}
	}
	if s.Contents(t) != before {
		t.Error("what is stored was changed")
	}
	// And the page of our own, and what its user types.
	for _, site := range []string{"same-origin", "none"} {
		if code := foreign(t, s, http.MethodGet, "/v1/"+servertest.Polled+"/recommendation", []string{"Sec-Fetch-Site", site}); code != http.StatusOK {
			t.Errorf("%s: HTTP %d", site, code)
		}
	}
}

// foreign makes a call with headers, and returns the status. A stream that is opened is left at
// once; one that says nothing counts as 0.
func foreign(t *testing.T, s *servertest.Service, method, path string, headers []string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var body io.Reader
	if method == http.MethodPost || method == http.MethodPut {
		body = strings.NewReader(`{}`)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	fatal.If(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
