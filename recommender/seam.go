package recommender

import (
	"strconv"
	"time"
)

// Seam takes part in a decision: package stages has the only one. Without one no step of a decision
// is another. It is for profiles that follow the controller.
type Seam interface {
	// Combine is called with what the metrics propose, before the proposals become one.
	Combine(c *Combining)
	// Finish returns the count to recommend in place of what the engine decided, which may be the current
	// one, and why; the reason is empty where the count stays as decided. plain is what it would have decided
	// if Combine had edited nothing. It is called once a decision, except where the current count is unknown,
	// or where somebody switched the workload off.
	Finish(current, decided, plain int32) (replicas int32, reason string)
	// Report is called after Finish, for conditions that the engine does not have.
	Report(c *Conditions)
}

// Conditions are those of a decision, for conditions beside the controller's.
type Conditions struct {
	list []Condition
	now  time.Time
}

// ConditionsAt returns the conditions of a decision of that instant that is not the engine's.
func ConditionsAt(now time.Time, list []Condition) *Conditions { return &Conditions{list, now} }

// List returns them.
func (c *Conditions) List() []Condition { return c.list }

// Has reports whether there is a condition of that type.
func (c *Conditions) Has(kind string) bool { return conditionByType(c.list, kind) != nil }

// Set sets a condition. Its transition time is new only if the status is another.
func (c *Conditions) Set(kind, status, reason, message string) {
	c.list = setCondition(c.list, c.now, kind, status, reason, message)
}

// Remove removes the condition of that type.
func (c *Conditions) Remove(kind string) { c.list = removeCondition(c.list, kind) }

// report lets the seam report. It has a copy of the list: a pointer into the decider would move that to
// the heap, in each decision.
func (d *decider) report() {
	c := &d.scratch.conditions
	*c = Conditions{d.next.Status.Conditions, d.now}
	d.in.Seam.Report(c)
	d.next.Status.Conditions = c.list
}

// Combining is what Seam.Combine may change.
type Combining struct {
	// Current is the count, and StatusReplicas that which was observed.
	Current, StatusReplicas int32
	// Metrics are the evaluations of the spec's metrics, in its order. One may get another proposal, lose
	// its failure, or be left out, see MetricEvaluation.Ignored. Proposals that are appended count as
	// those of one more metric; they need a Spec with a name.
	Metrics []MetricEvaluation
	// Edited reports whether the decision may differ from the one without the seam.
	Edited bool
	// Combined reports whether Replicas is the proposal in place of the largest; Name is where it
	// comes from, as a metric's name is, and Limited whether that is a limit. Held reports whether the count is
	// held because of the metrics that failed, if any did.
	Combined bool
	Replicas int32
	Name     string
	Limited  bool
	Held     bool
	// RecordsFailed makes an evaluation that is held because of failed metrics record the current count
	// as its recommendation.
	RecordsFailed bool
}

// combine lets the seam change the selection. It returns the evaluations that count.
func (d *decider) combine(metrics []MetricEvaluation) (counted []MetricEvaluation, s selection) {
	c := &d.scratch.combining
	*c = Combining{Current: d.current, StatusReplicas: d.in.Scale.StatusReplicas, Metrics: metrics}
	plain := selectProposal(metrics, d.current, d.profile)
	d.in.Seam.Combine(c)
	if c.Edited {
		d.edited, d.plain = true, d.wouldDecide(&plain)
	}
	d.scratch.metrics = c.Metrics
	d.recordsFailed = c.RecordsFailed
	s = selectProposal(c.Metrics, d.current, d.profile)
	if c.Combined {
		s.replicas, s.winner, s.name, s.limited = c.Replicas, -1, c.Name, c.Limited
		if !c.Held {
			s.failed = nil
		} else if s.failed == nil {
			d.holdBySeam(&s, c.Metrics)
		}
	}
	if d.in.Explain {
		d.trace.Metrics = append([]MetricEvaluation(nil), c.Metrics...)
	}
	return c.Metrics, s
}

// wouldDecide returns the count that the selection would lead to. It records nothing.
func (d *decider) wouldDecide(s *selection) int32 {
	if s.failed != nil {
		return d.current
	}
	changesLast := d.changesLast
	_, _, bounds := d.limit(max(0, s.replicas))
	d.changesLast = changesLast
	desired, _ := d.raisedFromZero(bounds.Bounded, "")
	if d.withholds(desired) {
		return d.current
	}
	return desired
}

// holdBySeam holds the count because of the first failed metric, if there is one. In profiles that go on
// without failed metrics nothing tells of it yet.
func (d *decider) holdBySeam(s *selection, metrics []MetricEvaluation) {
	s.failed = firstFailure(metrics)
	if s.failed != nil && s.problem == "" {
		s.problem = "invalid metrics" + firstError + s.failed.Outer
	}
}

