package fleets

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/deadline"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/bounded"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// mostCached limits the fleets in the cache, and mostCachedBytes spec and record of each: larger ones are read for
	// each call.
	mostCached, mostCachedBytes = 4096, 64 << 10
	// mostBytes limits a record.
	mostBytes = 512 << 10
	// readAgain is how long a spec counts without being read again: a caller that stored it may have died before
	// it changed the record.
	readAgain = time.Minute
	// turns is how many locks there are. Calls of one fleet take turns within an instance, where they would
	// only lose races.
	turns = 1024
)

// Options are the settings of Fleets.
type Options struct {
	// Defaults are those of the options of specs.
	Defaults recommender.Options
	// TTL is how long a record lives after its last call; 0: for ever.
	TTL time.Duration
	// Shares are the limits of clusters: of the records of their fleets, and of their targets that are members.
	Shares shares.Options
	// Refused counts refusals by these; nil: nobody does.
	Refused func(limit.Reason)
	// MaxAttempts limits the attempts of a call while others change the record.
	MaxAttempts int
	// Decisions is the log for people.
	Decisions *decisionlog.Log
	Log       *zap.Logger
}

// Fleets answers calls of members. It is safe for concurrent use.
type Fleets struct {
	options Options
	targets *decision.Targets
	parts   store.Parts
	specs   store.PartStore
	records store.PartStore
	members store.PartStore
	// kept limits the records of each cluster, and claimed its members.
	kept, claimed *shares.Shares
	cache         *bounded.Map[store.Key, *known]
	turns         [turns]chan struct{}
	seed          maphash.Seed
	metrics       *metrics
}

// known is a fleet's spec and record as this instance last saw them. It is immutable.
type known struct {
	spec *spec
	// version is that of the state's record, "": there is none; size its length in bytes.
	version store.Version
	state   *state
	size    int
	// taken are members of the spec that are another fleet's; nil: none.
	taken map[string]bool
	// read is when the spec was read, called when the last call was, both by this machine's clock.
	read, called time.Time
}

// New returns the fleets in the store of the targets; nil if it keeps no parts.
func New(targets *decision.Targets, engine store.Store, options Options) (*Fleets, error) {
	if _, ok := engine.(store.Parts); !ok {
		return nil, nil
	}
	f := &Fleets{options: options, targets: targets, parts: targets.Store().(store.Parts), cache: bounded.New[store.Key, *known](mostCached), seed: maphash.MakeSeed()}
	for i := range f.turns {
		f.turns[i] = make(chan struct{}, 1)
	}
	for _, of := range []struct {
		part    store.Part
		ttl     time.Duration
		to      *store.PartStore
		limited **shares.Shares
	}{{store.Specs, 0, &f.specs, nil}, {store.Fleets, options.TTL, &f.records, &f.kept}, {store.FleetMembers, 0, &f.members, &f.claimed}} {
		var err error
		if *of.to, err = f.parts.Part(of.part, of.ttl); err != nil {
			return nil, err
		}
		if of.limited == nil {
			continue
		}
		counted, err := engine.(store.Parts).Part(of.part, of.ttl)
		if err != nil {
			return nil, err
		}
		*of.limited = shares.New(counted, options.Shares, options.Refused)
	}
	f.metrics = newMetrics(f)
	return f, nil
}

