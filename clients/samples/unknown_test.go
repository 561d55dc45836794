package samples

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// If parts of a sum are missing, all that is known is that it is too small.
func TestASumHasAllItsParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, document, path string
		want                 []string // nil: it fails
	}{
		{"all are there", `{"q":[{"n":1},{"n":2}]}`, ".q[*].n", []string{"1", "2"}},
		{"one lacks the key", `{"q":[{"n":1},{"m":2}]}`, ".q[*].n", nil},
		{"one is null", `{"q":[{"n":1},{"n":null}]}`, ".q[*].n", nil},
		{"an element is null", `[1,null,3]`, "[*]", nil},
		{"one lacks a key on the way", `{"q":[{"s":{"n":1}},{"s":{}},{}]}`, ".q[*].s.n", nil},
		{"of a map one is null", `{"q":{"a":1,"b":null}}`, ".q.*", nil},
		{"of a slice one lacks the key", `[{"n":1},{}]`, "[0:2].n", nil},
		{"all lack the key", `{"q":[{},{}]}`, ".q[*].n", nil},
		{"what a filter leaves out is not lacking", `{"q":[{"s":"on","n":1},{"s":"off"}]}`, `{.q[?(@.s=="on")].n}`, []string{"1"}},
		{"what a filter leaves in is", `{"q":[{"s":"on","n":1},{"s":"on"}]}`, `{.q[?(@.s=="on")].n}`, nil},
		{"a bracket in the text of a filter", `{"q":[{"s":")]","n":1}]}`, `{.q[?(@.s==")]")].n}`, []string{"1"}},
		{"a name with dots, escaped", `{"a.b":{"c":[4]}}`, `{.a\.b.c[0]}`, []string{"4"}},
		{"a name in brackets", `{"a":{"c":4}}`, `$['a']['c']`, []string{"4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(body(c.document))
			t.Cleanup(server.Close)
			set := newSet(t, Config{Sources: map[string]Source{"api": {HTTP: &HTTP{URL: server.URL}}}})
			for _, emptyIsZero := range []bool{false, true} {
				got, err := set.Samples(t.Context(), Query{Source: "api", ValuePath: c.path, EmptyIsZero: emptyIsZero})
				if c.want == nil {
					wantFailure(t, err, Invalid, "their sum would be too small")
				} else if err != nil || !slices.Equal(values(got), c.want) {
					t.Errorf("got %v, %v; want %v", values(got), err, c.want)
				}
			}
		})
	}
}

// emptyIsZero with a selector: zero if nothing matches, an error if the query lost the labels
// that the selector uses.
func TestNothingSelectedIsZeroWhereEmptyIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string // want empty: it fails
		series     []string
		zero       bool
	}{
		{"an empty result", "0", nil, true},
		{"an empty result that is an error", "", nil, false},
		{"series of others", "0", []string{series("5", "queue", "mails")}, true},
		{"series of others, and empty is an error", "", []string{series("5", "queue", "mails")}, false},
		{"series without the label", "", []string{series("5", "host", "a")}, true},
		{"the series", "7", []string{series("5", "queue", "mails"), series("7", "queue", "jobs")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			prom := newFakeProm(t, vectorOf(c.series...))
			set := promSource(t, prom.URL)
			spec := external("depth")
			spec.External.Metric.Selector = &setpointv1.LabelSelector{MatchLabels: map[string]string{"queue": "jobs"}}
			read := set.Read(t.Context(), []Metric{{Spec: spec, Query: promQuery("depth", func(q *Query) { q.EmptyIsZero = c.zero })}}, nil)
			switch {
			case c.want == "" && len(read.MetricErrors) != 1, c.want != "" && len(read.ExternalMetrics) != 1:
				t.Fatalf("got %v", read)
			case c.want != "" && read.ExternalMetrics[0].GetValue() != c.want:
				t.Errorf("got %s, want %s", read.ExternalMetrics[0].GetValue(), c.want)
			}
		})
	}
}

// Readers of a status see neither the operator's configuration nor the server's data.
func TestErrorsQuoteNeitherFilesNorAnswers(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	lines := newFakeProm(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s without a colon\r\n\r\n", secret)
		_ = conn.Close()
	})
	files := t.TempDir() + "/" + secret
	for name, of := range map[string]Source{
		"a malformed header":  {Prometheus: &Prometheus{URL: lines.URL}},
		"a missing key pair":  {Prometheus: &Prometheus{URL: "https://127.0.0.1:1", TLS: &TLS{CertFile: files + ".crt", KeyFile: files + ".key"}}},
		"a missing authority": {Prometheus: &Prometheus{URL: "https://127.0.0.1:1", TLS: &TLS{CAFile: files + ".ca"}}},
		"an unknown host":     {Prometheus: &Prometheus{URL: "http://" + secret + ".invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := newSet(t, Config{Sources: map[string]Source{"prom": of}})
			_, err := set.Samples(t.Context(), promQuery("up"))
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOtherErrorsOfConnectionsAreNotQuoted(t *testing.T) {
	t.Parallel()
	if f := source.Classify(errors.New(`malformed HTTP response "s3cret"`)); f.Outcome != Unreachable || strings.Contains(f.Message, "s3cret") {
		t.Errorf("got %+v", f)
	}
	if f := source.Classify(fmt.Errorf("s3cret: %w", context.Canceled)); f.Outcome != Cancelled {
		t.Errorf("got %+v", f)
	}
}

// A query's author chooses texts in errors, so they are bounded.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	fields := map[string]any{}
	for i := range 10_000 {
		fields[fmt.Sprintf("nonsense%d", i)] = "x"
	}
	_, err := parseQuery(fields)
	var all *typed.Error
	if !errors.As(err, &all) || len(all.Problems) != 20 {
		t.Errorf("%d problems, %d bytes", len(all.Problems), len(err.Error()))
	}
}
