package daemon

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

func one(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "one_total", Help: "One."})
	counter.Inc()
	if err := registry.Register(counter); err != nil {
		t.Fatal(err)
	}
	return registry
}

func get(t *testing.T, page Page, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	page.Handler.ServeHTTP(w, r)
	return w.Result()
}

func TestMetricsComeAsTheCallerTakesThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, accept, encoding string
		protobuf, compressed   bool
	}{
		{name: "a person"},
		{name: "Prometheus", accept: "text/plain;version=0.0.4;q=0.5", encoding: "gzip", compressed: true},
		{name: "Prometheus with native histograms", accept: string(expfmt.FmtProtoDelim) + ",text/plain;q=0.1", encoding: "GZIP;q=0.5", protobuf: true, compressed: true},
		{name: "gzip is refused", encoding: "gzip;q=0.0, identity"},
		{name: "another compression", encoding: "zstd, br"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := get(t, MetricsPage(one(t)), "Accept", c.accept, "Accept-Encoding", c.encoding)
			body := io.Reader(answer.Body)
			if got := answer.Header.Get("Content-Encoding") == "gzip"; got != c.compressed {
				t.Fatalf("compressed %v, want %v", got, c.compressed)
			}
			if c.compressed {
				var err error
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatal(err)
				}
			}
			format := expfmt.ResponseFormat(answer.Header)
			if got := format.FormatType() == expfmt.TypeProtoDelim; got != c.protobuf {
				t.Errorf("the format is %s", format)
			}
			var family dto.MetricFamily
			if err := expfmt.NewDecoder(body, format).Decode(&family); err != nil || family.GetName() != "one_total" || family.GetMetric()[0].GetCounter().GetValue() != 1 {
				t.Errorf("got %v, error %v", &family, err)
			}
		})
	}
}

func TestMetricsThatFail(t *testing.T) {
	t.Parallel()
	broken := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("no such thing") })
	answer := get(t, MetricsPage(broken))
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusInternalServerError || !strings.Contains(string(text), "no such thing") {
		t.Errorf("answered %s: %s", answer.Status, text)
	}
}

func TestMetricsAreGatheredForAFewAtOnce(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	page := MetricsPage(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}))
	codes := make(chan int, metricsInFlight)
	for range metricsInFlight {
		go func() { codes <- get(t, page).StatusCode }()
		<-entered
	}
	if answer := get(t, page); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more is answered %s", answer.Status)
	}
	close(release)
	for range metricsInFlight {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("one is answered %d", code)
		}
	}
}
