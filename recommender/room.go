package recommender

import (
	"slices"
	"time"
)

// usualRecommendations is a Room's capacity for recommendations: those of one window of the default
// behavior, and some more.
const usualRecommendations = 24

// Room is memory for decisions made one after the other: the results of each overwrite the
// previous ones, unless Keep is called. It is not safe for concurrent use. With a nil Room each
// decision allocates its own memory.
type Room struct {
	status statusParts
	// kept is memory for the statuses of decisions that stay valid, kept[:taken] in use.
	kept            []statusParts
	taken           int
	recommendations [usualRecommendations]TimedRecommendation
}

// statusParts is memory for most statuses, in one allocation: all four conditions and a
// metric.
type statusParts struct {
	conditions [4]Condition
	metrics    [1]MetricStatus
}

// Keep makes the decisions of the next n calls of Recommend valid until the next Keep, with
// memory that stays with the Room; those of further calls have their own memory. Their next
// histories are still valid until the next call only. Keep(0) ends this.
func (r *Room) Keep(n int) {
	clear(r.kept[:r.taken])
	r.taken = 0
	if r.kept = r.kept[:0]; n > cap(r.kept) {
		r.kept = make([]statusParts, n)
	}
	r.kept = r.kept[:n]
}

// Clear ends what Keep began, and keeps nothing but empty memory.
func (r *Room) Clear() {
	r.Keep(0)
	kept := r.kept
	*r = Room{} // not a literal with kept, which would be made elsewhere and copied
	r.kept = kept
}

// Recommend is the function Recommend. The decision and the next history are valid until the next
// call, see Keep; the given history must not be from this room. A decision shares no list with the
// given history.
func (r *Room) Recommend(now time.Time, in *Input, history *History) (Decision, History) {
	if in.Options.profile().storedAsV1 {
		in = in.asStored()
	}
	var later laterRecords
	if in.Again && history != nil && now.Before(history.Updated) {
		history, later = history.until(now.UnixNano())
	}
	d := decider{in: in, room: r, scratch: scratchPool.Get().(*scratch)}
	d.start(now, history)
	d.reconcile()
	d.finish()
	d.next.take(later)
	if metrics := d.decision.Status.CurrentMetrics; r != nil && history.owns(metrics) {
		d.decision.Status.CurrentMetrics = slices.Clone(metrics)
	}
	clear(d.scratch.metrics) // keep no references to the input
	scratchPool.Put(d.scratch)
	return d.decision, d.next
}

// owns reports whether the list is one of the history's.
func (h *History) owns(metrics []MetricStatus) bool {
	isSame := func(other []MetricStatus) bool {
		return len(metrics) > 0 && len(other) > 0 && &metrics[0] == &other[0]
	}
	return h != nil && (isSame(h.Status.CurrentMetrics) || h.Pending != nil && isSame(h.Pending.PreviousMetrics))
}

// statusParts returns empty parts.
func (r *Room) statusParts() *statusParts {
	switch {
	case r == nil:
		return new(statusParts)
	case r.taken < len(r.kept):
		r.taken++
		return &r.kept[r.taken-1]
	case len(r.kept) > 0:
		return new(statusParts)
	}
	r.status = statusParts{}
	return &r.status
}

// slots returns a list of that many recommendations, with capacity for one more.
func (r *Room) slots(n int) []TimedRecommendation {
	if r == nil || n >= len(r.recommendations) {
		return make([]TimedRecommendation, n, n+1)
	}
	return r.recommendations[: n : n+1]
}
