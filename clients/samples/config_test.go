package samples

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

func TestTheFileOfSources(t *testing.T) {
	got, err := ParseConfig([]byte(`
sources:
  prom:
    prometheus:
      url: https://prometheus:9090
      headers: {X-Scope-OrgID: shop}
      headerFiles: {X-API-Key: /run/secrets/key}
      bearerTokenFile: /run/secrets/token
      tls: {caFile: /ca.crt, certFile: /tls.crt, keyFile: /tls.key, serverName: prom}
    timeout: 2s
    concurrency: 4
    reuse: 0s
    maxBytes: 65536
    maxSeries: 10
`))
	fatal.If(t, err)
	want := Config{Sources: map[string]Source{"prom": {
		Prometheus: &Prometheus{
			URL: "https://prometheus:9090", Headers: map[string]string{"X-Scope-OrgID": "shop"},
			HeaderFiles: map[string]string{"X-API-Key": "/run/secrets/key"}, BearerTokenFile: "/run/secrets/token",
			TLS: &TLS{CAFile: "/ca.crt", CertFile: "/tls.crt", KeyFile: "/tls.key", ServerName: "prom"},
		},
		Timeout: Duration(2 * time.Second), Concurrency: 4, Reuse: new(Duration), MaxBytes: 65536, MaxSeries: 10,
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWhatIsNotSetHasDefaults(t *testing.T) {
	c, err := ParseConfig([]byte(`{"sources": {"prom": {"prometheus": {"url": "http://prometheus:9090"}}}}`))
	fatal.If(t, err)
	s := c.Sources["prom"].withDefaults()
	if s.Timeout != Duration(DefaultTimeout) || s.Concurrency != DefaultConcurrency || *s.Reuse != Duration(DefaultReuse) ||
		s.MaxBytes != DefaultMaxBytes || s.MaxSeries != DefaultMaxSeries {
		t.Errorf("got %+v", s)
	}
}

func TestSourcesThatCanNotBe(t *testing.T) {
	source := func(lines string) string {
		return "sources: {prom: {prometheus: {url: 'https://p:1'}, " + lines + "}}"
	}
	server := func(lines string) string { return "sources: {prom: {prometheus: {" + lines + "}}}" }
	for _, c := range []struct{ name, file, want string }{
		{"no document", "a: b: c", "neither YAML nor JSON"},
		{"a list", "[1, 2]", "must be a mapping of keys to values"},
		{"an unknown key", "source: {}", "source: there is no such key; did you mean sources?"},
		{"an unknown key within", server("url: 'https://p', bearer: x"), "sources.prom.prometheus.bearer: there is no such key; the keys are url,"},
		{"a key twice", "sources: {}\nsources: {}", "sources: is a duplicate key, first in line 1"},
		{"a bad name", "sources: {Prom_1: {prometheus: {url: 'https://p'}}}", "sources.Prom_1: the name of a source has lower-case letters"},
		{"no kind", "sources: {prom: {timeout: 1s}}", "sources.prom: must have exactly one of"},
		{"two kinds", source("http: {url: 'https://p'}"), "sources.prom: must have exactly one of"},
		{"what is wrong with the other kind", "sources: {api: {http: {}}}", "sources.api.http.url: is required"},
		{"no url", server(""), "sources.prom.prometheus.url: is required"},
		{"no scheme", server("url: 'prometheus:9090'"), "url: must begin with https:// or http://"},
		{"another scheme", server("url: 'file:///etc/passwd'"), "url: must begin with"},
		{"no host", server("url: 'https:///api'"), "url: has no host"},
		{"a password", server("url: 'https://u:geheim@p'"), "url: must not contain a user or password"},
		{"a fragment", server("url: 'https://p/#x'"), "url: must end after"},
		{"a path that climbs", server("url: 'https://p/a/../b'"), "url: must not contain .."},
		{"no URL", server("url: 'https://p geheim/%zz'"), "url: must be a URL"},
		{"credentials in the clear", server("url: 'http://p', bearerTokenFile: /t"), "url: is http, and credentials would travel in the clear"},
		{"keys in the clear", server("url: 'http://p', headerFiles: {X-Key: /t}"), "url: is http, and credentials"},
		{"TLS without TLS", server("url: 'http://p', tls: {caFile: /ca}"), "tls: requires an https url"},
		{"half a certificate", server("url: 'https://p', tls: {certFile: /c}"), "tls.certFile: and keyFile belong together"},
		{"two credentials", server("url: 'https://p', bearerTokenFile: /t, basicAuthFile: /b"), "basicAuthFile: and bearerTokenFile exclude"},
		{"two authorizations", server("url: 'https://p', bearerTokenFile: /t, headerFiles: {authorization: /b}"), "headerFiles.authorization: and bearerTokenFile"},
		{"a credential in the file", server("url: 'https://p', headers: {authorization: geheim}"), "headers.authorization: would keep a credential"},
		{"a header of the transport", server("url: 'https://p', headers: {Host: x}"), "headers.Host: belongs to the transport"},
		{"a header that is none", server("url: 'https://p', headers: {'a b': x}"), `headers: "a b" is not a header name`},
		{"a header of two lines", server(`url: 'https://p', headers: {a: "x\ny"}`), "headers.a: must not contain control characters"},
		{"a header twice", server("url: 'https://p', headers: {a: x}, headerFiles: {A: /x}"), "headers.a: is also in headerFiles"},
		{"a header of no file", server("url: 'https://p', headerFiles: {a: ''}"), "headerFiles.a: must name a file"},
		{"a number as duration", source("timeout: 5"), "timeout: must be a duration such as 15s"},
		{"a negative timeout", source("timeout: -1s"), "timeout: must be between 0s"},
		{"a long timeout", source("timeout: 2m"), "timeout: must be between"},
		{"a negative reuse", source("reuse: -1s"), "reuse: must be between"},
		{"a large limit", source("concurrency: 1001"), "concurrency: must be between 0"},
		{"a fraction", source("concurrency: 1.5"), "concurrency: must be a whole number"},
		{"a huge answer", source("maxBytes: 1000000000"), "maxBytes: must be between"},
		{"negative", source("maxSeries: -1"), "maxSeries: must be between"},
		{"keys for a value", source("timeout: {a: b}"), "timeout: must be one value"},
		{"a value for keys", "sources: 5", "sources: must be names with values"},
		{"all that is wrong", source("timeout: x, concurrency: y"), "concurrency: must be a whole number; sources.prom.timeout: must be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseConfig([]byte(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "geheim") {
				t.Errorf("the error quotes a password: %v", err)
			}
		})
	}
	if _, err := ParseConfig([]byte(strings.Repeat("#", document.MaxBytes+1))); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("a huge file: %v", err)
	}
	if _, err := New(Config{Sources: map[string]Source{"p": {}}}, Options{}); err == nil {
		t.Error("New took a source of no kind")
	}
}

// parseQuery reads a query of labels, of a policy block or of a document, as settings do.
func parseQuery(fields map[string]any) (q Query, err error) {
	var p typed.Problems
	p.Fill("", fields, &q)
	return q, p.Err()
}

func TestQueriesComeAsLabelsOrAsPolicyBlocks(t *testing.T) {
	want := Query{Source: "prom", Query: "up", Window: Duration(time.Minute), EmptyIsZero: true}
	for _, c := range []struct {
		name string
		from map[string]any
	}{
		{"labels are texts", map[string]any{"source": "prom", "query": "up", "window": "1m", "emptyIsZero": "true"}},
		{"a document has types", map[string]any{"source": "prom", "query": "up", "window": "60s", "emptyIsZero": true, "podLabel": nil}},
		{"a policy block wraps all in lists", map[string]any{"source": []any{"prom"}, "query": "up", "window": []any{"1m"}, "emptyIsZero": []any{true}}},
	} {
		if got, err := parseQuery(c.from); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
	if got, err := parseQuery(map[string]any{"query": 5.0, "source": 1 << 40}); err != nil || got.Query != "5" || got.Source != "1099511627776" {
		t.Errorf("numbers where texts are: %+v, %v", got, err)
	}
	for _, c := range []struct {
		name string
		from map[string]any
		want string
	}{
		{"an unknown key", map[string]any{"qurey": "up"}, "qurey: there is no such key; did you mean query?"},
		{"no truth", map[string]any{"emptyIsZero": "yes"}, "emptyIsZero: must be true or false"},
		{"a list of two", map[string]any{"query": []any{"a", "b"}}, "query: must be one value"},
		{"a long text", map[string]any{"query": strings.Repeat("x", 16<<10+1)}, "query: is longer than"},
		{"all that is wrong", map[string]any{"window": "x", "pod": "y"}, "window: must be a duration such as 15s or 1m30s"},
	} {
		if _, err := parseQuery(c.from); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestQueriesThatCanNotBe(t *testing.T) {
	set := promSource(t, "http://localhost")
	for _, c := range []struct {
		name  string
		query Query
		want  string
	}{
		{"no source", Query{Query: "up"}, "source: is required: the sources are prom"},
		{"an unknown source", Query{Source: "redis", Query: "up"}, `source: there is no source "redis"; the sources are prom`},
		{"no query", promQuery(""), "query: is required"},
		{"a long query", promQuery(strings.Repeat("x", source.MaxQueryLength+1)), "query: is longer than 4096 bytes"},
		{"no label", promQuery("up", func(q *Query) { q.PodLabel = "pod-name" }), "podLabel: must be the name of a label"},
		{"no label of containers", promQuery("up", func(q *Query) { q.PodLabel, q.ContainerLabel = "pod", "c-name" }), "containerLabel: must be the name of a label"},
		{"containers of no pod", promQuery("up", func(q *Query) { q.ContainerLabel = "c" }), "podLabel: is required with containerLabel"},
		{"zero for pods", promQuery("up", ofPods, func(q *Query) { q.EmptyIsZero = true }), "emptyIsZero: does not apply to values of pods"},
		{"a negative window", promQuery("up", func(q *Query) { q.Window = -1 }), "window: must be between"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := set.CheckQuery(c.query)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if _, asked := set.Samples(t.Context(), c.query); asked == nil || asked.Error() != err.Error() {
				t.Errorf("Samples: %v", asked)
			}
		})
	}
	if err := newSet(t, Config{}).CheckQuery(promQuery("up")); err == nil || !strings.Contains(err.Error(), "none is configured (--sources-file)") {
		t.Errorf("without sources: %v", err)
	}
}
