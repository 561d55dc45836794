package stages

import (
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/arena"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Around is what is around one decision.
type Around struct {
	// Plan is the request's; nil: none.
	Plan *Plan
	// Proposals are the caller's.
	Proposals []Proposal
	// Overrides are those of the target, its namespace and its cluster, in any order; those that are not in
	// force are left out here.
	Overrides []Override
	// OverridesAt is the instant by which they are in force, by the clock of the store. Zero: that of the decision.
	OverridesAt time.Time
	// Deleted says who deleted an override, named by its level, id and creation, and when. Nil: nobody knows.
	Deleted func(level Level, id string, created time.Time) (by string, at time.Time, known bool)
	// Turns are when the count turned, newest first, in milliseconds since the Unix epoch.
	Turns []int64
	// Past is what is known of the target's past, for the plan's forecast; nil: nothing is.
	Past *Past
	// Least is what metrics propose at least of which only a part is known, by index; nil, or 0: all is known, or nothing.
	Least []int32
}

// least is what a metric proposes at least, see Least.
func (a *Around) least(metric int) int32 {
	if metric >= len(a.Least) {
		return 0
	}
	return a.Least[metric]
}

// Empty reports whether a decision is the engine's alone.
func (a *Around) Empty() bool {
	return a.Plan == nil && len(a.Proposals) == 0 && len(a.Overrides) == 0
}

// Alone reports whether a decision is the engine's alone, and nothing that stages left behind has to go: what they
// remember, what they adjusted, and conditions of theirs in the status that the decision begins with, of which a caller's
// previous status may have some that no record tells of.
func (a *Around) Alone(in *recommender.Input, history *recommender.History, kept []byte, adjusted bool) bool {
	if !a.Empty() || adjusted || len(kept) > 0 {
		return false
	}
	var conditions []recommender.Condition
	switch {
	case history != nil && history.Seen:
		conditions = history.Status.Conditions
	case in.PreviousStatus != nil:
		conditions = in.PreviousStatus.Conditions
	}
	for i := range conditions {
		switch conditions[i].Type {
		case Overridden, ExternalMetricFallbackActive, MetricFallbackActive, MetricSuspect:
			return false
		}
	}
	return true
}

type memory = arena.Decisions[recommender.Condition, recommender.MetricStatus, recommender.TimedRecommendation]

// run is one decision. It is the engine's seam.
type run struct {
	*Around
	plan     *Plan // never nil
	now      time.Time
	in       recommender.Input // edited
	original *recommender.Input
	state    State
	adjusted recommender.Adjusted
	// told is how many bytes of text the adjustments have.
	told int
	// edited reports whether the input was edited, so that the plain count takes a decision of its own.
	edited   bool
	finished bool
	// voters are proposals beside the metrics', with what is told of each; caps are limits of the combined
	// proposal. hasLeast reports whether the first voter is the minimum of paced schedules.
	voters   []recommender.MetricEvaluation
	votes    []vote
	hasLeast bool
	caps     []limit
	// ownReadings reports whether in.Readings is a copy.
	ownReadings bool
	// suspects are the metrics that the zero guard makes fail, nil: none; suspicion is the first one's
	// sentence.
	suspects  []bool
	suspicion string
	// combined reports whether metrics were read; external and others are those in fallback.
	combined bool
	// remembered reports whether the count is recorded where failed metrics hold it.
	remembered       bool
	external, others string
	// overridden is what the overrides in force do, and overriding the condition's reason; unchanged
	// reports that they do nothing.
	overridden, overriding string
	unchanged              bool
	// inForce are the overrides in force, the most specific first, of one level the newest.
	inForce []*Override
}

var noPlan Plan

// runs are reused: they have a copy of the input, which is most of what a decision with stages would allocate.
var runs = sync.Pool{New: func() any { return new(run) }}

// start begins a run, with the overrides in force. It ends with free.
func (a *Around) start(plan *Plan, now time.Time, in *recommender.Input) *run {
	r := runs.Get().(*run)
	r.Around, r.plan, r.now, r.in, r.original = a, plan, now, *in, in
	at := a.OverridesAt
	if at.IsZero() {
		at = now
	}
	r.inForce = a.inForce(at, r.inForce)
	return r
}

// adjustments are those of the run, which outlive it.
func (r *run) adjustments() *recommender.Adjusted {
	adjusted := r.adjusted
	return &adjusted
}

func (r *run) free() {
	inForce, metrics, overrides := r.inForce, r.state.Metrics, r.state.overrides
	clear(inForce)
	clear(overrides)
	*r = run{} // a literal with these would be a temporary that is copied
	r.inForce, r.state.Metrics, r.state.overrides = inForce[:0], metrics[:0], overrides[:0]
	runs.Put(r)
}

// RecommendIn is recommender.RecommendIn with the stages around it, for this module's service; the memory may be
// nil. It takes and returns the state of the stages, as a record keeps it. Others have [Kept].
func (a *Around) RecommendIn(m *memory, now time.Time, in *recommender.Input, history *recommender.History, kept []byte) (recommender.Decision, recommender.History, []byte) {
	plan, runs := a.Plan, now
	if plan == nil {
		plan = &noPlan
	}
	if history != nil && now.Before(history.Updated) && !in.Again { // as the engine does
		runs = history.Updated
	}
	r := a.start(plan, runs, in)
	defer r.free()
	r.state.decode(kept, r.plan.Metrics)
	r.state.withoutFuture(runs.UnixMilli())
	if history != nil && history.Seen && !history.Initialized { // windows begin anew after a pause, and so does what nobody saw last
		r.state.InactiveSince = 0
		for i := range r.state.Metrics {
			r.state.Metrics[i].SuspectSince = 0
		}
	}
	if r.plan.Forecast == nil {
		r.state.bucket = bucket{}
	}
	if r.Past != nil {
		r.Past.begin(r.plan.Forecast, runs)
	}

	r.seeOverrides()
	r.bounds()    // schedules at once, floors
	r.freshness() // old samples
	r.zeroGuards()
	r.idle()
	r.in.Seam = r
	d, next := recommender.RecommendIn(m, now, &r.in, history)
	if d.Path == recommender.PathScalingDisabled { // whose metrics nobody asks for, perhaps for days
		for i := range r.state.Metrics {
			r.state.Metrics[i].FailingSince = 0
		}
	}

	if r.edited || !r.finished {
		plainly := *in
		plainly.Explain = false
		plain, _ := recommender.RecommendIn(nil, now, &plainly, history)
		r.adjusted.Plain = plain.Desired
	}
	r.window(&d)
	switch {
	case !a.Empty():
		d.Adjusted = r.adjustments()
	case len(r.adjusted.Overrides) > 0:
		r.adjusted.Plain = recommender.NoPlain
		d.Adjusted = r.adjustments()
	}
	return d, next, r.state.encode(kept)
}

// Combine implements recommender.Seam: what happens between the metrics' proposals and their combination.
func (r *run) Combine(c *recommender.Combining) {
	r.combined = true
	r.surge(c)
	r.fallbacks(c)
	r.propose(c)
	r.combine(c)
	c.RecordsFailed = r.remembers(c)
	r.remembered = c.RecordsFailed
}

// Finish implements recommender.Seam: guards, then overrides.
func (r *run) Finish(current, decided, plain int32) (replicas int32, reason string) {
	r.adjusted.Plain, r.finished = plain, true
	return r.override(current, r.reversals(current, decided))
}

// limit is a limit of the combined proposal.
type limit struct {
	replicas int32
	stage    recommender.Stage
	rule     string
	message  func(before int32) string
	until    time.Time
}

// tell adds an adjustment. There is room for that of an override, which is the last one, whatever the stages before it
// tell; overrides that begin or end are before all.
func (r *run) tell(a recommender.Adjustment) {
	room, texts := recommender.MaxAdjustments-len(r.adjusted.Overrides), recommender.MostAdjustmentTexts
	if a.Stage != recommender.StageOverride {
		room, texts = room-1, texts-mostRule-recommender.MaxAdjustmentText
	}
	a.Message = cut(a.Message, recommender.MaxAdjustmentText)
	size := len(a.Rule) + len(a.Metric) + len(a.Message)
	if len(r.adjusted.Adjustments) >= room || r.told+size > texts {
		return
	}
	r.told += size
	if r.adjusted.Adjustments == nil {
		r.adjusted.Adjustments = make([]recommender.Adjustment, 0, 4) // as a rule enough
	}
	r.adjusted.Adjustments = append(r.adjusted.Adjustments, a)
}

func (r *run) ofMetric(stage recommender.Stage, index int) recommender.Adjustment {
	name := r.plan.Metrics[index]
	return recommender.Adjustment{Stage: stage, Rule: name, Metric: name, Before: -1, After: -1}
}
