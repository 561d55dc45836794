package overrides

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// mostCached limits the clusters in the cache. They are in as many parts as each part has at most: adding one
	// copies a part.
	mostCached = parts * mostOfPart
	parts      = 64
	mostOfPart = 64
	// mostMemory limits what the lists in the cache take, in bytes, as they are stored. Who may override in clusters of any name
	// could fill all of them.
	mostMemory = 64 << 20
)

// cache has the clusters that this instance decides for, in parts by the hash of their names.
type cache struct {
	seed  maphash.Seed
	parts *[parts]part
	// memory is what each part has of mostMemory.
	memory int
}

// part is a part of the cache. The map does not change: a cluster is added to a copy of it, with mu held.
type part struct {
	clusters atomic.Pointer[map[string]*cluster]
	mu       sync.Mutex
}

// cluster is one of the cache.
type cluster struct {
	name string
	// known is nil until the store was read.
	known atomic.Pointer[known]
	// readAt is when the last read began that succeeded, and skip until when no decision waits, because a read has
	// just failed; in nanoseconds since the Unix epoch.
	readAt, skip atomic.Int64
	// failure is why the last read failed, nil: it did not.
	failure atomic.Pointer[error]
	// used reports whether there was a decision since the last period. idle is how many periods ago the last one
	// was; only Run has it.
	used atomic.Bool
	idle int
	// empty is for how many periods the record has had nothing that is in force or will be, or was deleted lately; only Run
	// has it.
	empty int

	mu sync.Mutex
	// reads counts the reads, and least is the first of them that is of use: those before it began before a change of this
	// instance, or before one that was faster. Both guarded by mu.
	reads, least int
	// waited is closed when the read ends for which decisions wait, nil: there is none. Guarded by mu.
	waited chan struct{}
}

func newCache() cache {
	c := cache{maphash.MakeSeed(), new([parts]part), mostMemory / parts}
	for i := range c.parts {
		c.parts[i].clusters.Store(&map[string]*cluster{})
	}
	return c
}

func (c *cache) part(name string) *part { return &c.parts[maphash.String(c.seed, name)%parts] }

// find returns a cluster, nil if it is not cached.
func (c *cache) find(name string) *cluster { return (*c.part(name).clusters.Load())[name] }

// get returns a cluster, and adds it if it is not cached.
func (c *cache) get(name string) *cluster {
	p := c.part(name)
	if found := (*p.clusters.Load())[name]; found != nil {
		return found
	}
	return p.add(name)
}

func (c *cache) all() (all []*cluster) {
	for i := range c.parts {
		for _, one := range *c.parts[i].clusters.Load() {
			all = append(all, one)
		}
	}
	return all
}

func (p *part) add(name string) *cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := *p.clusters.Load()
	if found := now[name]; found != nil {
		return found
	}
	next := make(map[string]*cluster, len(now)+1)
	var least *cluster
	for name, c := range now {
		if next[name] = c; least == nil || c.worth() < least.worth() {
			least = c
		}
	}
	if len(next) >= mostOfPart {
		delete(next, least.name) // it is read again with its next decision
	}
	c := &cluster{name: string([]byte(name))} // the name may be part of a message
	c.used.Store(true)
	next[c.name] = c
	p.clusters.Store(&next)
	return c
}

// trim takes the largest lists of a part out of the cache, but that of a cluster which was just read, while they take more
// than there is for the part: each is read again with its next decision.
func (c *cache) trim(just *cluster) {
	p := c.part(just.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	all, taken := slices.Collect(maps.Values(*p.clusters.Load())), 0
	for _, one := range all {
		taken += one.memory()
	}
	if taken <= c.memory {
		return
	}
	slices.SortFunc(all, func(a, b *cluster) int { return cmp.Compare(a.memory(), b.memory()) })
	next := make(map[string]*cluster, len(all))
	for _, one := range slices.Backward(all) {
		if one == just || taken <= c.memory {
			next[one.name] = one
			continue
		}
		taken -= one.memory()
	}
	p.clusters.Store(&next)
}

// drop takes a cluster out of the cache, unless there was a decision meanwhile, and reports whether it did.
func (c *cache) drop(one *cluster) bool {
	p := c.part(one.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.used.Load() {
		return false
	}
	now := *p.clusters.Load()
	next := make(map[string]*cluster, len(now))
	for name, c := range now {
		if c != one {
			next[name] = c
		}
	}
	p.clusters.Store(&next)
	return true
}

// memory is what the list of a cluster takes.
func (c *cluster) memory() int {
	if k := c.known.Load(); k != nil {
		return k.memory()
	}
	return 0
}

// worth is how much is lost with a cluster: what was never read nothing, and overrides the most, for without the
// store they could not be read again.
func (c *cluster) worth() int {
	switch k := c.known.Load(); {
	case k == nil:
		return 0
	case k.ends.IsZero():
		return 1
	}
	return 2
}

// fresh reports whether what is known was read a moment ago, and not after now: the clock was set back then.
func (c *cluster) fresh(now time.Time) bool {
	age := now.UnixNano() - c.readAt.Load()
	return age >= 0 && age <= int64(staleAfter)
}

// due reports whether a decision waits for a read.
func (c *cluster) due(now time.Time) bool { return !c.fresh(now) && now.UnixNano() >= c.skip.Load() }

// of returns the overrides for a target, see Overrides.For.
func (c *cluster) of(key store.Key) (all []stages.Override, known bool) {
	if !c.used.Load() {
		c.used.Store(true)
	}
	k := c.known.Load()
	if k == nil {
		return nil, false
	}
	return k.of(key), true
}

// beginWait returns the end of the read for which decisions wait already. Else it is done, and beginWait
// returns nil.
func (c *cluster) beginWait(done chan struct{}) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited != nil {
		return c.waited
	}
	c.waited = done
	return nil
}

func (c *cluster) endWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = nil
}

// learn takes what a read has found, unless this instance has changed something meanwhile, or a later read
// was faster. It returns what it takes the place of, nil: nothing.
func (r reading) learn(k *known) (old *known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts() {
		old = r.known.Swap(k)
	}
	return old
}

// confirm takes that a read has found what is known.
func (r reading) confirm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts()
}

// counts reports whether a read is of use. The caller has locked mu.
func (r reading) counts() bool {
	if r.number < r.least {
		return false
	}
	r.least = r.number
	r.readAt.Store(r.began.UnixNano())
	return true
}
