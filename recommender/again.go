package recommender

// laterRecords are the records after an instant for which a decision is repeated.
type laterRecords struct {
	recommendations      []TimedRecommendation
	scaleUps, scaleDowns []ScaleEvent
}

// until returns the history without the records after an instant, and those records.
func (h *History) until(now int64) (*History, laterRecords) {
	past := *h
	var later laterRecords
	past.Recommendations, later.recommendations = parted(h.Recommendations, func(r TimedRecommendation) bool { return r.At <= now })
	past.ScaleUps, later.scaleUps = parted(h.ScaleUps, func(e ScaleEvent) bool { return e.At <= now })
	past.ScaleDowns, later.scaleDowns = parted(h.ScaleDowns, func(e ScaleEvent) bool { return e.At <= now })
	return &past, later
}

// parted returns copies of the elements that satisfy the condition, and of the others.
func parted[T any](all []T, holds func(T) bool) (some, others []T) {
	for _, one := range all {
		if holds(one) {
			some = append(some, one)
		} else {
			others = append(others, one)
		}
	}
	return some, others
}

// take puts the records back. The lists are the history's own.
func (h *History) take(later laterRecords) {
	h.Recommendations = append(h.Recommendations, later.recommendations...)
	h.ScaleUps = append(h.ScaleUps, later.scaleUps...)
	h.ScaleDowns = append(h.ScaleDowns, later.scaleDowns...)
}
