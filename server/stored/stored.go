package stored

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
)

// Defaults of a spec without values, and limits.
const (
	// DefaultPeriod is how long a decision serves further calls.
	DefaultPeriod = conversion.DefaultPeriod
	// DefaultMaxAge is the maximum age of observations.
	DefaultMaxAge = time.Minute
	// Kept is how long observations are stored, the longest maximum age.
	Kept = time.Hour
	// DefaultMaxSpecBytes and DefaultMaxObservationBytes limit the records of a target.
	DefaultMaxSpecBytes        = 256 << 10
	DefaultMaxObservationBytes = 1 << 20
	// Small is the size up to which records are loaded at once, in bytes. Larger ones have their turn.
	Small = 32 << 10
	// maxSwaps limits the attempts of a swap.
	maxSwaps = 16
)

// Options are the settings of Targets.
type Options struct {
	// Recommend decides for all who poll, and records the decision. It checks permissions. Required.
	Recommend func(context.Context, *setpointv1.RecommendRequest, record.Poll) (*setpointv1.RecommendResponse, error)
	// Sources fetch metrics that specs name. Nil: such metrics can't be read.
	Sources Sources
	// Clock tells the time. Nil: time.Now.
	Clock func() time.Time
	// MaxSpecBytes and MaxObservationBytes limit the records of a target. 0: the
	// defaults.
	MaxSpecBytes, MaxObservationBytes int
	// Place reserves space for a new record of the part, or without Keys for more bytes of an
	// existing one, or returns why there is none; settled is called with whether the record was
	// stored. Nil: unlimited.
	Place func(ctx context.Context, part store.Part, key store.Key, more store.Usage) (settled func(stored bool), err error)
	// Turn waits until records of more than Small bytes may be loaded; leave is called before the call waits for anything
	// else, and as soon as Room counts them. Nil: no waiting.
	Turn func(context.Context) (leave func(), err error)
	// Room waits until there is enough memory to decode that many bytes; leave is called when everything decoded is
	// free again. Before it waits it calls free, which frees what was loaded, and reports that it did. Nil: no waiting.
	Room func(ctx context.Context, bytes int, free func()) (leave func(), freed bool, err error)
	// Left is called after a record of the part was deleted. May be nil.
	Left func(part store.Part, key store.Key)
}

// Lives are the parts in use, and how long their records live after their last change;
// 0: for ever.
var Lives = map[store.Part]time.Duration{store.Specs: 0, store.Observations: Kept}

// Targets are the stored specs and observations of targets. It is safe for concurrent use.
type Targets struct {
	options      Options
	parts        store.Parts
	specs        store.PartStore
	observations store.PartStore
	// outcomes caches the latest outcomes.
	outcomes *bounded.Map[asker, *cached]
	// failures caches why polls had none.
	failures *bounded.Map[asker, *failure]
	// decisions tell a poll that another one of its target has decided since it loaded the records.
	decisions counters
}

// New returns the targets of the engine, whose fleets are opened already.
func New(engine store.Engine, o Options) (*Targets, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.MaxSpecBytes == 0 {
		o.MaxSpecBytes = DefaultMaxSpecBytes
	}
	if o.MaxObservationBytes == 0 {
		o.MaxObservationBytes = DefaultMaxObservationBytes
	}
	if o.Place == nil {
		o.Place = func(context.Context, store.Part, store.Key, store.Usage) (func(bool), error) {
			return func(bool) {}, nil
		}
	}
	if o.Turn == nil {
		o.Turn = func(context.Context) (func(), error) { return func() {}, nil }
	}
	if o.Room == nil {
		o.Room = func(context.Context, int, func()) (func(), bool, error) { return func() {}, false, nil }
	}
	if o.Left == nil {
		o.Left = func(store.Part, store.Key) {}
	}
	t := &Targets{options: o, parts: engine, outcomes: bounded.NewWeighted[asker](mostOutcomes, func(c *cached) int { return c.weight() + c.size }), failures: bounded.NewWeighted[asker](mostOutcomes, func(f *failure) int { return f.weight() }), decisions: counters{seed: maphash.MakeSeed()}}
	var err error
	if t.specs, err = engine.Part(store.Specs, Lives[store.Specs]); err != nil {
		return nil, err
	}
	t.observations, err = engine.Part(store.Observations, Lives[store.Observations])
	return t, err
}

// Specs is the store of the specs, to list their keys.
func (t *Targets) Specs() store.Store { return t.specs }

// lease is what a call may hold of a target's records in memory. Zero: small ones.
type lease struct {
	leave   func() // ends turn or room; nil: it has neither
	decodes bool   // it has room
}

// most is the size of the values that may be loaded, in bytes; 0: all.
func (l *lease) most() int {
	if l.leave != nil {
		return 0
	}
	return Small
}

// end gives back what the lease has.
func (l *lease) end() {
	if l.leave != nil {
		l.leave()
	}
	*l = lease{}
}

// turn waits for the turn to load records of which one was cut.
func (t *Targets) turn(ctx context.Context, l *lease) (err error) {
	l.leave, err = t.options.Turn(ctx)
	return err
}

// room waits for memory to decode bytes, unless the lease has it. Freed: it has called free before, and they are to be
// loaded again.
func (t *Targets) room(ctx context.Context, l *lease, bytes int, free func()) (freed bool, err error) {
	if l.decodes {
		return false, nil
	}
	turn := *l
	leave, freed, err := t.options.Room(ctx, bytes, func() { free(); turn.end() })
	turn.end()
	*l = lease{}
	if err == nil {
		*l = lease{leave, true}
	}
	return freed, err
}

// load loads a record to change. Of a fleet nothing is reported.
func (t *Targets) load(ctx context.Context, part store.Part, key store.Key, most int) (store.Record, error) {
	if part != store.Observations {
		records, err := t.parts.LoadParts(ctx, key, most, part)
		if err != nil {
			return store.Record{}, err
		}
		return records[0], nil
	}
	records, err := t.parts.LoadParts(ctx, key, most, part, store.Fleets)
	if err == nil && !records[0].Exists() && !records[1].Exists() { // a fleet's record expires, its spec does not
		specs, err := t.parts.LoadParts(ctx, key, most, store.Specs)
		switch {
		case errors.Is(err, store.ErrUnreadable):
		case err != nil, specs[0].Cut:
			return store.Record{Cut: err == nil}, err
		case conversion.IsFleet(specs[0].Value):
			records[1] = specs[0]
		}
	}
	switch {
	case err != nil:
		return store.Record{}, err
	case records[1].Exists():
		return store.Record{}, ErrIsFleet
	}
	return records[0], nil
}

// swap changes the record of a key, and retries until no other write comes in between. next returns
// the new record for the current one, or an error to stop with.
func (t *Targets) swap(ctx context.Context, part store.Part, key store.Key, next func(store.Record) ([]byte, error)) (store.Record, error) {
	of := t.specs
	if part == store.Observations {
		of = t.observations
	}
	var l lease
	defer func() { l.end() }()
	var record store.Record
	for loaded := false; !loaded; {
		var err error
		if record, err = t.load(ctx, part, key, l.most()); err != nil {
			return store.Record{}, err
		}
		if record.Cut {
			if err := t.turn(ctx, &l); err != nil {
				return store.Record{}, err
			}
			continue
		}
		freed, err := t.room(ctx, &l, len(record.Value), func() { record = store.Record{} })
		if err != nil {
			return store.Record{}, err
		}
		loaded = !freed
	}
	return store.Change(ctx, of, key, record, maxSwaps, func(more store.Usage) (func(bool), error) {
		return t.options.Place(ctx, part, key, more)
	}, next)
}
