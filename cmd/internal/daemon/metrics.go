package daemon

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// metricsInFlight is how often metrics may be gathered at once.
const metricsInFlight = 8

// MetricsPage serves what a gatherer gathers, in the format that the caller prefers of
// Prometheus' and compressed if it takes that. A metric that fails fails the page.
func MetricsPage(metrics prometheus.Gatherer) Page {
	return Page{"/metrics", "metrics for Prometheus", &metricsPage{metrics, make(chan struct{}, metricsInFlight)}}
}

type metricsPage struct {
	metrics prometheus.Gatherer
	places  chan struct{} // one for each that gathers
}

// ServeHTTP implements [http.Handler].
func (p *metricsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	default:
		http.Error(w, fmt.Sprintf("metrics are being gathered for %d callers: try again later", metricsInFlight), http.StatusServiceUnavailable)
		return
	}
	families, err := p.metrics.Gather()
	if err != nil {
		http.Error(w, "gather metrics: "+err.Error(), http.StatusInternalServerError)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
	w.Header().Set("Content-Type", string(format))
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	out := io.Writer(w)
	if takesGzip(r.Header) {
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		defer func() { _ = compressed.Close() }() // it fails where the caller has gone
		out = compressed
	}
	encoder := expfmt.NewEncoder(out, format)
	for _, family := range families {
		if encoder.Encode(family) != nil {
			panic(http.ErrAbortHandler) // what was sent must not look whole
		}
	}
}

// takesGzip reports whether the caller takes answers that are compressed with gzip.
func takesGzip(header http.Header) bool {
	for _, encoding := range strings.Split(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(encoding), " ", ""), ";")
		if name == "gzip" {
			return quality == "" || strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != ""
		}
	}
	return false
}
