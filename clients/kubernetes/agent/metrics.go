package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of rounds.
const (
	outcomeUnchanged = "unchanged"    // the count stays
	outcomeScaled    = "scaled"       // the count was written
	outcomeFailed    = "scale_failed" // it could not be written
	outcomeMoved     = "moved"        // others kept changing it
	outcomeShadow    = "shadow"       // decided, and compared
	outcomeAway      = "recommender_unavailable"
	outcomeRefused   = "recommendation_refused"
	// the answer can't be one to what was asked
	outcomeDistrusted = "answer_refused"
	outcomeConflict   = "conflicting_autoscaler"
	// another controller acts on the object
	outcomeGaveWay   = "conflicting_controller"
	outcomeInvalid   = "invalid"
	outcomeReadError = "read_failed"
)

var outcomes = []string{
	outcomeUnchanged, outcomeScaled, outcomeFailed, outcomeMoved, outcomeShadow,
	outcomeAway, outcomeRefused, outcomeDistrusted, outcomeConflict, outcomeGaveWay, outcomeInvalid, outcomeReadError,
}

// Parts of a round.
const (
	partRead   = "read"
	partAsk    = "ask"
	partApply  = "apply"
	partReport = "report"
	partStatus = "status"
)

var parts = []string{partRead, partAsk, partApply, partReport, partStatus}

// metrics are the agent's own. What they have labels for is bounded: none is an
// object's.
type metrics struct {
	rounds       *prometheus.CounterVec
	roundTime    prometheus.Histogram
	partTime     *prometheus.HistogramVec
	lag          prometheus.Histogram
	applied      *prometheus.CounterVec
	appliedAfter prometheus.Histogram
	questions    *prometheus.CounterVec
	// answersRefused are by the field that was wrong.
	answersRefused *prometheus.CounterVec
	statusWrites   *prometheus.CounterVec
	objects        *prometheus.GaugeVec
	up             prometheus.Gauge
	awaySince      prometheus.Gauge
	leading        prometheus.Gauge
	shadowRounds   *prometheus.CounterVec
	divergent      prometheus.Gauge
	rivalWrites    prometheus.Counter
	rivalObjects   prometheus.Gauge
}

// Buckets from a millisecond to a quarter of a minute.
var timeBuckets = prometheus.ExponentialBuckets(0.001, 2, 15)

// newMetrics registers the metrics; r nil: they are counted for nobody.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
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
		rounds:    counter("rounds_total", "Rounds of objects, by what came of them.", "outcome"),
		roundTime: histogram("round_duration_seconds", "Time of a round of one object, from its read to its status."),
		partTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "setpoint_agent_part_duration_seconds", Help: "Time of the parts of a round.", Buckets: timeBuckets,
		}, []string{"part"}),
		lag:            histogram("schedule_lag_seconds", "Time between when a round was due and when it began."),
		applied:        counter("scales_applied_total", "Counts written, by direction.", "direction"),
		appliedAfter:   histogram("decision_to_applied_seconds", "Time from the answer of the recommender to the written count."),
		questions:      counter("questions_total", "Questions to the recommender, by how they were sent.", "transport"),
		answersRefused: counter("answers_refused_total", "Answers of the recommender that can't be ones to what was asked and were not followed, by the field that is wrong.", "field"),
		statusWrites:   counter("status_writes_total", "Statuses of objects, by what became of them: unchanged ones are not written.", "result"),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "setpoint_agent_objects", Help: "Objects that had a round, by source and whether they are only watched.",
		}, []string{"source", "shadow"}),
		up:           gauge("recommender_up", "1 while the recommender answers."),
		awaySince:    gauge("recommender_away_since_timestamp_seconds", "Since when the recommender has been away; 0: it is not."),
		leading:      gauge("leading", "1 while this agent is the one that acts."),
		shadowRounds: counter("shadow_rounds_total", "Rounds of shadows, by whether the count was that of the controller in charge, or one of both came to none.", "verdict"),
		divergent:    gauge("shadow_divergent_objects", "Shadows whose count is not that of the controller in charge."),
	}
	m.rivalWrites = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "setpoint_agent_rival_status_writes_total",
		Help: "Statuses of HorizontalPodAutoscalers that this agent acts on and another wrote between its rounds.",
	})
	m.rivalObjects = gauge("rival_objects", "HorizontalPodAutoscalers that another controller acts on, too; more than 0 is worth an alert.")
	m.preset()
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.rounds, m.roundTime, m.partTime, m.lag, m.applied, m.appliedAfter, m.questions, m.answersRefused, m.statusWrites,
		m.objects, m.up, m.awaySince, m.leading, m.shadowRounds, m.divergent,
		m.rivalWrites, m.rivalObjects,
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// preset makes all series there are, so that what never happened shows as 0.
func (m *metrics) preset() {
	for _, o := range outcomes {
		m.rounds.WithLabelValues(o)
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
	for _, r := range []string{"written", "unchanged", "conflict", "failed"} {
		m.statusWrites.WithLabelValues(r)
	}
	for _, v := range []string{"agreed", "diverged", "no_opinion"} {
		m.shadowRounds.WithLabelValues(v)
	}
	for _, s := range []Source{HPA, Autoscaler} {
		for _, shadow := range []string{"false", "true"} {
			m.objects.WithLabelValues(string(s), shadow)
		}
	}
}

func (m *metrics) asked(transport string) { m.questions.WithLabelValues(transport).Inc() }

// took notes a part that began at that time.
func (m *metrics) took(part string, began time.Time) {
	m.partTime.WithLabelValues(part).Observe(time.Since(began).Seconds())
}

// recommender notes since when the service is away; the zero time: it is there.
func (m *metrics) recommender(awaySince time.Time) {
	if awaySince.IsZero() {
		m.up.Set(1)
		m.awaySince.Set(0)
		return
	}
	m.up.Set(0)
	m.awaySince.Set(float64(awaySince.UnixMilli()) / 1000)
}
