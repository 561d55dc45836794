package recommender

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Retrace makes the history's last decision again, for its explanation, as far as the history tells
// it: Explanation has no pods and no sums over them, see MetricEvaluation.Recalled, and only those
// steps that lead to the decision. known is false if nothing was decided yet, and for the profile
// "design-2015".
//
// Of in, only Spec, Options and Namespace count, which must be those of the decision; basis is its
// basis, or the zero value. Without one the history's records tell the proposal of all metrics
// together, and that of each only if one metric alone gave one.
func (h *History) Retrace(in *Input, basis *Basis) (d Decision, known bool) {
	profile := in.Options.profile()
	if h.Last.At == 0 || profile.algorithm == designAlgorithm {
		return Decision{}, false
	}
	last := h.lastKnown(in, basis)
	before := h.beforeLast(&last)
	again := last.input(in)
	again.ID, again.Explain = h.Last.ID, true
	again.Scale = Scale{h.Last.From, h.Last.From}
	if able := conditionByType(h.Status.Conditions, AbleToScale); able != nil {
		again.HoldDown = able.Reason == HistoryUnavailable
	}
	again.proposals = h.proposed(&last, profile)
	if last.path == PathMetricsFailed {
		// 0 has the effect of whatever they proposed: it is below the count.
		again.proposals = h.possible(&last, profile)
	}
	d, _ = Recommend(time.Unix(0, h.Last.At).UTC(), &again, &before)
	e := d.Explanation
	if !e.History.Younger && last.Decided {
		// Usually one that is in no window was replaced, perhaps the oldest.
		e.History.Recommendations++
		e.History.Oldest = 0
	}
	h.recallMetrics(&d, &last, profile)
	// When a reading was taken, from which "cooldown" counts its delays, is not known.
	if profile.algorithm != controllerAlgorithm || d.Path != last.path || d.Current != h.Last.From || d.Desired != h.Last.To {
		e.Stabilization, e.RateLimit, e.Bounds, e.Warnings = Stabilization{}, RateLimit{}, Bounds{}, nil
	}
	d.Path, d.Current, d.Desired = last.path, h.Last.From, h.Last.To
	d.Reason, d.Error, d.Status = h.Last.Reason, h.Last.Error, h.Status
	return d, true
}

// lastKnown is what is known of a history's last decision.
type lastKnown struct {
	Basis
	path Path
}

// lastKnown returns what the history, and the basis if it is known, tell of the last decision.
func (h *History) lastKnown(in *Input, basis *Basis) lastKnown {
	last := lastKnown{Basis: *basis, path: h.lastPath(&in.Spec, in.Options.profile())}
	if last.Decided || last.path != PathMetrics {
		return last
	}
	var made []int32
	h.AllAt(h.Last.At, func(_ int, replicas int32) { made = append(made, replicas) })
	if h.Since == h.Last.At && len(made) > 1 {
		made = made[1:] // at the first sight the count comes first
	}
	if len(made) == 1 { // otherwise several decisions were made at that instant
		last.Proposal, last.Decided = made[0], true
	}
	return last
}

// lastPath returns the path of the last decision.
func (h *History) lastPath(spec *Spec, profile *Profile) Path {
	able, active := conditionByType(h.Status.Conditions, AbleToScale), conditionByType(h.Status.Conditions, ScalingActive)
	has := func(prefix string) bool { return strings.HasPrefix(h.Last.Error, prefix) }
	switch reason := h.Last.Reason; {
	case has(noScale), has(invalidAPIVersion), has(unknownKind):
		return PathScaleUnavailable
	case reason == AboveMaxReplicas, able != nil && able.Reason == HistoryUnavailable && h.Last.From > spec.MaxReplicas:
		return PathAboveMax
	// The controller since v1.12 reaches a minimum from zero by its metrics.
	case reason == BelowMinReplicas && (h.Last.From != 0 || profile.algorithm != controllerAlgorithm), reason == notAboveZero:
		return PathBelowMin
	case profile.algorithm == designAlgorithm && h.Last.Error != "":
		return PathMetricsFailed
	case active == nil || active.Status != ConditionFalse:
		return PathMetrics
	case active.Reason == ScalingDisabled:
		return PathScalingDisabled
	case active.Reason == string(InvalidSelector), active.Reason == string(SelectorRequired), active.Reason == string(AmbiguousSelector):
		return PathSelectorFailed
	}
	return PathMetricsFailed
}

// input returns an input that takes the same path.
func (last *lastKnown) input(in *Input) Input {
	again := Input{Namespace: in.Namespace, Spec: in.Spec, Options: in.Options, ExplainLimit: ExplainNoPods}
	switch last.path {
	case PathScaleUnavailable:
		again.ScaleError = &ScaleError{}
	case PathSelectorFailed:
		again.SelectorProblem = &SelectorProblem{Reason: InvalidSelector}
	}
	return again
}

// beforeLast returns the history before the last decision, but for a recommendation in no window that
// the decision may have replaced.
func (h *History) beforeLast(last *lastKnown) History {
	before := *h
	before.Unpack()
	before.Updated, before.Pending = time.Time{}, nil
	at := h.Last.At
	before.Recommendations = slices.DeleteFunc(slices.Clone(before.Recommendations), func(r TimedRecommendation) bool { return r.At == at })
	made := func(e ScaleEvent) bool { return e.At == at }
	before.ScaleUps = slices.DeleteFunc(slices.Clone(h.ScaleUps), made)
	before.ScaleDowns = slices.DeleteFunc(slices.Clone(h.ScaleDowns), made)
	if h.Since == at {
		before.Initialized, before.Since = false, 0
	}
	if last.path == PathMetrics && h.Last.From == 0 {
		before.Status.Conditions = setCondition(slices.Clone(h.Status.Conditions), time.Time{}, ScaledToZero, ConditionTrue, ScaledToZero, "")
	}
	return before
}

