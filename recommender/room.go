package recommender

import "time"

// usualRecommendations is a Room's capacity for recommendations: those of one window of the default
// behavior, and some more.
const usualRecommendations = 24

// Room is memory for decisions made one after the other: the results of each overwrite the
// previous ones. It is not safe for concurrent use. With a nil Room each decision allocates its
// own memory.
type Room struct {
	status          statusParts
	recommendations [usualRecommendations]TimedRecommendation
}

// statusParts is memory for most statuses, in one allocation: all four conditions and a
// metric.
type statusParts struct {
	conditions [4]Condition
	metrics    [1]MetricStatus
}

// Recommend is the function Recommend. The decision and the next history are valid until the next
// call; the given history must not be from this room.
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
	clear(d.scratch.metrics) // keep no references to the input
	scratchPool.Put(d.scratch)
	return d.decision, d.next
}

// statusParts returns empty parts.
func (r *Room) statusParts() *statusParts {
	if r == nil {
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
