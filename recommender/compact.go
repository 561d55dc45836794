package recommender

import (
	"cmp"
	"slices"
	"time"
)

// DefaultHistoryLimit is how many recommendations, and how many scale events of
// each direction, are kept as upstream keeps them: enough for one evaluation a
// second, with some jitter, under the longest windows.
const DefaultHistoryLimit = 4096

// Bounds of a history limit.
const (
	// LeastHistoryLimit is the smallest limit: any window needs the newest, the lowest
	// and the highest recommendation.
	LeastHistoryLimit = 8
	// MostHistoryLimit is the largest limit that a service should allow, because each
	// call stores the history: one with so many recommendations takes some 200 kB.
	MostHistoryLimit = 1 << 15
)

// The longest window and period that the API allows.
const (
	longestWindow       = 3600 * time.Second
	longestPolicyPeriod = 1800 * time.Second
)

// compact bounds the history.
//
// Up to the limit the lists are upstream's slots, and every answer is upstream's. A
// list that has once exceeded it no longer equals upstream's slots. From then on it
// holds the records of the longest possible window or period, whatever windows apply
// now, except
//   - recommendations that no trailing window can need: for the largest value older
//     ones that are not above a newer one, for the smallest those that are not below;
//   - if the others still exceed the limit, those that a neighbor in time can replace:
//     the higher of two high ones, or the lower of two low ones, at the instant of the
//     newer. Those in no current window are replaced first.
//
// Beyond the limit one scale event replaces several, as their sum.
//
// So beyond the limit an answer is still upstream's unless windows were lengthened or
// something was thinned. Where it is not, a recommendation or a change counts for
// longer: it keeps the count where upstream would already change it, never the reverse.
func (d *decider) compact() {
	h, limit := &d.next, d.in.Options.historyLimit()
	if len(h.Recommendations) > limit {
		h.RecommendationsLimited = true
		var thinned int64
		h.Recommendations, thinned = compactRecommendations(h.Recommendations, d.nowNanos-int64(d.longestWindow()), d.nowNanos-int64(d.windowsNow()), limit)
		h.LastingUntil = max(h.LastingUntil, thinned)
	}
	for _, events := range []*[]ScaleEvent{&h.ScaleUps, &h.ScaleDowns} {
		if len(*events) > limit {
			h.EventsLimited = true
			*events = compactEvents(*events, d.nowNanos-int64(longestPolicyPeriod), limit)
		}
	}
}

func (o *Options) historyLimit() int {
	if o.HistoryLimit <= 0 {
		return DefaultHistoryLimit
	}
	return max(o.HistoryLimit, LeastHistoryLimit)
}

// longestWindow is the longest that may apply now or after a change of the spec.
func (d *decider) longestWindow() time.Duration {
	return max(longestWindow, d.in.Options.DownscaleStabilization, d.windowsNow())
}

// windowsNow is the longer of the windows that apply now.
func (d *decider) windowsNow() time.Duration {
	if d.behavior == nil {
		return d.in.Options.DownscaleStabilization
	}
	up, down := d.windows()
	return max(up, down)
}

// afterThinning is below the limit, so that the next calls need not thin again.
func afterThinning(limit int) int { return limit - limit/8 }

