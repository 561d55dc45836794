// Package watched keeps what files say, and reads them again when they change.
//
//	tokens, err := watched.Open(parse, watched.Options{OnChange: log}, "tokens.yaml")
//	…
//	go tokens.Run(ctx)
//	…
//	tokens.Load() // what the file last said that was right
//
// Files are looked at every few seconds and compared by content; nothing is asked of
// the kernel. Notifications (inotify) would be told some milliseconds earlier, but
// they are of directory entries, and files are replaced in many ways: Kubernetes
// swaps a symbolic link two levels up, editors rename or write in place, network
// file systems do not notify at all. Reading some kilobytes every few seconds costs
// nothing, misses none of these, and works the same everywhere.
//
// A file that is written in place is seen half written, and half a file may be a
// right one that says something else. So what is new counts only once two looks in
// a row, Settle apart, have seen the same.
package watched

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
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

// Options are the settings of a File. The zero value is useful.
type Options struct {
	// Interval between looks. Zero: DefaultInterval. Negative: none but by Reload.
	Interval time.Duration
	// Settle is how long what is new must stay the same. Zero: DefaultSettle.
	Settle time.Duration
	// MaxBytes bounds each file. Zero: DefaultMaxBytes.
	MaxBytes int
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

// Event tells of a change of the files.
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

// File holds what one file, or some files that belong together, last said that was
// right. It is safe for concurrent use.
type File[T any] struct {
	paths   []string
	parse   func(contents [][]byte) (T, error)
	options Options
	value   atomic.Pointer[T]

	// taking is held while a change is taken and told of.
	taking sync.Mutex
	seen   sha256sum // of what was last taken or refused

	mu    sync.Mutex // of stats
	stats Stats
}

type sha256sum = [sha256.Size]byte

// Open reads the files. parse gets their contents in order of paths; it must not keep
// them. An error is that of reading or parse.
func Open[T any](parse func(contents [][]byte) (T, error), o Options, paths ...string) (*File[T], error) {
	f := &File[T]{paths: paths, parse: parse, options: o.withDefaults()}
	contents, sum, err := f.read()
	if err != nil {
		return nil, err
	}
	value, err := parse(contents)
	if err != nil {
		return nil, err
	}
	f.value.Store(&value)
	f.seen = sum
	f.stats = Stats{Successes: 1, LastSuccess: time.Now()}
	return f, nil
}

// Fixed is a File that has no files, and always says the same.
func Fixed[T any](value T) *File[T] {
	f := &File[T]{options: Options{Interval: -1}.withDefaults(), stats: Stats{Successes: 1, LastSuccess: time.Now()}}
	f.value.Store(&value)
	return f
}

// Load returns what the files last said that was right.
func (f *File[T]) Load() T { return *f.value.Load() }

// Stats returns what was counted so far.
func (f *File[T]) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Run looks at the files until ctx is done.
func (f *File[T]) Run(ctx context.Context) {
	if f.options.Interval < 0 || len(f.paths) == 0 {
		<-ctx.Done()
		return
	}
	timer := time.NewTimer(f.options.Interval)
	defer timer.Stop()
	var unsettled *sha256sum
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if unsettled = f.look(unsettled); unsettled != nil {
			timer.Reset(f.options.Settle)
		} else {
			timer.Reset(f.options.Interval)
		}
	}
}

// look takes what is new if the last look saw the same; else it returns what it saw.
func (f *File[T]) look(unsettled *sha256sum) *sha256sum {
	f.taking.Lock()
	defer f.taking.Unlock()
	contents, sum, err := f.read()
	switch {
	case sum == f.seen:
		return nil
	case unsettled == nil || *unsettled != sum:
		return &sum
	}
	_ = f.take(contents, sum, err) // It was told to OnChange.
	return nil
}

// Reload reads the files now and takes what they say, settled or not, as a signal
// asks for. The error says why it was not taken.
func (f *File[T]) Reload() error {
	if len(f.paths) == 0 {
		return nil
	}
	f.taking.Lock()
	defer f.taking.Unlock()
	contents, sum, err := f.read()
	return f.take(contents, sum, err)
}

// take parses contents, unless they could not be read, and puts the value in place.
// It needs taking.
func (f *File[T]) take(contents [][]byte, sum sha256sum, err error) error {
	f.seen = sum
	var value T
	if err == nil {
		value, err = f.parse(contents)
	}
	if err == nil {
		f.value.Store(&value)
	}
	f.count(err)
	f.options.OnChange(Event{Paths: slices.Clone(f.paths), Err: err})
	return err
}

func (f *File[T]) count(err error) {
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

// read returns the files' contents, and a digest of them or of what kept them from
// being read.
func (f *File[T]) read() ([][]byte, sha256sum, error) {
	contents := make([][]byte, len(f.paths))
	digest := sha256.New()
	for i, path := range f.paths {
		data, err := readFile(path, f.options.MaxBytes)
		if err != nil {
			return nil, sha256.Sum256([]byte("unread: " + err.Error())), err
		}
		contents[i] = data
		// Sums of equal length, so that no byte can move from one file to the next.
		sum := sha256.Sum256(data)
		digest.Write(sum[:])
	}
	return contents, sha256sum(digest.Sum(nil)), nil
}

func readFile(path string, maxBytes int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		// A pipe can be read once, and opening it waits for somebody who writes.
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("is not a regular file")}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, int64(maxBytes)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBytes {
		return nil, &os.PathError{Op: "read", Path: path, Err: fmt.Errorf("is larger than %d bytes", maxBytes)}
	}
	return data, nil
}
