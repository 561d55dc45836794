package decision

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/server/telemetry"
)

// metrics are the server's metrics. All series exist from the start, except those of
// single targets.
type metrics struct {
	Targets *telemetry.Targets // nil: there are none

	storeSeconds *prometheus.HistogramVec
	storeErrors  *prometheus.CounterVec
	storeUp      prometheus.Gauge
	conflicts    prometheus.Counter
	cacheHits    prometheus.Counter
	cacheMisses  prometheus.Counter
	heldDown     prometheus.Counter
	shadows      shadowMetrics

	load, loadBatch, swap, swapBatch, delete, list operation
}

// operation has the metrics of one kind of operation on the store.
type operation struct {
	name    string
	span    string
	seconds prometheus.Observer
	errors  prometheus.Counter
}

// shadowMetrics count what shadows decided.
type shadowMetrics struct {
	decisions            *prometheus.CounterVec
	same, different, off prometheus.Counter
}

func (m *shadowMetrics) count(s *shadows.Set) {
	m.same.Add(float64(s.Same))
	m.different.Add(float64(s.Different))
	m.off.Add(float64(s.Off))
}

func newMetrics(options *Options) *metrics {
	m := &metrics{
		storeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "setpoint_store_operation_duration_seconds", Help: "Duration of operations of the history store, retries included.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"operation"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_store_errors_total", Help: "Failed operations of the history store; those whose caller hung up are not included.",
		}, []string{"operation"}),
		storeUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "setpoint_store_up", Help: "1 while the history store responds, else 0.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_store_conflicts_total", Help: "Decisions repeated because another caller had changed the history.",
		}),
		cacheHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_history_cache_hits_total", Help: "Decisions that found their history in the cache.",
		}),
		cacheMisses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_history_cache_misses_total", Help: "Decisions that had to load their history.",
		}),
		heldDown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_decisions_without_store_total", Help: "Decisions made without the history store (--on-store-failure=hold-down).",
		}),
	}
	m.shadows.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_shadow_decisions_total", Help: "Decisions of shadows beside recorded ones, by result (same or different: the count is, or is not, that of the spec in use; off: the shadow could not decide).",
	}, []string{"result"})
	m.shadows.same, m.shadows.different, m.shadows.off = m.shadows.decisions.WithLabelValues("same"), m.shadows.decisions.WithLabelValues("different"), m.shadows.decisions.WithLabelValues("off")
	for name, op := range map[string]*operation{
		"load": &m.load, "load_batch": &m.loadBatch, "swap": &m.swap, "swap_batch": &m.swapBatch, "delete": &m.delete, "list": &m.list,
	} {
		*op = operation{name, "store " + name, m.storeSeconds.WithLabelValues(name), m.storeErrors.WithLabelValues(name)}
	}
	if options.TargetMetrics > 0 {
		m.Targets = telemetry.NewTargets(options.TargetMetrics, options.Clock)
	}
	return m
}

// collectors are all of them, and what else is known of the targets' histories.
func (m *metrics) collectors(t *Targets) []prometheus.Collector {
	var all []prometheus.Collector
	if m.Targets != nil {
		all = m.Targets.Collectors()
	}
	return append(all,
		m.storeSeconds, m.storeErrors, m.storeUp, m.conflicts, m.cacheHits, m.cacheMisses, m.heldDown, m.shadows.decisions,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "setpoint_unwritten_targets", Help: "Targets with decisions not yet written to the history store.",
		}, func() float64 { return float64(t.outage.pending()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "setpoint_histories_went_back_total", Help: "Histories that were older in the store than this instance knew, or missing though nobody deleted them, as pasts of forecasts: the store has lost data. What is more than 15 s older is restored.",
		}, func() float64 { return float64(t.wentBack.Load()) }),
	)
}
