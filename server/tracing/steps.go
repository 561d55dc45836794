package tracing

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Names of a span's events.
const (
	MetricEvent     = "metric"
	ProposalEvent   = "proposal"
	StabilizedEvent = "stabilized"
	RateLimitEvent  = "rate limit"
	BoundsEvent     = "bounds"
	WithheldEvent   = "withheld"
	ConflictEvent   = "conflict"
	DecidedEvent    = "decided"
)

const (
	// maxMetricEvents limits the events of metrics, because the events of a span are
	// limited.
	maxMetricEvents = 32
	// maxText limits a text of the caller's.
	maxText = 256
)

// clip shortens a text, between characters.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}

// Conflict records that another caller had changed the target meanwhile.
func Conflict(span trace.Span, attempt int) {
	span.AddEvent(ConflictEvent, trace.WithAttributes(attribute.Int("setpoint.attempt", attempt)))
}

// Steps adds the steps of a decision, from its explanation; nil adds only the result.
func Steps(span trace.Span, d *recommender.Decision, e *recommender.Explanation) {
	if e != nil {
		for i := range e.Metrics[:min(len(e.Metrics), maxMetricEvents)] {
			metric(span, &e.Metrics[i])
		}
		if e.Decided {
			settled(span, d, e)
		}
		if b := &e.Bounds; b.Reason != "" {
			span.AddEvent(BoundsEvent, trace.WithAttributes(
				count("from", b.Wanted), count("to", b.Bounded), count("min", b.Min), count("max", b.Max), text("reason", string(b.Reason))))
		}
		if w := e.Withheld; w != nil {
			span.AddEvent(WithheldEvent, trace.WithAttributes(count("replicas", w.Replicas), text("reason", w.Reason)))
		}
	}
	span.AddEvent(DecidedEvent, trace.WithAttributes(
		count("from", d.Current), count("to", d.Desired), text("reason", d.Reason), text("error", d.Error)))
}

func metric(span trace.Span, m *recommender.MetricEvaluation) {
	attributes := []attribute.KeyValue{text("name", m.Spec.Name()), text("type", string(m.Spec.Type))}
	if m.Failure != nil {
		attributes = append(attributes, text("error", m.Failure.Inner))
	} else {
		attributes = append(attributes, count("proposal", m.Proposal))
	}
	if m.Compared {
		attributes = append(attributes, attribute.Float64("setpoint.ratio", m.UsageRatio))
	}
	if m.Dampened {
		attributes = append(attributes, attribute.Float64("setpoint.dampened_ratio", m.DampenedRatio))
	}
	if c := m.Counts; c != (recommender.PodCounts{}) {
		attributes = append(attributes, count("pods.ready", c.Ready), count("pods.unready", c.Unready), count("pods.missing", c.Missing), count("pods.ignored", c.Ignored))
	}
	span.AddEvent(MetricEvent, trace.WithAttributes(attributes...))
}

// settled describes how windows and policies changed the proposal.
func settled(span trace.Span, d *recommender.Decision, e *recommender.Explanation) {
	winner := ""
	if e.Winner >= 0 && e.Winner < len(e.Metrics) {
		winner = e.Metrics[e.Winner].Spec.Name()
	}
	span.AddEvent(ProposalEvent, trace.WithAttributes(count("from", d.Current), count("to", e.Proposal), text("metric", winner)))
	s := &e.Stabilization
	span.AddEvent(StabilizedEvent, trace.WithAttributes(count("from", s.Proposed), count("to", s.Stabilized), text("reason", s.Reason)))
	if r := &e.RateLimit; r.HasLimit {
		span.AddEvent(RateLimitEvent, trace.WithAttributes(count("limit", r.Limit), text("select_policy", string(r.SelectPolicy))))
	}
}

func count(name string, n int32) attribute.KeyValue { return attribute.Int("setpoint."+name, int(n)) }

func text(name, value string) attribute.KeyValue {
	return attribute.String("setpoint."+name, clip(value))
}

// Answer describes a response on its span.
type Answer struct {
	Target, RecommendationID string
	Attempts                 int
	DryRun, Replayed         bool
}

// Describe sets the attributes.
func (a *Answer) Describe(span trace.Span) {
	span.SetAttributes(
		text("target", a.Target), text("recommendation", a.RecommendationID), attribute.Int("setpoint.attempts", a.Attempts),
		attribute.Bool("setpoint.dry_run", a.DryRun), attribute.Bool("setpoint.replayed", a.Replayed))
}