func firstFailure(metrics []MetricEvaluation) *MetricFailure {
	for i := range metrics {
		if e := &metrics[i]; e.Failure != nil && !e.Ignored {
			return e.Failure
		}
	}
	return nil
}

// recordFailed records the current count where failed metrics hold it, as if the failed one had been at
// its target.
func (d *decider) recordFailed() {
	if !d.recordsFailed {
		return
	}
	if d.behavior == nil {
		d.trace.Stabilization = stabilizeWithoutBehavior(d.nowNanos, &d.next, d.in.Options.DownscaleStabilization, d.current)
	} else {
		up, down := d.windows()
		if d.profile.oneSidedWindows {
			d.trace.Stabilization = stabilizeOneSided(d.nowNanos, &d.next, up, down, d.current, d.current)
		} else {
			d.trace.Stabilization = stabilizeWithBehavior(d.nowNanos, &d.next, up, down, d.current, d.current)
		}
	}
	d.record(TimedRecommendation{d.current, d.nowNanos})
	d.trace.Stabilization = Stabilization{}
}

// finishBySeam lets the seam replace the count. A change that it prevents is one that failed at once:
// its recommendation stays, and nothing else. One that it makes is no scale event, as another writer's.
func (d *decider) finishBySeam() {
	if d.in.Seam == nil || d.decision.Path == PathScaleUnavailable {
		return
	}
	if d.decision.Path == PathScalingDisabled {
		d.report()
		return
	}
	decided := d.decision.Desired
	plain := decided
	if d.edited {
		plain = d.plain
	}
	replicas, reason := d.in.Seam.Finish(d.current, decided, plain)
	d.report()
	if replicas == decided {
		return
	}
	statuses := d.next.Status.CurrentMetrics
	d.next.Pending = nil
	d.decision.Desired, d.decision.Reason = replicas, reason
	if replicas == d.current {
		d.decision.Reason = ""
		d.setStatus(d.current, statuses)
		return
	}
	d.next.Pending = &Pending{
		ID: d.in.ID, At: d.nowNanos, From: d.current, To: replicas, PreviousDesired: d.previousDesired,
		Zero: d.zeroTransition(replicas), Reason: reason, Error: d.decision.Error, Outside: true,
	}
	d.setStatus(replicas, statuses)
}

// Adjusted is what stages made of a decision.
type Adjusted struct {
	// Plain is the count without them, from the same history; NoPlain: none acts any more.
	Plain int32
	// Adjustments are in the order in which the stages act, at most MaxAdjustments.
	Adjustments []Adjustment
	// Overrides are those that began or ended since the decision before, at most a few, with the rule OverrideBegins
	// or OverrideEnds. They are for the log: answers do not have them.
	Overrides []Adjustment
}

// NoPlain is Adjusted.Plain of a decision that only tells which overrides ended.
const NoPlain = -1

// The rules of Adjusted.Overrides.
const (
	OverrideBegins = "begins"
	OverrideEnds   = "ends"
)

// MaxAdjustments limits Adjusted.Adjustments, and MaxAdjustmentText their texts, in bytes.
const (
	MaxAdjustments    = 32
	MaxAdjustmentText = 256
	// MostAdjustmentTexts limits all texts of a decision's adjustments, in bytes: metrics may have long names.
	MostAdjustmentTexts = 8 << 10
)

// Stage is where in a decision an adjustment was made. Stored: a number keeps its meaning.
type Stage uint8

// The stages.
const (
	_ Stage = iota
	StageBounds
	StageFreshness
	StageZeroGuard
	StageIdle
	StageSurge
	StageFallback
	StageProposal
	StageSchedule
	StageCombine
	StageWindow
	StageReversals
	StageOverride
	StageForecast
)

var stageNames = [...]string{
	StageBounds: "BOUNDS", StageFreshness: "FRESHNESS", StageZeroGuard: "ZERO_GUARD", StageIdle: "IDLE",
	StageSurge: "SURGE", StageFallback: "FALLBACK", StageProposal: "PROPOSAL", StageSchedule: "SCHEDULE",
	StageCombine: "COMBINE", StageWindow: "WINDOW", StageReversals: "REVERSALS", StageOverride: "OVERRIDE",
	StageForecast: "FORECAST",
}

// String returns the API's word for the stage.
func (s Stage) String() string {
	if int(s) >= len(stageNames) || s == 0 {
		return "stage " + strconv.Itoa(int(s)) // of a newer version
	}
	return stageNames[s]
}

// StageNames returns the words for all stages.
func StageNames() []string { return append([]string(nil), stageNames[1:]...) }

// Adjustment is what one stage changed.
type Adjustment struct {
	Stage Stage
	// Rule names which of the stage's rules it was.
	Rule string
	// Before and After are the replicas without and with it; below 0: it acts on a metric.
	Before, After int32
	// Metric is the metric that it acts on, such as "External:queue"; empty: none.
	Metric string
	// Message is one sentence with the numbers.
	Message string
	// Until is when it can end; the zero time: unknown.
	Until time.Time
}
