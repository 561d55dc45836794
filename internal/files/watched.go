package files

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultInterval = 5 * time.Second
	DefaultSettle   = 200 * time.Millisecond
	DefaultMaxBytes = 8 << 20
)

// Options are the settings of a Watched. The zero value is useful.
type Options struct {
	// Interval between looks. Zero: DefaultInterval. Negative: none but by Reload.
	Interval time.Duration
	// Settle is how long what is new must stay the same. Zero: DefaultSettle.
	Settle time.Duration
	// MaxBytes bounds each file. Zero: DefaultMaxBytes.
	MaxBytes int64
	// OnChange is called for every change after Open, in Run's or Reload's goroutine and
	// never twice at a time. Nil: not called.
	OnChange func(Event)
}

func (o Options) withDefaults() Options {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Settle <= 0 {
		o.Settle = DefaultSettle
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.OnChange == nil {
		o.OnChange = func(Event) {}
	}
	return o
}

// Event describes a change of the files.
type Event struct {
	// Paths are the files'.
	Paths []string
	// Err is why what they say now is not used; what was used before stays. Nil: it is
	// used.
	Err error
}

// Stats counts since Open, which is the first success.
type Stats struct {
	// Successes and Failures are how often a change was taken and refused.
	Successes, Failures uint64
	// LastSuccess is when what is used was taken.
	LastSuccess time.Time
	// Err is why what the files say now is not used; nil: it is.
	Err error
}

// Watched holds what one file, or some files that belong together, last said that was
// right. It is safe for concurrent use.
type Watched[T any] struct {
	set     Set
	parse   func(contents [][]byte) (T, error)
	options Options
	value   atomic.Pointer[T]

	// taking is held while a change is taken and told of.
	taking sync.Mutex
	seen   Sum // of what was last taken or refused; guarded by taking

	mu    sync.Mutex // of stats
	stats Stats
}

// Open reads the files. parse gets their contents in order of paths; it must not keep
// them. An error is that of reading or parse.
func Open[T any](parse func(contents [][]byte) (T, error), o Options, paths ...string) (*Watched[T], error) {
	o = o.withDefaults()
	f := &Watched[T]{set: Set{Paths: paths, Most: o.MaxBytes}, parse: parse, options: o}
	contents := f.set.Read()
	if contents.Err != nil {
		return nil, contents.Err
	}
	value, err := parse(contents.Texts)
	if err != nil {
		return nil, err
	}
	f.value.Store(&value)
	f.seen = contents.sum
	f.stats = Stats{Successes: 1, LastSuccess: time.Now()}
	return f, nil
}

// Fixed is a Watched that has no files, and always says the same.
func Fixed[T any](value T) *Watched[T] {
	f := &Watched[T]{options: Options{Interval: -1}.withDefaults(), stats: Stats{Successes: 1, LastSuccess: time.Now()}}
	f.value.Store(&value)
	return f
}

// Load returns what the files last said that was right.
func (f *Watched[T]) Load() T { return *f.value.Load() }

// Stats returns the counters.
func (f *Watched[T]) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Run looks at the files until ctx is done.
func (f *Watched[T]) Run(ctx context.Context) {
	if f.options.Interval < 0 || len(f.set.Paths) == 0 {
		<-ctx.Done()
		return
	}
	timer := time.NewTimer(f.options.Interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		f.look(ctx)
		timer.Reset(f.options.Interval)
	}
}

// look takes what is new and settled. Of files that keep changing it takes nothing: the next
// look may find them at rest.
func (f *Watched[T]) look(ctx context.Context) {
	f.taking.Lock()
	seen := f.seen
	f.taking.Unlock()
	contents := f.set.Settled(ctx, f.options.Settle, seen)
	if ctx.Err() != nil || errors.Is(contents.Err, ErrUnsettled) {
		return
	}
	f.taking.Lock()
	defer f.taking.Unlock()
	// Reload may have taken what is newer.
	if contents.sum != seen && f.seen == seen {
		_ = f.take(contents) // It was told to OnChange.
	}
}

// Reload reads the files now and takes what they say, settled or not, as a signal
// asks for. The error says why it was not taken.
func (f *Watched[T]) Reload() error {
	if len(f.set.Paths) == 0 {
		return nil
	}
	f.taking.Lock()
	defer f.taking.Unlock()
	return f.take(f.set.Read())
}

// take parses contents, unless they could not be read, and puts the value in place.
// It needs taking.
func (f *Watched[T]) take(contents Contents) error {
	f.seen = contents.sum
	err := contents.Err
	var value T
	if err == nil {
		value, err = f.parse(contents.Texts)
	}
	if err == nil {
		f.value.Store(&value)
	}
	f.count(err)
	f.options.OnChange(Event{Paths: slices.Clone(f.set.Paths), Err: err})
	return err
}

func (f *Watched[T]) count(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Err = err
	if err != nil {
		f.stats.Failures++
		return
	}
	f.stats.Successes++
	f.stats.LastSuccess = time.Now()
}
