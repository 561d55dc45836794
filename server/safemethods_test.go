package server_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/setpoint-dev/setpoint/server/integration"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// contents is everything in the service's store: records of all parts and logs, as text.
func (s *service) contents(tb testing.TB) string {
	tb.Helper()
	var all strings.Builder
	dump := func(name string, engine store.Store) {
		keys, err := engine.List(tb.Context(), store.Filter{}, store.Key{}, 1000)
		if err != nil {
			tb.Fatal(err)
		}
		for _, key := range keys {
			record, err := engine.Load(tb.Context(), key)
			if err != nil {
				tb.Fatal(err)
			}
			entries, _, err := s.memory.ReadLog(tb.Context(), key, "", 1000)
			if err != nil {
				tb.Fatal(err)
			}
			fmt.Fprintf(&all, "%s %s: %q %q\n", name, key, record.Value, entries)
		}
	}
	dump("history", s.memory)
	for part, ttl := range stored.Lives {
		records, err := s.memory.Part(part, ttl)
		if err != nil {
			tb.Fatal(err)
		}
		dump(string(part), records)
	}
	lines := strings.Split(all.String(), "\n")
	slices.Sort(lines) // parts are in no order
	return strings.Join(lines, "\n")
}

// served is a route of REST about the target polled.
type served struct {
	rpc, method, path string
	// query are the parameters of the message that have a simple type.
	query string
}

// templateVariable matches a variable of a route's template, such as {name=clusters/*}.
var templateVariable = regexp.MustCompile(`\{(\w+)=([^}]*)\}`)

// everyRoute returns all routes: of all methods of the contract, by its descriptors, and of other
// systems' contracts.
func everyRoute(tb testing.TB) (routes []served) {
	tb.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage("setpoint.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
				if rule == nil {
					continue // gRPC only
				}
				for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
					r.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
						if f.ContainingOneof() != nil { // the pattern: get, post, …
							path := templateVariable.ReplaceAllString(v.String(), "$2")
							for collection, name := range map[string]string{"clusters": "demo", "namespaces": "shop", "targets": "polled"} {
								path = strings.ReplaceAll(path, collection+"/*", collection+"/"+name)
							}
							if strings.Contains(path, "*") {
								tb.Fatalf("%s: no name for %s", m.FullName(), path)
							}
							routes = append(routes, served{
								rpc: string(m.Parent().Name() + "." + m.Name()), method: strings.ToUpper(string(f.Name())), path: path,
								query: simpleQuery(m, v.String()),
							})
						}
						return true
					})
				}
			}
		}
		return true
	})
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
func prepare(t *testing.T) *service {
	t.Helper()
	s := start(t)
	s.setSpec(t, queueSpec(1, 100))
	s.observe(t, 2, "80")
	return s
}

// A GET changes nothing that is stored, but for what safeEffects say.
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
				before := s.contents(t)
				s.ask(t, method, r.path+"?"+query, nil)
				if s.contents(t) == before {
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
		if r.rpc == "RecommendationService.GetRecommendation" && s.target(t, polled).GetStatus().GetDesiredReplicas() != 6 {
			t.Errorf("a GET with bounds recorded %v", s.target(t, polled).GetStatus())
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
	before := s.contents(t)
	for _, r := range everyRoute(t) {
		methods := []string{r.method}
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for name, set := range headers {
			for _, method := range methods {
				if code := s.foreign(t, method, r.path, set); code != http.StatusForbidden {
					t.Errorf("%s by %s %s: HTTP %d, want 403", name, method, r.path, code)
				}
			}
		}
	}
	if s.contents(t) != before {
		t.Error("what is stored was changed")
	}
	// And the page of our own, and what its user types.
	for _, site := range []string{"same-origin", "none"} {
		if code := s.foreign(t, http.MethodGet, "/v1/"+polled+"/recommendation", []string{"Sec-Fetch-Site", site}); code != http.StatusOK {
			t.Errorf("%s: HTTP %d", site, code)
		}
	}
}

// foreign makes a call with headers, and returns the status. A stream that is opened is left at
// once; one that says nothing counts as 0.
func (s *service) foreign(t *testing.T, method, path string, headers []string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var body io.Reader
	if method == http.MethodPost || method == http.MethodPut {
		body = strings.NewReader(`{}`)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
