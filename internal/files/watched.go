package files

import (
	"cmp"
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
	// Interval between checks. Zero: DefaultInterval. Negative: no checks, only Reload.
	Interval time.Duration
	// Settle is how long new content must stay the same. Zero: DefaultSettle.
	Settle time.Duration
	// MaxBytes limits each file. Zero: DefaultMaxBytes.
	MaxBytes int64
	// OnChange is called for every change after Open, in Run's or Reload's goroutine,
	// one call at a time. Nil: not called.
	OnChange func(Event)
}

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
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
	// Paths of the files.
	Paths []string
	// Err is why the new content is not used; the previous one remains in use. Nil: it
	// is used.
	Err error
}

// Stats counts since Open, which is the first success.
type Stats struct {
	// Successes and Failures count the changes that were applied and refused.
	Successes, Failures uint64
	// LastSuccess is when the content in use was loaded.
	LastSuccess time.Time
	// Err is why the current content is not used; nil: it is.
	Err error
}

// Watched is the last valid content of one file, or of several that belong together. It
// is safe for concurrent use.
type Watched[T any] struct {
	set     Set
	parse   func(contents [][]byte) (T, error)
	options Options
	value   atomic.Pointer[T]

	// taking is locked while a change is applied and reported.
	taking sync.Mutex
	seen   Sum // of the content last applied or refused; guarded by taking

	mu    sync.Mutex // guards stats
	stats Stats
}

// Open reads the files. parse gets their contents in the order of paths; it must not
// keep them. The error is that of reading or of parse.
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

// Fixed returns a Watched without files whose content never changes.
func Fixed[T any](value T) *Watched[T] {
	f := &Watched[T]{options: Options{Interval: -1}.withDefaults(), stats: Stats{Successes: 1, LastSuccess: time.Now()}}
	f.value.Store(&value)
	return f
}

// Load returns the last valid content.
func (f *Watched[T]) Load() T { return *f.value.Load() }

// Stats returns the counters.
func (f *Watched[T]) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Run checks the files until ctx is done.
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
		f.Look(ctx)
		timer.Reset(f.options.Interval)
	}
}

// Look is a check of Run now: it applies new contents that are settled. It ignores files that keep
// changing: the next check may find them settled.
func (f *Watched[T]) Look(ctx context.Context) {
	f.taking.Lock()
	seen := f.seen
	f.taking.Unlock()
	contents := f.set.Settled(ctx, f.options.Settle, seen)
	if ctx.Err() != nil || errors.Is(contents.Err, ErrUnsettled) {
		return
	}
	f.taking.Lock()
	defer f.taking.Unlock()
	// Reload may have applied newer content. What was refused is parsed again: it may name other files, which may be right now.
	if f.seen == seen && (contents.sum != seen || f.stats.Err != nil) {
		_ = f.take(contents) // OnChange got the error.
	}
}

// Reload reads the files now and applies them, settled or not, as on a signal. The
// error says why they were not applied.
func (f *Watched[T]) Reload() error {
	if len(f.set.Paths) == 0 {
		return nil
	}
	f.taking.Lock()
	defer f.taking.Unlock()
	return f.take(f.set.Read())
}

// take parses contents, unless they could not be read, and stores the value. The same error of the same contents is told
// once. The caller has locked taking.
func (f *Watched[T]) take(contents Contents) error {
	err := contents.Err
	var value T
	if err == nil {
		value, err = f.parse(contents.Texts)
	}
	if told := f.stats.Err; contents.sum == f.seen && err != nil && told != nil && err.Error() == told.Error() {
		return err
	}
	f.seen = contents.sum
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
