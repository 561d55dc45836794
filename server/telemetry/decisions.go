package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Outcome is the result of a requested recommendation.
type Outcome uint8

// The outcomes.
const (
	// Decided: a decision was made and recorded.
	Decided Outcome = iota
	// DryRun: a decision was made and not recorded.
	DryRun
	// Replayed: the response repeats an earlier one for the same request id.
	Replayed
	// Shared: a fleet answered its member's share.
	Shared
	// Failed: there is no recommendation.
	Failed
)

// Labels. Those of paths and actions are the API's words.
var (
	outcomes = [...]string{Decided: "decided", DryRun: "dry_run", Replayed: "replayed", Shared: "share", Failed: "failed"}
	actions  = [...]string{none: "NONE", up: "SCALE_UP", down: "SCALE_DOWN"}
	limits   = [...]string{
		string(recommender.ScaleUpLimit), string(recommender.ScaleDownLimit),
		string(recommender.TooManyReplicas), string(recommender.TooFewReplicas),
	}
	holds = [...]string{
		recommender.ScaleUpStabilized, recommender.ScaleDownStabilized,
		recommender.BackoffUpscale, recommender.BackoffDownscale, recommender.BackoffBoth,
		recommender.HistoryUnavailable,
	}
	failures = [...]string{
		resource: string(recommender.ResourceMetric), containerResource: string(recommender.ContainerResourceMetric),
		pods: string(recommender.PodsMetric), object: string(recommender.ObjectMetric), external: string(recommender.ExternalMetric),
		unknown: "unknown",
	}
)

const (
	none = iota
	up
	down
)

const (
	resource = iota
	containerResource
	pods
	object
	external
	unknown
)

// Decisions counts requested recommendations, each one separately: alone, in a batch or
// on a stream.
type Decisions struct {
	vectors  []prometheus.Collector
	outcomes [len(outcomes)]prometheus.Counter
	errors   [lastCode + 1]prometheus.Counter // nil for OK
	actions  [len(actions)]prometheus.Counter
	paths    []prometheus.Counter
	limits   [len(limits)]prometheus.Counter
	holds    [len(holds)]prometheus.Counter
	failures [len(failures)]prometheus.Counter
	// historyLimited counts those that the history's limit may have held.
	historyLimited prometheus.Counter
	adjustments    adjustments
}

// NewDecisions returns counters that are all 0.
func NewDecisions() *Decisions {
	d := &Decisions{}
	d.counters("setpoint_recommendations_total", "Recommendations requested (unary, in batches, on streams), by outcome.",
		"outcome", outcomes[:], d.outcomes[:])
	errors := make([]string, 0, lastCode)
	for code := codes.OK + 1; code <= lastCode; code++ {
		errors = append(errors, code.String())
	}
	d.counters("setpoint_recommendation_errors_total", "Recommendations that failed, by status code; refused calls are not included.",
		"code", errors, d.errors[1:])
	d.counters("setpoint_decisions_total", "Recorded decisions, by action.",
		"action", actions[:], d.actions[:])
	paths := recommender.PathNames()
	d.paths = make([]prometheus.Counter, len(paths))
	d.counters("setpoint_decision_paths_total", "Recorded decisions, by their path through the controller.",
		"path", paths, d.paths)
	d.counters("setpoint_decisions_limited_total", "Recorded decisions limited by a policy or bound, by ScalingLimited's reason.",
		"reason", limits[:], d.limits[:])
	d.counters("setpoint_decisions_held_total", "Recorded decisions that stabilization or a delay held back, by AbleToScale's reason.",
		"reason", holds[:], d.holds[:])
	d.counters("setpoint_metric_failures_total", "Metrics that recorded decisions could not compute, by type.",
		"type", failures[:], d.failures[:])
	d.historyLimited = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "setpoint_decisions_history_limited_total",
		Help: "Recorded decisions that may hold the count longer than Kubernetes would, because the history exceeds --history-limit.",
	})
	counts, vector := newAdjustments()
	d.adjustments = counts
	d.vectors = append(d.vectors, d.historyLimited, vector)
	return d
}

// counters creates the counters of a name, one per value of its label.
func (d *Decisions) counters(name, help, label string, values []string, into []prometheus.Counter) {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	d.vectors = append(d.vectors, vector)
	for i, value := range values {
		into[i] = vector.WithLabelValues(value)
	}
}

// Collectors returns the collectors to register.
func (d *Decisions) Collectors() []prometheus.Collector { return d.vectors }

// Answered counts a response that is not a newly recorded decision.
func (d *Decisions) Answered(o Outcome) { d.outcomes[o].Inc() }

// Refused counts a failed recommendation.
func (d *Decisions) Refused(code codes.Code) {
	d.outcomes[Failed].Inc()
	if code = known(code); code != codes.OK {
		d.errors[code].Inc()
	}
}

// Recorded counts a recorded decision, by the contents of its status.
func (d *Decisions) Recorded(r *recommender.Decision) {
	d.outcomes[Decided].Inc()
	switch {
	case r.Desired > r.Current:
		d.actions[up].Inc()
	case r.Desired < r.Current:
		d.actions[down].Inc()
	default:
		d.actions[none].Inc()
	}
	d.paths[r.Path].Inc()
	if r.HistoryLimited {
		d.historyLimited.Inc()
	}
	d.adjustments.count(r.Adjusted)
	for i := range r.Events {
		if kind, ok := failureOf(r.Events[i].Reason); ok {
			d.failures[kind].Inc()
		}
	}
	d.conditions(r)
}

// conditions counts what limits a decision. On paths that evaluate no metric the
// conditions are those of an earlier decision, except AbleToScale, which each path
// sets.
func (d *Decisions) conditions(r *recommender.Decision) {
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		switch c.Type {
		case recommender.AbleToScale:
			if c.Reason == recommender.ReadyForNewScale { // the usual case
				continue
			}
			if hold := slices.Index(holds[:], c.Reason); hold >= 0 {
				d.holds[hold].Inc()
			}
		case recommender.ScalingLimited:
			if r.Path != recommender.PathMetrics || c.Status != recommender.ConditionTrue {
				continue
			}
			if limit := slices.Index(limits[:], c.Reason); limit >= 0 {
				d.limits[limit].Inc()
			}
		}
	}
}

// failureOf returns the type of metric of a decision's event.
func failureOf(reason string) (int, bool) {
	switch reason {
	case recommender.FailedGetResourceMetric, recommender.FailedGetMetrics: // design-2015 has only cpu
		return resource, true
	case recommender.FailedGetContainerResourceMetric:
		return containerResource, true
	case recommender.FailedGetPodsMetric:
		return pods, true
	case recommender.FailedGetObjectMetric:
		return object, true
	case recommender.FailedGetExternalMetric:
		return external, true
	case recommender.InvalidMetricSourceType:
		return unknown, true
	}
	return 0, false
}
