package limit

import (
	"cmp"
	"slices"
	"time"
)

// Use is an identity's usage, and its limits.
type Use struct {
	// Name is the identity's name; "": all callers together while authentication is
	// off.
	Name string
	// Limits are its limits; see Limits.
	Limits Limits
	// InFlight is units in flight, Streams open streams, and BurstLeft the remaining
	// burst, if there is a rate.
	InFlight, Streams int
	BurstLeft         float64
}

// Uses returns the usage of the known identities, the largest first, at most that many,
// and the number of identities. It visits all of them, with each shard locked for a
// moment.
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

// UseOf returns the usage of one identity.
func (l *Limiter) UseOf(name string) Use {
	id := l.identities.find(name)
	defer id.shard.mu.Unlock()
	return id.use(name, l.options.Clock())
}

// use is the identity's current usage. The caller has locked its shard.
func (id *identity) use(name string, now time.Time) Use {
	u := Use{Name: name, Limits: id.limits, InFlight: int(id.units), Streams: int(id.streams)}
	if id.bucket != nil {
		u.BurstLeft = max(0, id.bucket.TokensAt(now))
	}
	return u
}

// Streams returns how many streams are open.
func (l *Limiter) Streams() int { return int(l.streams.Load()) }
