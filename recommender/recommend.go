package recommender

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/arena"
)

// decider is the state of one decision.
type decider struct {
	in      *Input
	profile *Profile
	// behavior is the spec's; nil if the profile has none.
	behavior *Behavior
	now      time.Time
	nowNanos int64
	// initializing is the start time after which a pod is initializing.
	initializing        time.Time
	initializingSeconds int64 // since 1970
	current             int32
	tolerances          Tolerances
	scratch             *scratch
	memory              *memory
	status              *arena.Status[Condition, MetricStatus]
	decision            Decision
	next                History
	trace               Explanation
	// explainable is how many more pods the explanation may list.
	explainable int
	// previousDesired is the status' before this evaluation.
	previousDesired int32
	// changesLast reports whether policies counted changes that may count for longer than
	// upstream's.
	changesLast bool
	// recordsFailed is Combining.RecordsFailed.
	recordsFailed bool
	// edited reports whether the seam edited the proposals; plain is the count that the engine would have
	// decided otherwise.
	edited bool
	plain  int32
	// unableSince is since when AbleToScale has been False; for HoldDown.
	unableSince time.Time
}

// scratch is memory that decisions reuse.
type scratch struct {
	samples sampleSet
	metrics []MetricEvaluation
	memory  memory // of Proposals
	// Of the seam, which gets pointers.
	combining  Combining
	conditions Conditions
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// Recommend decides for the instant now. If now is before the history's newest record, that
// record's instant is used instead; with Input.Again now stays, and records of later instants
// are ignored but kept. Recommend returns the decision, and the history to store to make the
// decision count. It does not change the given history, which is nil for a new target.
func Recommend(now time.Time, in *Input, history *History) (Decision, History) {
	return RecommendIn(nil, now, in, history)
}

// memory is what a service has decisions reuse.
type memory = arena.Decisions[Condition, MetricStatus, TimedRecommendation]

// RecommendIn is Recommend for this module's service: the decision and the next history are in the
// memory, and valid until the next call, see its Keep; the given history must not be in it. A
// decision shares no list with the given history.
func RecommendIn(memory *memory, now time.Time, in *Input, history *History) (Decision, History) {
	if in.Options.profile().storedAsV1 {
		in = in.asStored()
	}
	if history != nil && history.Packed != nil && !history.decidesPacked(now.UnixNano(), in) {
		unpacked := *history
		unpacked.Unpack()
		history = &unpacked
	}
	var later laterRecords
	if in.Again && history != nil && now.Before(history.Updated) {
		history, later = history.until(now.UnixNano())
	}
	d := decider{in: in, memory: memory, scratch: scratchPool.Get().(*scratch)}
	d.start(now, history)
	d.reconcile()
	d.finishBySeam()
	d.finish()
	d.next.take(later)
	if metrics := d.decision.Status.CurrentMetrics; memory != nil && history.owns(metrics) {
		d.decision.Status.CurrentMetrics = slices.Clone(metrics)
	}
	clear(d.scratch.metrics) // keep no references to the input
	if in.Seam != nil {
		d.scratch.combining, d.scratch.conditions = Combining{}, Conditions{}
	}
	scratchPool.Put(d.scratch)
	return d.decision, d.next
}

// Proposals yields what each of some metrics, given by their indices in the spec, proposes by itself in a decision of that
// instant; failed: nothing. i is the index in metrics. It yields none where the decision does not follow metrics. It is for
// profiles that add up.
func Proposals(now time.Time, in *Input, history *History, metrics []int, yield func(i int, proposal int32, failed bool)) {
	d := decider{in: in, scratch: scratchPool.Get().(*scratch)}
	d.memory = &d.scratch.memory
	if d.start(now, history); d.followsMetrics() {
		for i, metric := range metrics {
			e := d.evaluate(metric)
			yield(i, e.Proposal, e.Failure != nil)
		}
	}
	d.memory.Clear()
	scratchPool.Put(d.scratch)
}

// owns reports whether the list is one of the history's.
func (h *History) owns(metrics []MetricStatus) bool {
	isSame := func(other []MetricStatus) bool {
		return len(metrics) > 0 && len(other) > 0 && &metrics[0] == &other[0]
	}
	return h != nil && (isSame(h.Status.CurrentMetrics) || h.Pending != nil && isSame(h.Pending.PreviousMetrics))
}

func (d *decider) start(now time.Time, history *History) {
	if history != nil {
		d.next = *history
	}
	if now.Before(d.next.Updated) && !d.in.Again {
		now = d.next.Updated
	}
	if !d.next.Seen && d.in.PreviousStatus != nil {
		d.next.Status = d.in.PreviousStatus.present(now)
	}
	d.now, d.nowNanos = now, now.UnixNano()
	d.profile = d.in.Options.profile()
	if d.profile.Behavior() {
		d.behavior = d.in.Spec.Behavior
	}
	d.trace.Winner = -1
	d.initializing = now.Add(-d.in.Options.CPUInitializationPeriod)
	d.initializingSeconds = d.initializing.Unix()
	// Conditions are changed in place below.
	d.status = d.memory.Status()
	d.next.Status.Conditions = append(d.status.Conditions[:0], d.next.Status.Conditions...)
	if d.in.ScaleError == nil {
		d.decision.SettledBefore = d.next.settleBySight(d.in.Scale.SpecReplicas)
	}
	d.current = d.in.Scale.SpecReplicas
	d.previousDesired = d.next.Status.DesiredReplicas
	if d.in.HoldDown {
		d.unableSince = unableSince(d.next.Status.Conditions)
	}
	d.tolerances = tolerancesOf(d.behavior, &d.in.Options, d.profile)
	d.decision.ID, d.decision.At = d.in.ID, now
	d.decision.Current, d.decision.Desired = d.current, d.current
	if d.in.Explain {
		if d.explainable = max(0, d.in.ExplainLimit); d.in.ExplainLimit == 0 {
			d.explainable = DefaultExplainLimit
		}
		d.trace.History = d.summarize()
	}
}

// summarize summarizes the history before the decision.
func (d *decider) summarize() HistorySummary {
	s := HistorySummary{
		Recommendations: d.next.recommendations(),
		ScaleUps:        len(d.next.ScaleUps), ScaleDowns: len(d.next.ScaleDowns),
		Since: d.next.Since, Oldest: d.next.oldest(),
	}
	longest := d.in.Options.DownscaleStabilization
	if d.behavior != nil {
		up, down := d.windows()
		longest = max(up, down)
	}
	// Only windows depend on the time before this history.
	s.Younger = d.profile.algorithm == controllerAlgorithm && (!d.next.Initialized || d.nowNanos-d.next.Since < int64(longest))
	return s
}

// finish completes the decision and the history after it.
func (d *decider) finish() {
	n := &d.next
	if n.Seen = true; n.Updated.Before(d.now) {
		n.Updated = d.now
	}
	n.Target = d.in.Spec.ScaleTargetRef
	outcome := NotChanged
	if d.decision.Changes() {
		outcome = Undecided
	}
	n.Last = LastDecision{
		ID: d.in.ID, At: d.nowNanos, From: d.decision.Current, To: d.decision.Desired,
		Reason: d.decision.Reason, Error: d.decision.Error, Outcome: outcome,
	}
	d.compact()
	if len(n.Status.Conditions) == 0 {
		n.Status.Conditions = nil // as decoding returns it: design-2015 has none
	}
	d.decision.Status = n.Status
	d.setBasis()
	if d.in.Explain {
		d.explain()
	}
}

func (d *decider) explain() {
	t := d.trace
	t.Tolerances = d.tolerances
	t.Profile = d.profile.Name()
	t.Warnings = append(append(t.Warnings, d.ignored()...), d.in.Notes...)
	d.decision.Explanation = &t
}

func (o *Options) profile() *Profile {
	if o.Profile == nil {
		return &v136
	}
	return o.Profile
}

func (d *decider) setCondition(kind, status, reason, message string) {
	d.next.Status.Conditions = setCondition(d.next.Status.Conditions, d.now, kind, status, reason, message)
}

// event adds a warning event. Before a change is settled there are no others.
func (d *decider) event(reason, message string) {
	d.decision.Events = append(d.decision.Events, Event{EventWarning, reason, message})
}

// ref is kind/namespace/name of the workload.
func (d *decider) ref() string { return reference(&d.in.Spec.ScaleTargetRef, d.in.Namespace) }

func reference(target *ObjectReference, namespace string) string {
	return target.Kind + "/" + namespace + "/" + target.Name
}

func formatReplicas(n int32) string { return strconv.Itoa(int(n)) }
