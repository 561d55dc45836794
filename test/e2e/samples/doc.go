// Package samples reads metrics from a real Prometheus, which scrapes an exporter of the
// test. It needs prometheus on PATH, which scripts/prometheus.sh installs.
package samples
