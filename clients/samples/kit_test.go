package samples

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// patience bounds the wait for something that must happen. It takes milliseconds on an idle
// machine.
const patience = time.Minute

// fakeProm is a Prometheus whose answers the test chooses.
type fakeProm struct {
	*httptest.Server
	handler http.HandlerFunc
	mu      sync.Mutex
	queries []string      // guarded by mu
	headers []http.Header // guarded by mu
}

func newFakeProm(t testing.TB, handler http.HandlerFunc) *fakeProm {
	f := &fakeProm{handler: handler}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = discardLog
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func (f *fakeProm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.queries = append(f.queries, r.FormValue("query"))
	f.headers = append(f.headers, r.Header.Clone())
	f.mu.Unlock()
	f.handler(w, r)
}

func (f *fakeProm) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.queries)
}

func (f *fakeProm) lastHeader() http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.headers[len(f.headers)-1]
}

// body answers JSON.
func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}
}

// result answers as Prometheus does.
func result(kind, text string) http.HandlerFunc {
	return body(`{"status":"success","data":{"resultType":"` + kind + `","result":` + text + `}}`)
}

// series is an element of a vector.
func series(value string, labels ...string) string {
	metric := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		metric[labels[i]] = labels[i+1]
	}
	text, err := json.Marshal(metric)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"metric":%s,"value":[1700000000.5,%q]}`, text, value)
}

func vectorOf(elements ...string) http.HandlerFunc {
	return result("vector", "["+strings.Join(elements, ",")+"]")
}

// newSet makes a set that is closed with the test.
func newSet(t testing.TB, c Config) *Set {
	t.Helper()
	set, err := New(c, Options{})
	fatal.If(t, err)
	t.Cleanup(set.Close)
	return set
}

// promSource is a set with the source prom.
func promSource(t testing.TB, url string, change ...func(*Source)) *Set {
	t.Helper()
	s := Source{Prometheus: &Prometheus{URL: url}, Timeout: Duration(maxTimeout), Reuse: new(Duration)}
	for _, f := range change {
		f(&s)
	}
	return newSet(t, Config{Sources: map[string]Source{"prom": s}})
}

// promQuery is a query of that source.
func promQuery(query string, change ...func(*Query)) Query {
	q := Query{Source: "prom", Query: query}
	for _, f := range change {
		f(&q)
	}
	return q
}

func ofPods(q *Query) { q.PodLabel = "pod" }

// wantFailure fails the test unless err has the outcome and contains the text.
func wantFailure(t testing.TB, err error, outcome Outcome, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v of type %T, want an *Error", err, err)
	}
	if e.Outcome != outcome || !strings.Contains(e.Error(), text) {
		t.Fatalf("outcome %q, error %q; want %q and %q", e.Outcome, e, outcome, text)
	}
}

// values formats samples as "pod/container=value".
func values(samples []Sample) []string {
	out := make([]string, len(samples))
	for i, s := range samples {
		place := s.Pod
		if s.Container != "" {
			place += "/" + s.Container
		}
		if place != "" {
			place += "="
		}
		out[i] = place + s.Value.String()
	}
	return out
}

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	rewrite(t, name, text)
	return name
}

// rewrite replaces a file as a mounted secret is replaced: by renaming.
func rewrite(t testing.TB, name, text string) {
	t.Helper()
	fatal.If(t, os.WriteFile(name+".new", []byte(text), 0o600))
	fatal.If(t, os.Rename(name+".new", name))
}

// counted returns the counters of a set.
func counted(s *Set, outcome Outcome) (queries, requests, shared float64) {
	read := func(c *prometheus.CounterVec, labels ...string) float64 {
		var m dto.Metric
		if err := c.WithLabelValues(labels...).Write(&m); err != nil {
			panic(err)
		}
		return m.GetCounter().GetValue()
	}
	return read(s.metrics.queries, "prom", string(outcome)), read(s.metrics.requests, "prom", string(outcome)), read(s.metrics.shared, "prom")
}

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// Metrics of a spec.
func external(name string) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: &setpointv1.MetricIdentifier{Name: name}}}
}

func podsMetric(name string) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: &setpointv1.MetricIdentifier{Name: name}}}
}

func object(name string) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: name}, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Service", Name: "web"},
	}}
}

func usageOf(name string) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: name}}
}

func containerUsage(name, container string) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricSource{Name: name, Container: container}}
}

// discardLog drops the servers' log of broken handshakes.
var discardLog = log.New(io.Discard, "", 0)
