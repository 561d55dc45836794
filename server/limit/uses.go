package limit

import (
	"cmp"
	"slices"
	"time"
)

// Use is what an identity uses, and its limits.
type Use struct {
	// Name is the identity's; "": those that are not asked who they are, all together.
	Name string
	// Limits are those that apply to it; see Limits.
	Limits Limits
	// InFlight is units in flight, Streams open streams, and BurstLeft units that may come
	// now, where there is a rate.
	InFlight, Streams int
	BurstLeft         float64
}

// Uses returns the usage of the remembered identities, the largest first, and
// how many there are; at most so many are returned. It looks at all of them, each shard's
// lock held for a moment.
func (l *Limiter) Uses(most int) (uses []Use, total int) {
	now := l.options.Clock()
	for i := range l.identities.shards {
		s := &l.identities.shards[i]
		s.mu.Lock()
		for name, id := range s.byName {
			uses = append(uses, id.use(name, now))
		}
		s.mu.Unlock()
	}
	total = len(uses)
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.InFlight+b.Streams, a.InFlight+a.Streams), cmp.Compare(a.Name, b.Name))
	})
	return uses[:min(total, most)], total
}

// UseOf returns what one identity uses.
func (l *Limiter) UseOf(name string) Use {
	id := l.identities.find(name)
	defer id.shard.mu.Unlock()
	return id.use(name, l.options.Clock())
}

// use is what the identity uses now. Its shard is locked.
func (id *identity) use(name string, now time.Time) Use {
	u := Use{Name: name, Limits: id.limits, InFlight: int(id.units), Streams: int(id.streams)}
	if id.bucket != nil {
		u.BurstLeft = max(0, id.bucket.TokensAt(now))
	}
	return u
}

// Streams returns how many streams are open.
func (l *Limiter) Streams() int { return int(l.streams.Load()) }
