package recordings

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/store"
)

// room says which targets are kept where there are more than fit. Each is counted with the bytes that it may take,
// so that those that are kept never grow beyond the room; and which they are depends on their names, so that all
// instances keep the same ones, for as long as the room stays as it is.
type room struct {
	engine store.Usages // nil: it can't count
	parts  atomic.Pointer[parts]
}

// parts are the parts of the targets that are kept, of 1<<32.
type parts struct {
	of   map[string]uint32 // by cluster
	rest uint32            // of clusters that are not yet counted
	most map[string]int64  // tails, by cluster
}

// maxClusters limits the clusters that are counted at once.
const maxClusters = 256

// keeps reports whether a target is kept.
func (r *room) keeps(key *store.Key) bool {
	p := r.parts.Load()
	if p == nil {
		return true
	}
	part, ok := p.of[key.Cluster]
	if !ok {
		part = p.rest
	}
	const spread = 2654435769 // the golden ratio's: shards use the lower bits
	return part == math.MaxUint32 || hashOf(key)*spread < part
}

// most is how many targets of a cluster may be kept at once, if it was counted.
func (r *room) most(cluster string) (n int64, counted bool) {
	p := r.parts.Load()
	if p == nil {
		return 0, false
	}
	n, counted = p.most[cluster]
	return n, counted
}

// least is the part of the targets that are kept, in the cluster of which the least are.
func (r *room) least() float64 {
	p := r.parts.Load()
	if p == nil {
		return 1
	}
	part := p.rest
	for _, of := range p.of {
		part = min(part, of)
	}
	return float64(part) / math.MaxUint32
}

// divide counts the targets and divides the room among clusters: half of total by their targets, and half in equal
// parts, so that no cluster takes the room of the others; of each no more than its share of the store. each are the
// bytes of a target. What a small cluster does not need the others have. If the store can't count, the parts stay as they were.
func (r *room) divide(ctx context.Context, each, total int64, clusters map[string]int64) {
	if r.engine == nil {
		return
	}
	all, err := r.engine.Usage(ctx, "")
	if err != nil {
		return
	}
	room := float64(math.MaxInt64)
	if total > 0 {
		room = float64(total / each)
	}
	count := float64(all.Keys)
	fits := count <= room
	for _, most := range clusters {
		fits = fits && (most <= 0 || all.Keys*each <= most)
	}
	if fits {
		r.parts.Store(nil)
		return
	}
	targets := make(map[string]float64)
	equal, taken := room/2/float64(len(clusters)), 0.0
	for cluster := range clusters {
		if len(targets) >= maxClusters {
			break
		}
		of, err := r.engine.Usage(ctx, cluster)
		if err != nil {
			return
		}
		targets[cluster] = float64(of.Keys)
		taken += min(equal, targets[cluster])
	}
	// What the equal parts leave is divided by the targets that are left.
	further := 1.0
	if count > room {
		further = min(1, (room-taken)/max(1, count-taken))
	}
	next := &parts{of: make(map[string]uint32), most: make(map[string]int64), rest: math.MaxUint32}
	if count > room && len(clusters) > len(targets) {
		next.rest = partOf(further, 1)
	}
	for cluster, own := range targets {
		kept := min(equal, own)
		kept += (own - kept) * further
		if most := clusters[cluster]; most > 0 {
			kept = min(kept, float64(most/each))
		}
		next.of[cluster] = partOf(likely(kept, own), own)
		next.most[cluster] = int64(kept)
		if kept >= own { // until the next count there may be some more of it
			next.most[cluster] = int64(own*1.25) + 16
		}
	}
	r.parts.Store(next)
}

// likely is how many of all names to choose by their hashes, so that chance chooses more than fit in one of a thousand
// divisions: three standard deviations fewer, of the binomial distribution.
func likely(fit, all float64) float64 {
	if fit >= all {
		return all
	}
	return max(fit/2, fit-3*math.Sqrt(fit*(1-fit/all)))
}

// partOf is a part of 1<<32; all of them, if there are no more.
func partOf(kept, all float64) uint32 {
	if kept >= all {
		return math.MaxUint32
	}
	return uint32(kept / all * math.MaxUint32)
}
