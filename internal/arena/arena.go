// Package arena is memory that the engine's decisions reuse, for a service that makes thousands a
// second: results in it are overwritten by later ones, which is no promise for a library.
//
// The type parameters are the engine's conditions, statuses of metrics and timed recommendations.
package arena

// usualRecommendations are those of one window of the default behavior, and some more.
const usualRecommendations = 24

// Decisions is memory for decisions made one after the other: the results of each overwrite the
// previous ones, unless Keep is called. It is not safe for concurrent use. With nil each decision
// allocates its own memory.
type Decisions[C, M, R any] struct {
	status Status[C, M]
	// kept is memory for the statuses of decisions that stay valid, kept[:taken] in use.
	kept            []Status[C, M]
	taken           int
	recommendations [usualRecommendations]R
}

// Status is memory for most statuses, in one allocation: all four conditions and a metric.
type Status[C, M any] struct {
	Conditions [4]C
	Metrics    [1]M
}

// Keep makes the next n decisions valid until the next Keep, with memory that stays here; further
// ones have their own memory. Their next histories are still valid until the next decision only.
// Keep(0) ends this.
func (d *Decisions[C, M, R]) Keep(n int) {
	clear(d.kept[:d.taken])
	d.taken = 0
	if d.kept = d.kept[:0]; n > cap(d.kept) {
		d.kept = make([]Status[C, M], n)
	}
	d.kept = d.kept[:n]
}

// Clear ends what Keep began, and keeps nothing but empty memory.
func (d *Decisions[C, M, R]) Clear() {
	d.Keep(0)
	kept := d.kept
	*d = Decisions[C, M, R]{} // a literal with kept would be a temporary that is copied
	d.kept = kept
}

// Status returns empty memory for the status of the next decision.
func (d *Decisions[C, M, R]) Status() *Status[C, M] {
	switch {
	case d == nil:
		return new(Status[C, M])
	case d.taken < len(d.kept):
		d.taken++
		return &d.kept[d.taken-1]
	case len(d.kept) > 0:
		return new(Status[C, M])
	}
	d.status = Status[C, M]{}
	return &d.status
}

// Recommendations returns a list of that many recommendations, with capacity for one more.
func (d *Decisions[C, M, R]) Recommendations(n int) []R {
	if d == nil || n >= len(d.recommendations) {
		return make([]R, n, n+1)
	}
	return d.recommendations[: n : n+1]
}