// readings are the status' of the last decision; none if the status kept those of an earlier one.
func (h *History) readings(last *lastKnown, profile *Profile) []MetricStatus {
	if profile.keepsMetrics && (last.path == PathMetricsFailed || h.Last.Outcome == Failed || h.Last.Outcome == Dropped) {
		return nil
	}
	return h.Status.CurrentMetrics
}

// recallMetrics fills in what the status has of the metrics' readings. If it has none of them, or
// those of other metrics, none is explained.
func (h *History) recallMetrics(d *Decision, last *lastKnown, profile *Profile) {
	e, statuses := d.Explanation, h.readings(last, profile)
	if len(statuses) < len(e.Metrics) || d.Path != last.path {
		e.Metrics, e.Winner = nil, -1
		return
	}
	open := 0 // how many may have made the proposal
	for i := range e.Metrics {
		m, s := &e.Metrics[i], &statuses[i]
		if m.Failure != nil {
			continue
		}
		if !s.isOf(m.Spec) {
			e.Metrics, e.Winner = nil, -1
			return
		}
		if m.Unproposed = i >= last.ProposalsLen; m.Unproposed {
			open++
		}
	}
	w := e.Winner
	switch {
	case !e.Decided:
	case w >= 0 && e.Metrics[w].Unproposed && open > 1:
		e.Winner = -1
	case w >= 0:
		e.Metrics[w].Unproposed = false
	}
	h.recallFailures(e, profile)
	for i := range e.Metrics {
		e.Metrics[i].recall(&statuses[i], h.Last.From, e.Tolerances)
	}
}

// isOf reports whether the reading is the metric's.
func (s *MetricStatus) isOf(m *MetricSpec) bool {
	return s.Type == m.Type && s.Resource == m.Resource && s.Container == m.Container && s.Metric.Name == m.Metric.Name
}

// notKept is in place of an error that nothing quotes.
const notKept = "it could not be computed; its error was not kept"

// recallFailures gives the failures the error that the status or the decision quotes, which is that
// of one of them.
func (h *History) recallFailures(e *Explanation, profile *Profile) {
	quoted := -1
	for i := range e.Metrics {
		if f := e.Metrics[i].Failure; f != nil {
			f.Inner = notKept
			if quoted < 0 || profile.partialFailure == lastFailureBlocksDown {
				quoted = i
			}
		}
	}
	if quoted < 0 {
		return
	}
	f := e.Metrics[quoted].Failure
	if active := conditionByType(h.Status.Conditions, ScalingActive); active != nil && active.Status == ConditionFalse {
		f.Reason, f.Inner = active.Reason, strings.TrimPrefix(active.Message, noCount)
	} else if _, text, ok := strings.Cut(h.Last.Error, firstError); ok {
		f.Inner = text
	}
}

// recall fills in a reading, and the arithmetic that leads from it to the proposal of the current
// replicas, if they alone do: pods without a sample and those that are not ready count, too.
func (e *MetricEvaluation) recall(s *MetricStatus, current int32, t Tolerances) {
	e.Calculation, e.Recalled = e.Spec.calculation(), true
	if e.Failure != nil {
		return
	}
	e.Current = s.Current
	target, v := &e.Spec.Target, &s.Current
	reading, of := int64(0), int64(0)
	switch {
	case e.Calculation == UtilizationCalculation && v.HasAverageUtilization:
		reading, of = int64(v.AverageUtilization), int64(*target.AverageUtilization)
	case e.Calculation == AverageValueCalculation && v.HasAverageValue && target.AverageValue != nil:
		reading, of = v.AverageValue, *target.AverageValue
	case e.Calculation == ValueCalculation && v.HasValue:
		reading, of = v.Value, *target.Value
		e.TotalUsage = v.Value
	case e.Calculation == AverageValuePerReplicaCalculation && v.HasAverageValue && v.AverageValue < math.MaxInt64/max(1, int64(current)):
		reading, of = v.AverageValue, *target.AverageValue
	}
	if of == 0 || current == 0 && e.Calculation != ValueCalculation {
		return
	}
	ratio := float64(reading) / float64(of)
	e.UsageRatio, e.Compared = ratio, true
	if e.Unproposed {
		return
	}
	if e.Calculation == AverageValuePerReplicaCalculation && !t.within(ratio) {
		// The average was rounded up: the sum that it is of is at most what the proposal serves.
		if sum := min(reading*int64(current), int64(e.Proposal)*of); sum > (reading-1)*int64(current) {
			ratio = float64(sum) / (float64(of) * float64(current))
		}
	}
	trial := *e
	trial.UsageRatio = ratio
	switch {
	case current == 0:
		trial.propose(math.Ceil(ratio), 1, false)
	case !t.within(ratio):
		trial.propose(math.Ceil(ratio*float64(current)), int(current), true)
	default:
		trial.hold(current, WithinTolerance)
	}
	if max(0, trial.Proposal) == e.Proposal {
		*e = trial
	}
}