// enter waits for the turn of a fleet's calls.
func (f *Fleets) enter(ctx context.Context, key store.Key) (leave func(), err error) {
	turn := f.turns[maphash.Comparable(f.seed, key)%turns]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errNoFleet means that there is no spec of a fleet.
var errNoFleet = errors.New("there is no such fleet")

// load reads a fleet; errNoFleet if there is none. A spec of the version before is not read again.
func (f *Fleets) load(ctx context.Context, key store.Key) (*known, error) {
	before, _ := f.cache.Get(key)
	for again := false; ; again = true {
		now := time.Now()
		records, err := f.parts.LoadParts(ctx, key, store.Specs, store.Fleets, "")
		if err != nil {
			return nil, err
		}
		k := &known{read: now, version: records[1].Version, state: &state{}, size: len(records[1].Value)}
		switch {
		case !records[0].Exists() || len(records[0].Value) == 0:
		case before != nil && before.spec.version == records[0].Version:
			k.spec = before.spec
		default:
			if k.spec, err = readSpec(key, records[0], f.options.Defaults); err != nil {
				return nil, fmt.Errorf("%w: spec: %w", store.ErrUnreadable, err)
			}
		}
		if k.spec == nil {
			f.cache.Delete(key)
			return nil, errNoFleet
		}
		if records[2].Exists() {
			f.dropHistory(ctx, key)
		}
		if k.taken, err = f.taken(ctx, key, k.spec); err != nil {
			return nil, err
		}
		if !records[1].Exists() {
			return k, nil
		}
		if k.state, err = decodeState(records[1].Value); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrUnreadable, err)
		}
		// If the record is under another spec, a newer one may have been stored between the two reads. If it is not
		// there at the second time, the record is behind: whoever stored the spec has not changed it yet.
		if k.state.spec == k.spec.version || again {
			return k, nil
		}
	}
}

// dropHistory deletes what was decided of a fleet's own name as if it were an ordinary target, by a call that came as its
// spec was stored, or by an earlier version: while that is there further ones are answered.
func (f *Fleets) dropHistory(ctx context.Context, key store.Key) {
	err := f.targets.Delete(ctx, &setpointv1.DeleteTargetRequest{Name: key.String()})
	f.options.Log.Warn("history of a fleet's own name deleted: its members call, with fleet set, and nothing else does", zap.Stringer("fleet", key), zap.Error(err))
}

// isCurrent reports whether a fleet's stored spec is still the known one. It costs a few bytes: who is not a member
// may ask time and again.
func (c *call) isCurrent(ctx context.Context, s *spec) (bool, error) {
	versions, err := c.specs.LoadVersions(ctx, []store.Key{c.key})
	return err == nil && versions[0] == s.version, err
}

// put remembers a fleet, with its turn.
func (f *Fleets) put(key store.Key, k *known) {
	if k.spec.size+k.size > mostCachedBytes {
		f.cache.Delete(key)
		return
	}
	f.cache.Put(key, k)
}

// Call answers the call of a member: it sets the job's answer or its error.
func (f *Fleets) Call(ctx context.Context, j *decision.Job) {
	c := &call{Fleets: f, job: j, key: j.Fleet.Key}
	j.Err = c.run(ctx)
}

// call is a member's call.
type call struct {
	*Fleets
	job *decision.Job
	key store.Key
	// digest is what the member tells under the spec told; blind reports that it can tell nothing.
	digest fleet.Digest
	told   *spec
	blind  bool
	// decided is what became of the decision, if this call made one.
	decided *decided
	// explanation is the fleet's, for a caller that asked for it and may read the fleet.
	explanation *recommender.Explanation
	own         overridden
}

