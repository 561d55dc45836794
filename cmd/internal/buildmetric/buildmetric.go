// Package buildmetric has the metric that shows which versions run.
package buildmetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

// New returns setpoint_build_info, which shows which versions run: always 1, with the program's
// version, commit, the commit's date (RFC 3339) and Go's version as labels.
func New() prometheus.Collector {
	b := cli.ThisBuild()
	metric := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "setpoint_build_info",
		Help:        "Always 1; the labels say what the program was built from.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "date": b.Date, "goversion": b.Go},
	})
	metric.Set(1)
	return metric
}
