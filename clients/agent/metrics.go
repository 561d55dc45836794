package agent

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome is the outcome of a reconcile.
type Outcome string

// Outcomes of reconciles.
const (
	OutcomeUnchanged Outcome = "unchanged"    // the count stays
	OutcomeScaled    Outcome = "scaled"       // the count was written
	OutcomeFailed    Outcome = "scale_failed" // writing the count failed
	OutcomeMoved     Outcome = "moved"        // others kept changing it
	OutcomeShadow    Outcome = "shadow"       // decided, and compared
	// OutcomeAway: the service did not answer. OutcomeRefused: it refused the request.
	OutcomeAway    Outcome = "recommender_unavailable"
	OutcomeRefused Outcome = "recommendation_refused"
	// OutcomeDistrusted means that the answer does not match the request.
	OutcomeDistrusted Outcome = "answer_refused"
	// OutcomeConflict means that another autoscaler has the workload.
	OutcomeConflict Outcome = "conflicting_autoscaler"
	// OutcomeGaveWay means that another controller acts on the object.
	OutcomeGaveWay Outcome = "conflicting_controller"
	// OutcomeWaiting means that the platform accepts no count now; the reason of the hold says why.
	OutcomeWaiting   Outcome = "waiting"
	OutcomeInvalid   Outcome = "invalid"     // something in the object can't be read
	OutcomeReadError Outcome = "read_failed" // the platform could not be read
)

var outcomes = []Outcome{
	OutcomeUnchanged, OutcomeScaled, OutcomeFailed, OutcomeMoved, OutcomeShadow,
	OutcomeAway, OutcomeRefused, OutcomeDistrusted, OutcomeConflict, OutcomeGaveWay, OutcomeWaiting, OutcomeInvalid, OutcomeReadError,
}

// Parts of a reconcile.
const (
	partRead   = "read"
	partAsk    = "ask"
	partApply  = "apply"
	partReport = "report"
	partStatus = "status"
)

var parts = []string{partRead, partAsk, partApply, partReport, partStatus}

// metrics are the agent's own. Their labels are bounded: none names an object.
type metrics struct {
	// sources are the labels of the kinds of objects.
	sources       map[string]string
	reconciles    *prometheus.CounterVec
	reconcileTime prometheus.Histogram
	partTime      *prometheus.HistogramVec
	lag           prometheus.Histogram
	applied       *prometheus.CounterVec
	appliedAfter  prometheus.Histogram
	questions     *prometheus.CounterVec
	// answersRefused is by the invalid field.
	answersRefused   *prometheus.CounterVec
	objects          *prometheus.GaugeVec
	up               prometheus.Gauge
	awaySince        prometheus.Gauge
	shadowReconciles *prometheus.CounterVec
	rivalAgents      prometheus.Gauge
}

// Buckets from a millisecond to two minutes, so that an alert about agents that are late says how late they are.
var timeBuckets = prometheus.ExponentialBuckets(0.001, 2, 18)

// newMetrics registers the metrics, and one of the shadows that diverge; r nil: they are not exported.
func newMetrics(r prometheus.Registerer, sources map[string]string, divergent func() int) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "setpoint_agent_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "setpoint_agent_" + name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "setpoint_agent_" + name, Help: help, Buckets: timeBuckets})
	}
	m := &metrics{
		sources:       sources,
		reconciles:    counter("reconciles_total", "Reconciles of objects, by outcome.", "outcome"),
		reconcileTime: histogram("reconcile_duration_seconds", "Duration of one object's reconcile, from its read to its status, in seconds."),
		partTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "setpoint_agent_part_duration_seconds", Help: "Duration of the parts of a reconcile, in seconds.", Buckets: timeBuckets,
		}, []string{"part"}),
		lag:            histogram("schedule_lag_seconds", "Delay between a reconcile's due time and its start, in seconds."),
		applied:        counter("scales_applied_total", "Replica counts applied, by direction.", "direction"),
		appliedAfter:   histogram("decision_to_applied_seconds", "Seconds from the recommender's answer to the applied replica count."),
		questions:      counter("recommender_requests_total", "Requests to the recommender, by transport.", "transport"),
		answersRefused: counter("answers_refused_total", "Answers of the recommender that did not match the request and were refused, by the field at fault.", "field"),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "setpoint_agent_objects", Help: "Objects reconciled at least once, by source and whether they are shadows.",
		}, []string{"source", "shadow"}),
		up:               gauge("recommender_up", "1 while the recommender answers."),
		awaySince:        gauge("recommender_away_since_timestamp_seconds", "Unix time since which the recommender has not answered; 0 while it answers."),
		shadowReconciles: counter("shadow_reconciles_total", "Reconciles of shadows, by whether their count agreed with that of the acting controller; no_opinion: one of the two had none.", "verdict"),
	}
	m.rivalAgents = gauge("rival_agents", "Other agents that act on the same platform, as far as the recommender knows; alert when above 0.")
	m.preset()
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.reconciles, m.reconcileTime, m.partTime, m.lag, m.applied, m.appliedAfter, m.questions, m.answersRefused,
		m.objects, m.up, m.awaySince, m.shadowReconciles, m.rivalAgents,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "setpoint_agent_shadow_divergent_objects", Help: "Shadows whose count differs from that of the acting controller.",
		}, func() float64 { return float64(divergent()) }),
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// preset creates all series, so that events that never happened show as 0.
func (m *metrics) preset() {
	for _, o := range outcomes {
		m.reconciles.WithLabelValues(string(o))
	}
	for _, p := range parts {
		m.partTime.WithLabelValues(p)
	}
	for _, d := range []string{"up", "down"} {
		m.applied.WithLabelValues(d)
	}
	for _, t := range []string{"stream", "unary"} {
		m.questions.WithLabelValues(t)
	}
	for _, f := range []string{"answer", "requestId", "currentReplicas", "desiredReplicas", "action", "recommendationId", "evaluationTime", "status"} {
		m.answersRefused.WithLabelValues(f)
	}
	for _, v := range []string{"agreed", "diverged", "no_opinion"} {
		m.shadowReconciles.WithLabelValues(v)
	}
	for _, s := range m.sources {
		for _, shadow := range []string{"false", "true"} {
			m.objects.WithLabelValues(s, shadow)
		}
	}
}

// sourceOf is the label for the kind of an object.
func (m *metrics) sourceOf(key Key) string {
	if name, ok := m.sources[key.Kind]; ok {
		return name
	}
	return strings.ToLower(key.Kind)
}

func (m *metrics) asked(transport string) { m.questions.WithLabelValues(transport).Inc() }

// took records the duration of a part that began at that time.
func (m *metrics) took(part string, began time.Time) {
	m.partTime.WithLabelValues(part).Observe(time.Since(began).Seconds())
}

// recommender records since when the service has been away; the zero time: it answers.
func (m *metrics) recommender(awaySince time.Time) {
	if awaySince.IsZero() {
		m.up.Set(1)
		m.awaySince.Set(0)
		return
	}
	m.up.Set(0)
	m.awaySince.Set(float64(awaySince.UnixMilli()) / 1000)
}
