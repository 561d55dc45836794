package limit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// identityShards is how many locks the identities are spread over.
const identityShards = 64

// identities are the remembered identities.
type identities struct {
	options    *Options
	seed       maphash.Seed
	shards     []identityShard
	perShard   int
	generation atomic.Uint64
	// active is how many identities called in the last epoch, calling how many have called
	// so far in this one.
	active, calling atomic.Int64
	epoch           atomic.Int64
}

type identityShard struct {
	mu     sync.Mutex
	byName map[string]*identity // guarded by mu
	// shared is used by identities beyond the limit.
	shared *identity // used by identities beyond the limit; guarded by mu
	calls  uint64    // calls so far; guarded by mu
	_      [32]byte  // fills a cache line
}

// identity is one caller.
type identity struct {
	shard *identityShard

	// running is changed with shard.mu locked. entering counts the calls from connections that were this caller's, until
	// it is known whose they are: see Origin.
	running, entering atomic.Int64

	// The other fields are guarded by shard.mu.

	generation     uint64
	limits         Limits
	bucket         *rate.Limiter // nil: no limit of the rate
	units, streams int64
	// epoch is when it last called, lastCall the shard's calls at that time.
	epoch    int64
	lastCall uint64
}

func (id *identity) busy() bool { return id.units > 0 || id.streams > 0 }

func newIdentities(o *Options) *identities {
	shards := max(1, min(identityShards, o.MaxIdentities/8))
	ids := &identities{options: o, seed: maphash.MakeSeed(), shards: make([]identityShard, shards), perShard: o.MaxIdentities / shards}
	ids.epoch.Store(1)
	for i := range ids.shards {
		s := &ids.shards[i]
		s.byName = make(map[string]*identity)
		s.shared = &identity{shard: s}
	}
	return ids
}

// find returns an identity, with its shard locked.
func (ids *identities) find(name string) *identity {
	s := &ids.shards[maphash.String(ids.seed, name)%uint64(len(ids.shards))]
	s.mu.Lock()
	id := s.byName[name]
	if id == nil {
		id = ids.add(s, name)
	}
	s.calls++
	id.lastCall = s.calls
	if generation := ids.generation.Load(); id.generation != generation+1 {
		ids.settle(id, name, generation+1)
	}
	if epoch := ids.epoch.Load(); id.epoch != epoch {
		id.epoch = epoch
		ids.calling.Add(1)
	}
	return id
}

// add adds a new identity. The caller has locked the shard.
func (ids *identities) add(s *identityShard, name string) *identity {
	if len(s.byName) >= ids.perShard && !s.forget() {
		return s.shared
	}
	id := &identity{shard: s}
	s.byName[name] = id
	return id
}

// forgetTries is how many idle identities are compared to find the one that was idle
// longest, and busyTries how many busy ones may be skipped.
const (
	forgetTries = 8
	busyTries   = 64
)

// forget removes an idle identity, and reports whether there was one.
func (s *identityShard) forget() bool {
	oldest, found := "", (*identity)(nil)
	idle, busy := 0, 0
	for name, id := range s.byName {
		if id.busy() {
			if busy++; busy == busyTries {
				break
			}
			continue
		}
		if found == nil || id.lastCall < found.lastCall {
			oldest, found = name, id
		}
		if idle++; idle == forgetTries {
			break
		}
	}
	if found != nil {
		delete(s.byName, oldest)
	}
	return found != nil
}

// settle applies the identity's current limits.
func (ids *identities) settle(id *identity, name string, generation uint64) {
	limits := ids.options.Identity
	if ids.options.Limits != nil && id != id.shard.shared {
		if own, has := ids.options.Limits(name); has && own.Validate() == nil {
			limits = own
		}
	}
	limits = limits.withDefaults()
	id.generation, id.limits = generation, limits
	switch {
	case limits.Rate == 0:
		id.bucket = nil
	case id.bucket == nil:
		id.bucket = rate.NewLimiter(rate.Limit(limits.Rate), limits.Burst)
	default:
		now := ids.options.Clock()
		id.bucket.SetLimitAt(now, rate.Limit(limits.Rate))
		id.bucket.SetBurstAt(now, limits.Burst)
	}
}

// take charges an identity, or returns why not, and which it is. share limits its running calls, and part its
// units if it has some and no limit of its own; 0: unlimited.
func (ids *identities) take(name string, units, running uint32, share, part int64) (*identity, uint32, Refusal) {
	id := ids.find(name)
	defer id.shard.mu.Unlock()
	charged := int(units) // whatever limits units in flight
	if id.limits.InFlight > 0 {
		units = uint32(min(int64(units), int64(id.limits.InFlight)))
		if id.units+int64(units) > int64(id.limits.InFlight) {
			return id, 0, Refusal{Reason: IdentityInFlight}
		}
	}
	if part > 0 && id.limits.InFlight == 0 && id.units > 0 && id.units+int64(units) > part {
		return id, 0, Refusal{Reason: IdentityInFlight}
	}
	if share > 0 && id.running.Load()+int64(running) > share {
		return id, 0, Refusal{Reason: Overload}
	}
	if refusal := id.charge(charged, ids.options.Clock); refusal.Refused() {
		return id, 0, refusal
	}
	id.units += int64(units)
	id.running.Add(int64(running))
	return id, units, Refusal{}
}

// charge takes units of the identity's rate. The caller has locked its shard.
func (id *identity) charge(units int, clock func() time.Time) Refusal {
	if id.bucket == nil {
		return Refusal{}
	}
	tokens, now := min(units, id.limits.Burst), clock()
	if !id.bucket.AllowN(now, tokens) {
		return Refusal{IdentityRate, untilTokens(id.bucket, now, tokens)}
	}
	for rest := units - tokens; rest > 0; rest -= tokens { // what is beyond the burst is owed
		id.bucket.ReserveN(now, min(rest, tokens))
	}
	return Refusal{}
}

// untilTokens returns how long it takes until a bucket has that many tokens.
func untilTokens(bucket *rate.Limiter, now time.Time, tokens int) time.Duration {
	missing := float64(tokens) - bucket.TokensAt(now)
	seconds := max(missing, 0) / float64(bucket.Limit())
	return time.Duration(min(seconds, maxRetry.Seconds())*float64(time.Second)) + 1
}

// maxRetry limits RetryInfo.
const maxRetry = time.Minute

func (ids *identities) giveBack(id *identity, units, running uint32) {
	id.shard.mu.Lock()
	defer id.shard.mu.Unlock()
	id.units -= int64(units)
	id.running.Add(-int64(running))
}

// run changes the number of an identity's running calls.
func (ids *identities) run(id *identity, by int64) {
	id.shard.mu.Lock()
	defer id.shard.mu.Unlock()
	id.running.Add(by)
}

// nextEpoch restarts the count of active identities.
func (ids *identities) nextEpoch() {
	ids.active.Store(ids.calling.Swap(0))
	ids.epoch.Add(1)
}

func (ids *identities) len() int {
	n := 0
	for i := range ids.shards {
		s := &ids.shards[i]
		s.mu.Lock()
		n += len(s.byName)
		s.mu.Unlock()
	}
	return n
}
