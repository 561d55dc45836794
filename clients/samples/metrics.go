package samples

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
)

// metrics are the package's own. Their labels are names of sources, which the operator chooses,
// and outcomes.
type metrics struct {
	queries  *prometheus.CounterVec
	requests *prometheus.CounterVec
	shared   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics registers the metrics; r nil: they are not exported.
func newMetrics(r prometheus.Registerer, sources []string) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "setpoint_samples_" + name, Help: help}, labels)
	}
	m := &metrics{
		queries:  counter("queries_total", "Metric queries, by source and outcome.", "source", "outcome"),
		requests: counter("requests_total", "Requests to sources, by outcome.", "source", "outcome"),
		shared:   counter("shared_total", "Metric queries answered by the request of another query.", "source"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "setpoint_samples_request_duration_seconds", Help: "Duration of requests to sources in seconds, queueing included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 17),
		}, []string{"source"}),
	}
	// Outcomes that never happened show as 0.
	for _, name := range sources {
		for _, o := range source.Outcomes {
			m.queries.WithLabelValues(name, string(o))
			m.requests.WithLabelValues(name, string(o))
		}
		m.shared.WithLabelValues(name)
		m.duration.WithLabelValues(name)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.queries, m.requests, m.shared, m.duration} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// requested records a request.
func (m *metrics) requested(name string, began time.Time, outcome Outcome) {
	m.requests.WithLabelValues(name, string(outcome)).Inc()
	m.duration.WithLabelValues(name).Observe(time.Since(began).Seconds())
}
