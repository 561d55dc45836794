package record

import (
	"slices"

	"github.com/setpoint-dev/setpoint/recommender"
)

// maxMergedAnswers is how many answers a merged record may keep even if neither side
// had as many. Each may have an explanation, and nothing else limits them until the
// next one is recorded.
const maxMergedAnswers = 32

// Merge combines two records that descend from the same one, as recommender.Merge combines their
// histories: stored is the store's, local the one that decisions used while the store was
// unavailable.
func Merge(stored, local *Record) Record {
	switch {
	case !stored.Seen:
		return *local
	case !local.Seen:
		return *stored
	case !stored.IsOfCluster(local.Cluster):
		// Two clusters with one name: the store's side already owns the target, and all
		// others see that.
		return *stored
	case !stored.IsOf(local.Incarnation):
		// Two successive objects with one name: the record is that of the later one.
		later := *stored
		if local.Updated.After(stored.Updated) {
			later = *local
		}
		later.Cluster = max(stored.Cluster, local.Cluster)
		return later
	}
	merged := Record{History: recommender.Merge(stored.History, local.History), Frame: stored.Frame}
	if merged.Incarnation == 0 {
		merged.Incarnation = local.Incarnation
	}
	merged.Cluster = max(stored.Cluster, local.Cluster) // equal, or one of them is 0
	if local.Updated.After(stored.Updated) {            // whose last decision it is
		merged.LastRequest, merged.LastPoll = local.LastRequest, local.LastPoll
		merged.Spec, merged.Stages, merged.Adjusted = local.Spec, local.Stages, local.Adjusted
	}
	merged.PendingRequest = ""
	for _, side := range []*Record{local, stored} {
		if merged.Pending != nil && side.Pending != nil && side.Pending.ID == merged.Pending.ID {
			merged.PendingRequest = side.PendingRequest
		}
	}
	merged.mergedPace(stored, local)
	merged.Answers = mergeAnswers(stored.Answers, local.Answers)
	return merged
}

// mergeAnswers returns the answers of both by their instants. Where both answered one request,
// stored's answer is kept, unless both belong to the same decision: then no caller saw
// stored's, for it would not have been decided again. Only the newest remain: as many as the
// side with more of them, and at least maxMergedAnswers.
func mergeAnswers(stored, local []Answer) []Answer {
	stored = slices.Clone(stored)
	known := make(map[string]int, len(stored))
	for i := range stored {
		known[stored[i].RequestID] = i
	}
	missing := slices.DeleteFunc(slices.Clone(local), func(a Answer) bool {
		i, twice := known[a.RequestID]
		if twice && a.ID != (recommender.ID{}) && stored[i].ID == a.ID && stored[i].At == a.At {
			stored[i] = a
		}
		return twice
	})
	var merged []Answer
	for _, a := range stored {
		// At the same instant local's come first, so that an entry left out here stays
		// out.
		for len(missing) > 0 && missing[0].At <= a.At {
			merged, missing = append(merged, missing[0]), missing[1:]
		}
		merged = append(merged, a)
	}
	merged = append(merged, missing...)
	return merged[max(0, len(merged)-max(len(stored), len(local), maxMergedAnswers)):]
}