// compactRecommendations drops recommendations that are older than the cutoff or that
// no trailing window can need. If more than the limit remain, it thins them, first
// those older than the current windows, that is, before obsolete. It returns the rest,
// oldest first, and the newest instant of those that replace others; 0: none does.
func compactRecommendations(slots []TimedRecommendation, cutoff, obsolete int64, limit int) (kept []TimedRecommendation, thinned int64) {
	byAge := sorted(slices.Clone(slots))
	last := len(byAge) - 1
	newest := byAge[last]
	highest, lowest, first := newest.Replicas, newest.Replicas, last
	for i := last - 1; i >= 0 && byAge[i].At >= cutoff; i-- {
		if r := byAge[i]; r.Replicas > highest || r.Replicas < lowest {
			first--
			byAge[first] = r
			highest, lowest = max(highest, r.Replicas), min(lowest, r.Replicas)
		}
	}
	byAge = byAge[first:]
	if len(byAge) <= limit {
		return byAge, 0
	}
	// From the newest back, those above it rise and those below it fall.
	inWindows, _ := slices.BinarySearchFunc(byAge, obsolete, func(r TimedRecommendation, at int64) int { return cmp.Compare(r.At, at) })
	inWindows = min(inWindows, len(byAge)-1)
	var before []TimedRecommendation // those in no window
	for shift := range 64 {
		before, thinned = thinRecommendations(byAge[:inWindows], newest.Replicas, shift)
		if len(before)+len(byAge)-inWindows <= afterThinning(limit) {
			break
		}
	}
	kept = slices.Concat(before, byAge[inWindows:])
	for shift := 0; len(kept) > limit || shift > 0 && len(kept) > afterThinning(limit); shift++ {
		var within []TimedRecommendation
		within, thinned = thinRecommendations(byAge[inWindows:last-first], newest.Replicas, shift)
		kept = append(append(before[:len(before):len(before)], within...), newest)
	}
	return sorted(kept), thinned
}

// sorted sorts recommendations in place, the oldest first.
func sorted(slots []TimedRecommendation) []TimedRecommendation {
	older := func(a, b TimedRecommendation) int { return cmp.Compare(a.At, b.At) }
	if !slices.IsSortedFunc(slots, older) {
		slices.SortStableFunc(slots, older)
	}
	return slots
}

// thinRecommendations makes one of the high recommendations, and one of the low ones,
// of each 1<<shift nanoseconds: the oldest, which is the highest or the lowest, at the
// instant of the newest. As these spans of time are the same at each call, and those of
// one shift lie within those of the next, thinning again and again makes none last
// longer than one span. High is what is above the newest recommendation of all.
func thinRecommendations(byAge []TimedRecommendation, newest int32, shift int) (kept []TimedRecommendation, thinned int64) {
	kept = make([]TimedRecommendation, 0, len(byAge)+1)
	at := [2]int{-1, -1} // where the last high and the last low one are
	for _, r := range byAge {
		side := 0
		if r.Replicas < newest {
			side = 1
		}
		if i := at[side]; i >= 0 && kept[i].At>>shift == r.At>>shift {
			kept[i].At = r.At
			thinned = max(thinned, r.At)
			continue
		}
		at[side] = len(kept)
		kept = append(kept, r)
	}
	return kept, thinned
}

// compactEvents drops events older than the cutoff. If that is not enough, one event
// replaces those of each 1<<shift nanoseconds, as their sum, with the least shift that
// leaves few enough.
func compactEvents(events []ScaleEvent, cutoff int64, limit int) []ScaleEvent {
	byAge := slices.DeleteFunc(slices.Clone(events), func(e ScaleEvent) bool { return e.At < cutoff })
	slices.SortStableFunc(byAge, func(a, b ScaleEvent) int { return cmp.Compare(a.At, b.At) })
	kept := byAge
	for shift := 0; len(kept) > limit || shift > 0 && len(kept) > afterThinning(limit); shift++ {
		kept = addUpEvents(byAge, shift)
	}
	return kept
}

func addUpEvents(byAge []ScaleEvent, shift int) []ScaleEvent {
	kept := make([]ScaleEvent, 0, len(byAge))
	for _, e := range byAge {
		i := len(kept) - 1
		if i < 0 || kept[i].At>>shift != e.At>>shift {
			kept = append(kept, e)
			continue
		}
		sum := &kept[i]
		first := min(sum.At-sum.Span, e.At-e.Span)
		sum.Change += e.Change
		sum.Outdated = sum.Outdated || e.Outdated
		sum.At, sum.Span = e.At, e.At-first
	}
	return kept
}
