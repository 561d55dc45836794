package fleets

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/deadline"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// mostCached limits what the fleets in the cache take in memory, about, in bytes, and mostCachedBytes spec and record of
	// each: larger ones are read for each call.
	mostCached, mostCachedBytes = 64 << 20, 64 << 10
	// A byte of a spec takes specInMemory bytes in memory if it is of labels, a byte of a record recordInMemory, and any
	// fleet takes leastInMemory.
	specInMemory, recordInMemory, leastInMemory = 8, 4, 4 << 10
	// mostRefused limits the members of which the last refusal is kept.
	mostRefused = 4096
	// mostBytes limits a record.
	mostBytes = 512 << 10
	// readAgain is how long a spec counts without being read again: a caller that stored it may have died before
	// it changed the record.
	readAgain = time.Minute
	// grows is by how many bytes calls lengthen a record, as a rule.
	grows = 256
	// mostTogether limits the calls of a batch that one swap answers.
	mostTogether = 64
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
	// turns are those of the fleets that are being called: calls of one take turns within an instance, where they would
	// only lose races. Guarded by mu.
	mu      sync.Mutex
	turns   map[store.Key]*turn
	metrics *metrics
	// refused are the last refusals of members' calls by this instance. They change nothing that is stored.
	refused *bounded.Map[store.Key, refusal]
}

// refusal is that of a call.
type refusal struct {
	at  time.Time
	why string
	// since is when refusals began to come without a long pause.
	since time.Time
}

// refuse notes that a member's call is refused.
func (f *Fleets) refuse(member store.Key, of *fleet.Spec, why string) {
	now := f.now()
	r := refusal{at: now, why: why, since: now}
	if was, _ := f.refused.Get(member); now.Sub(was.at) <= of.LostAfter/2 {
		r.since = was.since
	}
	f.refused.Put(member, r)
}

// turn is that of a fleet's calls.
type turn struct {
	taken chan struct{}
	// calls have it, or wait for it. Guarded by Fleets.mu.
	calls int
}

// known is a fleet's spec and record as this instance last saw them. It is immutable.
type known struct {
	spec *spec
	// version is that of the state's record, "": there is none; size its length in bytes.
	version store.Version
	state   *state
	size    int
	// taken are members of the spec that are another fleet's.
	taken map[string]bool
	// read is when the spec was read, called when the last call was, both by this machine's clock.
	read, called time.Time
}

// New returns the fleets in the store of the targets.
func New(targets *decision.Targets, engine store.Engine, options Options) (*Fleets, error) {
	f := &Fleets{options: options, targets: targets, parts: targets.Store().(store.Parts), cache: newCache(), turns: make(map[store.Key]*turn), refused: bounded.New[store.Key, refusal](mostRefused)}
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
		counted, err := engine.Part(of.part, of.ttl)
		if err != nil {
			return nil, err
		}
		*of.limited = shares.New(counted, options.Shares, options.Refused)
	}
	f.metrics = newMetrics(f)
	return f, nil
}

func newCache() *bounded.Map[store.Key, *known] {
	return bounded.NewWeighted[store.Key](mostCached, func(k *known) int {
		return leastInMemory + specInMemory*k.spec.size + recordInMemory*k.size
	})
}

// enter waits for the turn of a fleet's calls.
func (f *Fleets) enter(ctx context.Context, key store.Key) (leave func(), err error) {
	f.mu.Lock()
	t := f.turns[key]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		f.turns[key] = t
	}
	t.calls++
	f.mu.Unlock()
	done := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if t.calls--; t.calls == 0 {
			delete(f.turns, key)
		}
	}
	select {
	case t.taken <- struct{}{}:
	default: // only who waits has the context make a timer
		select {
		case t.taken <- struct{}{}:
		case <-ctx.Done():
			done()
			return nil, ctx.Err()
		}
	}
	return func() { <-t.taken; done() }, nil
}

// errNoFleet means that there is no spec of a fleet.
var errNoFleet = errors.New("there is no such fleet")

