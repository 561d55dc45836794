package recommender

import (
	"slices"
	"time"
)

// WithoutFuture returns the history with all records later than the given instant moved to
// it. A wrong clock made such records: the events are real, but their time is unknown.
//   - The highest recommendation counts as made now, so that no scale-down comes too
//     early; lower ones are dropped, because they would delay scale-ups. A scale-up is
//     delayed by one more window at most.
//   - Changes count as made now, so that policies allow no more than they should.
//   - The last change of the replicas and conditions get the instant now.
//
// A history without such records is returned unchanged.
func (h History) WithoutFuture(now time.Time) History {
	if !h.Updated.After(now) {
		return h
	}
	h.Unpack()
	nanos := now.UnixNano()
	h.Updated, h.Since = now, min(h.Since, nanos)
	h.LastingUntil = min(h.LastingUntil, nanos)
	h.Recommendations = presentRecommendations(h.Recommendations, nanos)
	h.ScaleUps, h.ScaleDowns = presentEvents(h.ScaleUps, nanos), presentEvents(h.ScaleDowns, nanos)
	h.Status = h.Status.present(now)
	if h.Pending != nil {
		pending := *h.Pending
		pending.At = min(pending.At, nanos)
		h.Pending = &pending
	}
	h.Last.At = min(h.Last.At, nanos)
	return h
}

func presentRecommendations(slots []TimedRecommendation, now int64) []TimedRecommendation {
	highest := -1
	for i, r := range slots {
		if r.At > now && (highest < 0 || r.Replicas > slots[highest].Replicas) {
			highest = i
		}
	}
	kept := make([]TimedRecommendation, 0, len(slots))
	for i, r := range slots {
		if i == highest || r.At <= now {
			r.At = min(r.At, now)
			kept = append(kept, r)
		}
	}
	return kept
}

func presentEvents(events []ScaleEvent, now int64) []ScaleEvent {
	events = slices.Clone(events)
	for i := range events {
		events[i].At = min(events[i].At, now)
	}
	return events
}

func (s Status) present(now time.Time) Status {
	if s.LastScaleTime.After(now) {
		s.LastScaleTime = now
	}
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.LastTransitionTime.After(now) {
			c.LastTransitionTime = now
		}
	}
	return s
}
