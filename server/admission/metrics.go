package admission

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/server/connections"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// limitMetrics exports the state of the limiter.
type limitMetrics struct{ limiter *limit.Limiter }

var (
	limitRefused = prometheus.NewDesc("setpoint_calls_refused_total", "Calls refused by a limit.", []string{"limit"}, nil)
	limitGauges  = []struct {
		desc  *prometheus.Desc
		value func(*limit.Limiter) int
	}{
		{prometheus.NewDesc("setpoint_calls_in_flight", "Calls in flight; a batch counts as its requests.", nil, nil), (*limit.Limiter).InFlight},
		{prometheus.NewDesc("setpoint_calls_waiting", "Calls whose message has not arrived completely.", nil, nil), (*limit.Limiter).Waiting},
		{prometheus.NewDesc("setpoint_concurrency_limit", "Current concurrency limit; below --max-in-flight while the CPUs are saturated.", nil, nil), (*limit.Limiter).MayRun},
		{prometheus.NewDesc("setpoint_identities", "Callers with rate limiter state.", nil, nil), (*limit.Limiter).Identities},
	}
)

// Describe implements prometheus.Collector.
func (limitMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- limitRefused
	for _, g := range limitGauges {
		descs <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m limitMetrics) Collect(metrics chan<- prometheus.Metric) {
	for _, reason := range limit.Reasons() {
		metrics <- prometheus.MustNewConstMetric(limitRefused, prometheus.CounterValue, float64(m.limiter.Refused(reason)), reason.String())
	}
	for _, g := range limitGauges {
		metrics <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(m.limiter)))
	}
}

// connectionMetrics exports the number of connections.
type connectionMetrics struct{ set *connections.Set }

var (
	connectionsOpen   = prometheus.NewDesc("setpoint_connections", "Open connections of gRPC and REST.", nil, nil)
	connectionsClosed = prometheus.NewDesc("setpoint_connections_closed_total", "Connections closed because there were too many, or too many health watches on them.", nil, nil)
)

// Describe implements prometheus.Collector.
func (connectionMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- connectionsOpen
	descs <- connectionsClosed
}

// Collect implements prometheus.Collector.
func (m connectionMetrics) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(connectionsOpen, prometheus.GaugeValue, float64(m.set.Open()))
	metrics <- prometheus.MustNewConstMetric(connectionsClosed, prometheus.CounterValue, float64(m.set.Closed()))
}