// load reads a fleet; errNoFleet if there is none. A spec of the version before is not read again.
func (f *Fleets) load(ctx context.Context, key store.Key) (*known, error) {
	before, _ := f.cache.Get(key)
	for again := false; ; again = true {
		now := time.Now()
		records, err := f.parts.LoadParts(ctx, key, 0, store.Specs, store.Fleets, "")
		if err != nil {
			return nil, err
		}
		k := &known{read: now, version: records[1].Version, state: &state{}, size: len(records[1].Value)}
		if before != nil {
			k.called = before.called
		}
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
	switch err := f.targets.Delete(ctx, &setpointv1.DeleteTargetRequest{Name: key.String()}); {
	case err == nil:
		f.options.Log.Warn("history of a fleet's own name deleted: its members call, with fleet set, and nothing else does", zap.Stringer("fleet", key))
	case status.Code(err) != codes.NotFound: // else another caller has deleted it
		f.options.Log.Warn("history of a fleet's own name not deleted, to be tried again", zap.Stringer("fleet", key), zap.Error(err))
	}
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

// Call answers calls of members of one fleet, as if each came after the one before: it sets each job's answer or its
// error.
func (f *Fleets) Call(ctx context.Context, jobs []*decision.Job) {
	most := mostTogether
	if slices.ContainsFunc(jobs, func(j *decision.Job) bool { return j.DryRun }) {
		most = 1 // it is of what the calls before it have left
	}
	for some := range slices.Chunk(jobs, most) {
		f.run(ctx, some)
	}
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
	// from is what the call was answered on, next the state after it, and answer the share.
	from   *known
	next   *state
	answer fleet.Answer
}

// run answers calls in one turn.
func (f *Fleets) run(ctx context.Context, jobs []*decision.Job) {
	wrong := f.targets.WrongClock()
	calls := make([]*call, 0, len(jobs))
	for _, j := range jobs {
		c := &call{Fleets: f, job: j, key: j.Fleet.Key}
		if j.Err = wrong; j.Err != nil {
			continue
		}
		var err error
		if c.own.inForce, c.own.at, err = f.targets.InForce(ctx, j.Key, j.Now, j.Timed); err != nil {
			j.Err = c.ofStore(ctx, err)
			continue
		}
		calls = append(calls, c)
	}
	if len(calls) == 0 {
		return
	}
	key := calls[0].key
	leave, err := f.enter(ctx, key)
	if err != nil {
		fail(calls, func(c *call) error { return c.ofStore(ctx, err) })
		return
	}
	defer leave()
	k, guessed := f.cache.Get(key)
	if guessed {
		if k, calls = f.strangers(ctx, k, calls); len(calls) == 0 {
			return
		}
		if k == nil || time.Since(k.read) > readAgain || calls[0].job.DryRun {
			k, guessed = nil, false
		}
	}
	f.together(ctx, k, guessed, calls)
}

// fail ends calls with an error.
func fail(calls []*call, why func(*call) error) {
	for _, c := range calls {
		c.job.Err = why(c)
	}
}

// strangers ends calls of targets that are no members by the known spec, if that is still the stored one: otherwise nil.
func (f *Fleets) strangers(ctx context.Context, k *known, calls []*call) (*known, []*call) {
	stranger := func(c *call) bool { return !k.spec.members[c.job.Target] }
	at := slices.IndexFunc(calls, stranger)
	if at < 0 {
		return k, calls
	}
	same, err := calls[at].isCurrent(ctx, k.spec)
	if err == nil && !same {
		return nil, calls
	}
	return k, slices.DeleteFunc(calls, func(c *call) bool {
		if !stranger(c) {
			return false
		}
		if c.job.Err = c.notFound(); err != nil {
			c.job.Err = c.ofStore(ctx, err)
		}
		return true
	})
}

// together answers calls in one swap from a fleet that is known, or guessed; nil: it is read.
func (f *Fleets) together(ctx context.Context, k *known, guessed bool, calls []*call) {
	for len(calls) > 0 {
		c, all := calls[0], calls
		if err := apierror.CallerGone(ctx); err != nil {
			fail(calls, func(c *call) error { return c.ofStore(ctx, err) })
			return
		}
		if k == nil {
			var err error
			if k, err = f.load(ctx, c.key); err != nil {
				fail(calls, func(c *call) error { return c.ofLoad(ctx, err) })
				return
			}
			f.put(c.key, k)
		}
		if calls = f.steps(ctx, k, calls); guessed && len(calls) < len(all) { // the fleet may be another one by now
			for _, c := range all {
				c.job.Err = nil
			}
			k, guessed, calls = nil, false, all
			continue
		}
		if len(calls) == 0 {
			return
		}
		if c = calls[0]; c.job.DryRun {
			c.job.Earlier = c.respond(c.next, &c.answer)
			return
		}
		theirs, done, err := f.swap(ctx, k, calls)
		switch {
		case err != nil && len(calls) > 1 && status.Code(err) == codes.ResourceExhausted: // some may have room
			for i := range calls {
				f.together(ctx, nil, false, calls[i:i+1])
			}
			return
		case err != nil:
			fail(calls, func(*call) error { return err })
			return
		case done:
			return
		}
		k, guessed = theirs, false
		f.targets.Conflicted()
		if c.job.Attempts >= f.options.MaxAttempts {
			fail(calls, func(c *call) error {
				return apierror.New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_TARGET_CONTENDED,
					fmt.Sprintf("the fleet of %s was changed by other calls %d times in a row while this one was answered; hold the count and call again", apierror.Clip(c.job.Target), c.job.Attempts),
					"target", c.job.Target, "attempts", strconv.Itoa(c.job.Attempts))
			})
			return
		}
		pause(ctx, c.job.Attempts)
	}
}

// steps takes calls, each on the state after the one before, and returns those without an error.
func (f *Fleets) steps(ctx context.Context, k *known, calls []*call) (taken []*call) {
	from := k
	for _, c := range calls {
		c.job.Attempts++
		if c.next, c.answer, c.job.Err = c.step(ctx, from); c.job.Err != nil {
			if said := status.Convert(c.job.Err); said.Code() == codes.FailedPrecondition && !c.job.DryRun {
				f.refuse(c.job.Key, &k.spec.fleet, said.Message())
			}
			continue
		}
		c.from = from
		taken = append(taken, c)
		after := *from
		after.state = c.next
		from = &after
	}
	return taken
}

// pause backs off after lost races, as decisions of targets do.
func pause(ctx context.Context, lost int) {
	if lost >= 4 {
		deadline.Sleep(ctx, rand.N(time.Duration(min(lost, 16))*250*time.Microsecond))
	}
}

// swap stores the state after calls and answers them. If another caller was faster it returns what that has stored,
// nil if it must be read.
func (f *Fleets) swap(ctx context.Context, k *known, calls []*call) (theirs *known, done bool, err error) {
	last := calls[len(calls)-1]
	value := last.next.append(make([]byte, 0, k.size+grows))
	if len(value) > mostBytes {
		return nil, false, apierror.OverLimit("maxHistoryBytes", mostBytes, fmt.Sprintf("the record of the fleet would take %d bytes: it has too many members and metrics", len(value)))
	}
	settled, err := f.room(ctx, k, calls, len(value))
	if err != nil {
		return nil, false, err
	}
	own, cancel := f.targets.Detach(ctx)
	result, err := f.records.CompareAndSwap(own, store.Swap{Key: last.key, Old: k.version, Value: value})
	cancel()
	settled(err != nil || result.Swapped)
	if err != nil {
		f.cache.Delete(last.key)
		return nil, false, last.ofStore(ctx, err)
	}
	if result.Swapped {
		f.put(last.key, &known{spec: k.spec, version: result.Record.Version, state: last.next, size: len(value), taken: k.taken, read: k.read, called: time.Now()})
		for _, c := range calls {
			c.job.Earlier = c.respond(c.next, &c.answer)
			c.stored(c.from, c.next, &c.answer)
		}
		return nil, true, nil
	}
	if !result.Record.Exists() {
		return nil, false, nil
	}
	state, err := decodeState(result.Record.Value)
	if err != nil {
		return nil, false, last.unreadable(err)
	}
	if state.spec != k.spec.version {
		return nil, false, nil
	}
	return &known{spec: k.spec, version: result.Record.Version, state: state, size: len(result.Record.Value), taken: k.taken, read: k.read, called: k.called}, false, nil
}

// room reserves space for what a record takes more by the first calls of members. Those that have called before go on
// whatever there is, as existing targets do.
func (f *Fleets) room(ctx context.Context, k *known, calls []*call, size int) (settled func(stored bool), err error) {
	more := store.Usage{Bytes: int64(size - k.size)}
	isFirst := func(c *call) bool {
		at := slices.IndexFunc(k.spec.fleet.Members, func(m fleet.Member) bool { return m.Name == c.job.Target })
		was := k.state.fleet.Member(at, c.next.fleet.Members[at].Key)
		return was == nil || was.Seen == 0
	}
	switch {
	case k.version == "":
		more.Keys = 1
	case more.Bytes <= 0 || !slices.ContainsFunc(calls, isFirst):
		return func(bool) {}, nil
	}
	return f.kept.Room(ctx, calls[0].key.Cluster, calls[0].job.Bounds)(more)
}
