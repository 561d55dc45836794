package recommender

import (
	"cmp"
	"slices"
	"time"
)

// DefaultHistoryLimit is how many recommendations, and how many scale events of
// each direction, are kept before those that can't decide anything are dropped.
const DefaultHistoryLimit = 1024

// The longest window and period that the API allows.
const (
	longestWindow       = 3600 * time.Second
	longestPolicyPeriod = 1800 * time.Second
)

// compact bounds the history. It changes no answer while windows and periods
// stay as they are.
func (h *History) compact(now int64, in *Input) {
	limit := in.Options.HistoryLimit
	if limit <= 0 {
		limit = DefaultHistoryLimit
	}
	if len(h.Recommendations) > limit {
		window := max(longestWindow, in.Options.DownscaleStabilization)
		h.Recommendations = compactRecommendations(h.Recommendations, now-int64(window), limit)
	}
	if len(h.ScaleUps) > limit {
		h.ScaleUps = compactEvents(h.ScaleUps, now-int64(longestPolicyPeriod), limit)
	}
	if len(h.ScaleDowns) > limit {
		h.ScaleDowns = compactEvents(h.ScaleDowns, now-int64(longestPolicyPeriod), limit)
	}
}

// compactRecommendations drops what no trailing window can need: for the largest
// value an older entry that is not above a newer one, for the smallest one that
// is not below. Then, if that is not enough, what is older than any window, and
// in the end the oldest. The slots that stay keep their order.
func compactRecommendations(slots []TimedRecommendation, cutoff int64, limit int) []TimedRecommendation {
	byAge := make([]int, len(slots))
	for i := range byAge {
		byAge[i] = i
	}
	slices.SortStableFunc(byAge, func(a, b int) int { return cmp.Compare(slots[b].At, slots[a].At) })
	needed := make([]bool, len(slots))
	highest, lowest := slots[byAge[0]].Replicas, slots[byAge[0]].Replicas
	for rank, i := range byAge {
		r := slots[i].Replicas
		needed[i] = rank == 0 || r > highest || r < lowest
		highest, lowest = max(highest, r), min(lowest, r)
	}
	kept := keep(slots, func(i int) bool { return needed[i] })
	if len(kept) > limit {
		kept = keep(kept, func(i int) bool { return kept[i].At >= cutoff })
	}
	for len(kept) > limit {
		oldest := 0
		for i := range kept {
			if kept[i].At < kept[oldest].At {
				oldest = i
			}
		}
		kept = slices.Delete(kept, oldest, oldest+1)
	}
	return kept
}

// compactEvents drops events older than any period. If that is not enough the
// oldest are added up into the newest of them, so that no change is forgotten.
func compactEvents(events []ScaleEvent, cutoff int64, limit int) []ScaleEvent {
	kept := keep(events, func(i int) bool { return events[i].At >= cutoff })
	excess := len(kept) - limit
	if excess <= 0 {
		return kept
	}
	slices.SortStableFunc(kept, func(a, b ScaleEvent) int { return cmp.Compare(a.At, b.At) })
	for i := range excess {
		kept[excess].Change += kept[i].Change
	}
	return kept[excess:]
}

func keep[T any](s []T, wanted func(int) bool) []T {
	kept := make([]T, 0, len(s))
	for i := range s {
		if wanted(i) {
			kept = append(kept, s[i])
		}
	}
	return kept
}