func (c *call) run(ctx context.Context) error {
	j := c.job
	if err := c.targets.WrongClock(); err != nil {
		return err
	}
	var err error
	if c.own.inForce, c.own.at, err = c.targets.InForce(j.Key, j.Now, j.Timed); err != nil {
		return c.ofStore(ctx, err)
	}
	leave, err := c.enter(ctx, c.key)
	if err != nil {
		return c.ofStore(ctx, err)
	}
	defer leave()
	k, guessed := c.cache.Get(c.key)
	switch {
	case !guessed:
	case !k.spec.members[j.Target]:
		if same, err := c.isCurrent(ctx, k.spec); err != nil {
			return c.ofStore(ctx, err)
		} else if same {
			return c.notFound()
		}
		k, guessed = nil, false
	case j.DryRun || time.Since(k.read) > readAgain:
		k, guessed = nil, false
	}
	for {
		if err := apierror.CallerGone(ctx); err != nil {
			return c.ofStore(ctx, err)
		}
		if k == nil {
			if k, err = c.load(ctx, c.key); err != nil {
				return c.ofLoad(ctx, err)
			}
			c.put(c.key, k)
		}
		j.Attempts++
		next, answer, err := c.step(ctx, k)
		if err != nil && guessed { // the fleet may be another one by now
			k, guessed = nil, false
			continue
		}
		if err != nil {
			return err
		}
		if j.DryRun {
			j.Earlier = c.respond(next, &answer)
			return nil
		}
		if k, err = c.swap(ctx, k, next, &answer); err != nil || j.Earlier != nil {
			return err
		}
		guessed = false
		c.targets.Conflicted()
		if j.Attempts >= c.options.MaxAttempts {
			return apierror.New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_TARGET_CONTENDED,
				fmt.Sprintf("the fleet of %s was changed by other calls %d times in a row while this one was answered; hold the count and call again", apierror.Clip(j.Target), j.Attempts),
				"target", j.Target, "attempts", strconv.Itoa(j.Attempts))
		}
		pause(ctx, j.Attempts)
	}
}

// pause backs off after lost races, as decisions of targets do.
func pause(ctx context.Context, lost int) {
	if lost >= 4 {
		deadline.Sleep(ctx, rand.N(time.Duration(min(lost, 16))*250*time.Microsecond))
	}
}

// swap stores the state after a call and answers it. If another caller was faster it returns what that has stored,
// nil if it must be read.
func (c *call) swap(ctx context.Context, k *known, next *state, answer *fleet.Answer) (*known, error) {
	j := c.job
	value := next.append(make([]byte, 0, 1024))
	if len(value) > mostBytes {
		return nil, apierror.OverLimit("maxHistoryBytes", mostBytes, fmt.Sprintf("the record of the fleet would take %d bytes: it has too many members and metrics", len(value)))
	}
	settled, err := c.room(ctx, k, next, len(value))
	if err != nil {
		return nil, err
	}
	own, cancel := c.targets.Detach(ctx)
	result, err := c.records.CompareAndSwap(own, store.Swap{Key: c.key, Old: k.version, Value: value})
	cancel()
	settled(err != nil || result.Swapped)
	if err != nil {
		c.cache.Delete(c.key)
		return nil, c.ofStore(ctx, err)
	}
	if result.Swapped {
		c.put(c.key, &known{spec: k.spec, version: result.Record.Version, state: next, size: len(value), taken: k.taken, read: k.read, called: time.Now()})
		j.Earlier = c.respond(next, answer)
		c.stored(k, next, answer)
		return nil, nil
	}
	if !result.Record.Exists() {
		return nil, nil
	}
	theirs, err := decodeState(result.Record.Value)
	if err != nil {
		return nil, c.unreadable(err)
	}
	if theirs.spec != k.spec.version {
		return nil, nil
	}
	return &known{spec: k.spec, version: result.Record.Version, state: theirs, size: len(result.Record.Value), taken: k.taken, read: k.read, called: k.called}, nil
}

// room reserves space for what a record takes more by the first call of a member. Those that have called before go on
// whatever there is, as existing targets do.
func (c *call) room(ctx context.Context, k *known, next *state, size int) (settled func(stored bool), err error) {
	more := store.Usage{Bytes: int64(size - k.size)}
	at := slices.IndexFunc(k.spec.fleet.Members, func(m fleet.Member) bool { return m.Name == c.job.Target })
	switch was := before(&k.state.fleet, at, &next.fleet.Members[at]); {
	case k.version == "":
		more.Keys = 1
	case was.Seen != 0 || more.Bytes <= 0:
		return func(bool) {}, nil
	}
	return c.kept.Room(ctx, c.key.Cluster, c.job.Bounds)(more)
}
