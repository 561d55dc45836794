package overrides

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/stages"
)

const (
	// mostEnds limits the overrides that have a series of their own: those that began first have it.
	mostEnds = 200
	// mostAuthor limits the label of an author, in bytes.
	mostAuthor = 128
)

// Collectors returns the metrics; each has a series for each override, too.
func (o *Overrides) Collectors(each bool) []prometheus.Collector {
	gauge := func(name, help string, value func(now time.Time) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(o.clock()) })
	}
	all := []prometheus.Collector{
		gauge("setpoint_overrides", "Overrides in force, of the clusters that this instance decides for.", func(now time.Time) float64 {
			n := 0
			o.inForce(now, func(*stages.Override) { n++ })
			return float64(n)
		}),
		gauge("setpoint_overrides_oldest_start_timestamp_seconds", "Unix time at which the oldest override in force began; 0: none is in force.", func(now time.Time) float64 {
			var oldest time.Time
			o.inForce(now, func(one *stages.Override) {
				if oldest.IsZero() || one.Start.Before(oldest) {
					oldest = one.Start
				}
			})
			if oldest.IsZero() {
				return 0
			}
			return float64(oldest.UnixMilli()) / 1000
		}),
		o.losses,
	}
	if each {
		all = append(all, ends{o})
	}
	return all
}

// newLosses returns the counter of what a store that lost data did. Its series exist from the start: an alert sees the first loss.
func newLosses() *prometheus.CounterVec {
	losses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_overrides_lost_total",
		Help: "What the store has lost of overrides that this instance knew, because it lost data: an override before its end, or the deletion of one, which is in force again.",
	}, []string{"lost"})
	for _, lost := range []string{"deletion", "override"} {
		losses.WithLabelValues(lost)
	}
	return losses
}

var endOf = prometheus.NewDesc("setpoint_override_end_timestamp_seconds",
	"Unix time at which an override in force ends, by what it is for, what it does and its author; at most 200, those that began first (--target-metrics).",
	[]string{"cluster", "namespace", "target", "override", "what", "author"}, nil)

// ends collects when each override in force ends.
type ends struct{ *Overrides }

// Describe implements prometheus.Collector.
func (ends) Describe(to chan<- *prometheus.Desc) { to <- endOf }

// Collect implements prometheus.Collector.
func (e ends) Collect(to chan<- prometheus.Metric) {
	var all []*stages.Override
	e.inForce(e.clock(), func(one *stages.Override) { all = append(all, one) })
	slices.SortFunc(all, func(a, b *stages.Override) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Name, b.Name))
	})
	for _, one := range all[:min(len(all), mostEnds)] {
		place, id, ok := target.ParseOverride(one.Name)
		if !ok {
			continue
		}
		author := strings.ToValidUTF8(one.Author[:min(len(one.Author), mostAuthor)], "")
		to <- prometheus.MustNewConstMetric(endOf, prometheus.GaugeValue, float64(one.Expires.UnixMilli())/1000,
			place.Cluster, place.Namespace, place.Target, id, one.What(), author)
	}
}

// What is what an override does, as the command lists it.
func What(o *setpointv1.Override) string {
	message, err := proto.Marshal(o)
	if err != nil {
		return ""
	}
	var one encoded
	if one.read(message) != nil {
		return ""
	}
	override := one.override(0)
	return override.What()
}
