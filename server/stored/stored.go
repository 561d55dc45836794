package stored

import (
	"context"
	"fmt"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/auth/bounded"
	"github.com/setpoint-dev/setpoint/store"
)

// Defaults of a spec that says nothing, and bounds.
const (
	// DefaultPeriod is how long a decision answers further calls.
	DefaultPeriod = 15 * time.Second
	// DefaultMaxAge is the maximum age of observations.
	DefaultMaxAge = time.Minute
	// Kept is how long observations are kept, the longest maximum age.
	Kept = time.Hour
	// DefaultMaxSpecBytes and DefaultMaxObservationBytes bound the records of a target.
	DefaultMaxSpecBytes        = 256 << 10
	DefaultMaxObservationBytes = 1 << 20
	// placedGrowth is how many bytes a record may grow by without room being made for them.
	placedGrowth = 1 << 10
	// maxSwaps is how often a swap is tried.
	maxSwaps = 16
)

// Engine is a store that keeps parts of targets.
type Engine interface {
	store.Store
	store.Parts
}

// Options are the settings of Targets.
type Options struct {
	// Recommend decides, and records it. It asks what the caller may do. Required.
	Recommend func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)
	// Sources fetch metrics that specs name. Nil: such metrics can't be read.
	Sources Sources
	// Clock tells the time. Nil: time.Now.
	Clock func() time.Time
	// MaxSpecBytes and MaxObservationBytes bound what is stored of a target. 0: the
	// defaults.
	MaxSpecBytes, MaxObservationBytes int
	// Place makes room for a further record of the part, of so many bytes, or for so many
	// bytes more of one, or says why there is no room; settled is called with whether it was
	// stored. Nil: unlimited.
	Place func(ctx context.Context, part store.Part, key store.Key, bytes int) (settled func(stored bool), err error)
	// Room waits until what takes so many bytes may be decoded; leave is called when
	// nothing is held of it any more. Nil: at once.
	Room func(ctx context.Context, bytes int) (leave func(), err error)
	// Left is called after a record of the part was deleted. May be nil.
	Left func(part store.Part, key store.Key)
}

// Lives are the parts that are used, and how long their records live after their last
// change; 0: for ever.
var Lives = map[store.Part]time.Duration{store.Specs: 0, store.Observations: Kept}

// Targets are the stored specs and observations of targets. It is safe for concurrent use.
type Targets struct {
	options      Options
	parts        store.Parts
	specs        store.PartStore
	observations store.PartStore
	// answers are those by last decisions, as they were given last.
	answers *bounded.Map[asker, *answer]
}

// New returns the targets that the engine keeps.
func New(engine Engine, o Options) (*Targets, error) {
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
		o.Place = func(context.Context, store.Part, store.Key, int) (func(bool), error) { return func(bool) {}, nil }
	}
	if o.Room == nil {
		o.Room = func(context.Context, int) (func(), error) { return func() {}, nil }
	}
	if o.Left == nil {
		o.Left = func(store.Part, store.Key) {}
	}
	t := &Targets{options: o, parts: engine, answers: bounded.New[asker, *answer](mostAnswers)}
	var err error
	if t.specs, err = engine.Part(store.Specs, Lives[store.Specs]); err != nil {
		return nil, err
	}
	t.observations, err = engine.Part(store.Observations, Lives[store.Observations])
	return t, err
}

// Specs is the store of the specs, to list their keys.
func (t *Targets) Specs() store.Store { return t.specs }

// swap changes the record of a key, and repeats that until no other write comes between. next returns what to
// store in place of a record, or an error to end with.
func (t *Targets) swap(ctx context.Context, part store.Part, key store.Key, next func(store.Record) ([]byte, error)) (store.Record, error) {
	of := t.specs
	if part == store.Observations {
		of = t.observations
	}
	record, err := of.Load(ctx, key)
	if err != nil {
		return store.Record{}, err
	}
	leave, err := t.options.Room(ctx, len(record.Value))
	if err != nil {
		return store.Record{}, err
	}
	defer leave()
	for range maxSwaps {
		value, err := next(record)
		if err != nil {
			return store.Record{}, err
		}
		settled := func(bool) {}
		if more := len(value) - len(record.Value); !record.Exists() || more > placedGrowth {
			if settled, err = t.options.Place(ctx, part, key, more); err != nil {
				return store.Record{}, err
			}
		}
		result, err := of.CompareAndSwap(ctx, store.Swap{Key: key, Old: record.Version, Value: value})
		settled(err != nil || result.Swapped) // what failed may be stored
		if err != nil {
			return store.Record{}, err
		}
		if record = result.Record; result.Swapped {
			record.Value = value
			return record, nil
		}
	}
	return store.Record{}, fmt.Errorf("%w: %d times", ErrContended, maxSwaps)
}
