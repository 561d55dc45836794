package recommender

import "slices"

// Merge combines two histories that descend from the same one: stored is the store's, local
// the one that decisions used while the store was unavailable. The history of a target that
// was never evaluated adds nothing. Merge changes neither; the result may share parts with
// both. Merging local again changes nothing.
//
// Local's records come after stored's; lists may be as long as both together until the next
// decision bounds them. If stored is still the history that local descends from, store local
// instead: a merge brings back the slots that local has used again.
//
// A decision on the merged history is the one that a single history of the same records
// would give. At the same instant it never changes the count by more than a decision on one
// side alone, up or down: a window with more recommendations keeps the count where it is or
// closer to it, and a policy that counts more changes of its direction allows fewer. The
// exceptions:
//   - a policy counts changes of the other direction that only the other side knew. Example:
//     "at most 2 pods down" of 10 replicas allows 8. If the other side added 4 of them within
//     the period, the period began at 6, and it allows 4;
//   - there is no behavior: a higher recommendation in the downscale window keeps the count,
//     and may raise it;
//   - a change was dropped on one side, or for a later one of the other side, and applied
//     after all: no policy counts it;
//   - one side had not seen the count yet: alone it would keep that for a window;
//   - one side has added up changes beyond its limit: the other direction's policies may
//     count them twice.
func Merge(stored, local History) History {
	switch {
	case !stored.Seen:
		return local
	case !local.Seen:
		return stored
	}
	for _, h := range []*History{&stored, &local} { // changed in place below
		h.Unpack()
		h.Status.Conditions = slices.Clone(h.Status.Conditions)
	}
	settleEachOther(&stored, &local)
	merged := stored
	if local.Updated.After(stored.Updated) {
		merged.Updated, merged.Status, merged.Target, merged.Last = local.Updated, local.Status, local.Target, local.Last
	}
	merged.Status.takeLastChange(&stored.Status)
	merged.Status.takeLastChange(&local.Status)
	merged.Initialized = stored.Initialized || local.Initialized
	if stored.Since == 0 || local.Since != 0 && local.Since < stored.Since {
		merged.Since = local.Since
	}
	merged.Recommendations = union(stored.Recommendations, local.Recommendations,
		func(r TimedRecommendation) TimedRecommendation { return r },
		func(stored, _ TimedRecommendation) TimedRecommendation { return stored })
	merged.RecommendationsLimited = stored.RecommendationsLimited || local.RecommendationsLimited
	merged.LastingUntil = max(stored.LastingUntil, local.LastingUntil)
	merged.EventsLimited = stored.EventsLimited || local.EventsLimited
	merged.ScaleUps = union(stored.ScaleUps, local.ScaleUps, ScaleEvent.identity, ScaleEvent.with)
	merged.ScaleDowns = union(stored.ScaleDowns, local.ScaleDowns, ScaleEvent.identity, ScaleEvent.with)
	if stored.Pending == nil {
		merged.Pending = local.Pending
	}
	merged.Settled = mergeSettled(stored.Settled, local.Settled)
	return merged
}

// settleEachOther leaves at most one change pending, on one side or the same on both;
// conditions are changed in place. A change that the other side has settled gets the
// same outcome here. Of two pending changes the earlier one gets the outcome that one
// history would have given it, by the replicas that the later decision saw: 5 to 8 is
// applied if the later one started at 8, else dropped.
func settleEachOther(stored, local *History) {
	if p := stored.Pending; p != nil && local.Last.ID == p.ID && local.Last.Outcome == NotChanged {
		// The same decision: its record succeeded, the reply was lost, and it was decided
		// again with its scale-down withheld. The caller has the latter.
		stored.settleAs(Dropped)
	}
	stored.settleAsIn(local)
	local.settleAsIn(stored)
	switch a, b := stored.Pending, local.Pending; {
	case a == nil || b == nil || a.ID == b.ID:
	case a.At < b.At:
		stored.settleBySight(b.From)
	default:
		local.settleBySight(a.From)
	}
}

// settleAsIn settles the pending change if the other side knows its outcome.
func (h *History) settleAsIn(other *History) {
	for i := range other.Settled {
		if h.Pending != nil && h.Pending.ID == other.Settled[i].ID {
			h.settleAs(other.Settled[i].Outcome)
		}
	}
}

// takeLastChange takes what the last change of the replicas has left in the other
// status, if it is later: its instant, and the condition ScaledToZero. A side that only
// observed later must not undo that condition, or nothing would scale from zero again.
// Conditions are changed in place.
func (s *Status) takeLastChange(other *Status) {
	if !other.LastScaleTime.After(s.LastScaleTime) {
		return
	}
	s.LastScaleTime = other.LastScaleTime
	to, from := conditionByType(s.Conditions, ScaledToZero), conditionByType(other.Conditions, ScaledToZero)
	switch {
	case from == nil:
		s.Conditions = removeCondition(s.Conditions, ScaledToZero)
	case to == nil:
		s.Conditions = append(s.Conditions, *from)
	default:
		*to = *from
	}
}

// eventIdentity identifies an event.
type eventIdentity struct {
	change int32
	at     int64
}

func (e ScaleEvent) identity() eventIdentity { return eventIdentity{e.Change, e.At} }

// with returns the event that both sides have: its slot may be reused if both say so.
func (e ScaleEvent) with(other ScaleEvent) ScaleEvent {
	e.Outdated = e.Outdated && other.Outdated
	return e
}

// union returns stored's entries and then local's that stored lacks. It keeps as many
// entries of one identity as the side that has more of them: two changes by 1 at one
// instant are two. both merges an entry that both sides have.
func union[T any, K comparable](stored, local []T, identity func(T) K, both func(stored, local T) T) []T {
	merged := slices.Clone(stored)
	places := make(map[K][]int, len(stored))
	for i := range stored {
		id := identity(stored[i])
		places[id] = append(places[id], i)
	}
	for _, l := range local {
		id := identity(l)
		if known := places[id]; len(known) > 0 {
			merged[known[0]], places[id] = both(stored[known[0]], l), known[1:]
			continue
		}
		merged = append(merged, l)
	}
	return merged
}

// mergeSettled returns the last MaxSettled changes of both, with stored's outcome for
// those that both know. An entry that local lists before a common one is older than all
// of stored's, which has dropped it.
func mergeSettled(stored, local []Settled) []Settled {
	known := func(s Settled) bool {
		return slices.ContainsFunc(stored, func(k Settled) bool { return k.ID == s.ID })
	}
	var before, after []Settled
	for _, s := range local {
		if known(s) {
			before, after = append(before, after...), nil
			continue
		}
		after = append(after, s)
	}
	merged := slices.Concat(before, stored, after)
	return merged[max(0, len(merged)-MaxSettled):]
}
