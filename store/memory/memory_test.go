package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/storetest"
)

const (
	testLogLength  = 8
	testKeptLength = 13
	testFeedLength = 400
	testTTL        = time.Hour
)

// clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newStore(testing.TB) storetest.Engine {
	return New(Options{LogLength: testLogLength, KeptLength: testKeptLength, FeedLength: testFeedLength})
}

func newExpiring(testing.TB) (storetest.Engine, time.Duration, func(time.Duration)) {
	c := newClock()
	return New(Options{TTL: testTTL, LogLength: testLogLength, KeptLength: testKeptLength, Clock: c.Now}), testTTL, c.advance
}

func TestStore(t *testing.T) {
	storetest.Run(t, newStore, storetest.Options{
		LogLength: testLogLength, KeptLength: testKeptLength, FeedLength: testFeedLength,
		Expiring: newExpiring,
		Skip:     map[string]string{"Peers": "the data belong to one Store of one process"},
	})
}

func BenchmarkStore(b *testing.B) {
	for _, keys := range []int{100_000, 1_000_000} {
		if testing.Short() && keys > 100_000 {
			continue
		}
		storetest.Benchmark(b, func(testing.TB) storetest.Engine { return New(Options{TTL: 24 * time.Hour}) }, keys)
	}
}

func TestZeroOptionsKeepForever(t *testing.T) {
	c := newClock()
	s := New(Options{Clock: c.Now})
	k := numbered(0)
	create(t, s, k)
	c.advance(100 * 365 * 24 * time.Hour)
	if rec, err := s.Load(t.Context(), k); err != nil || !rec.Exists() {
		t.Errorf("Load = %v, %v, want the record", rec, err)
	}
}

func TestLogLengthOption(t *testing.T) {
	for _, tc := range []struct{ option, want int }{{0, DefaultLogLength}, {-1, 0}, {1, 1}, {250, 250}} {
		s := New(Options{LogLength: tc.option})
		for i := range 3 * DefaultLogLength {
			fatal.If(t, s.AppendLog(t.Context(), []store.LogEntry{{Key: numbered(0), Value: fmt.Append(nil, i)}}))
		}
		values, next, err := s.ReadLog(t.Context(), numbered(0), "", 1000)
		if err != nil || next != "" || len(values) != tc.want {
			t.Errorf("LogLength %d: %d entries, position %q, error %v, want %d entries", tc.option, len(values), next, err, tc.want)
		}
	}
}

func TestCanceledOperationDoesNothing(t *testing.T) {
	s := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.CompareAndSwap(ctx, store.Swap{Key: numbered(0)}); !errors.Is(err, context.Canceled) {
		t.Errorf("CompareAndSwap: %v", err)
	}
	if rec, err := s.Load(t.Context(), numbered(0)); err != nil || rec.Exists() {
		t.Errorf("Load = %v, %v, want no record", rec, err)
	}
}

func TestVersionsDifferBetweenStores(t *testing.T) {
	a, b := New(Options{}), New(Options{})
	if va, vb := create(t, a, numbered(0)), create(t, b, numbered(0)); va == vb {
		t.Errorf("two stores gave the version %q", va)
	}
}

// TestExpiredIsFreed shows that what nobody asks for is freed by operations on
// another key, a few for each of the expired ones.
func TestExpiredIsFreed(t *testing.T) {
	const n = 5000
	c := newClock()
	s := New(Options{TTL: testTTL, Clock: c.Now})
	for i := range n {
		create(t, s, numbered(i))
		appendLog(t, s, numbered(i))
	}
	if records, logs, keys := held(s); records != n || logs != n || keys != n {
		t.Fatalf("%d records, %d logs, %d keys in the index, want %d each", records, logs, keys, n)
	}
	c.advance(testTTL)
	hot := store.Key{Cluster: "c", Namespace: "n", Target: "hot"}
	v := create(t, s, hot)
	// At worst every shard has to come round until its fullest is empty.
	for range 2 * shardCount * sweepEvery {
		v = swap(t, s, hot, v)
	}
	if records, logs, keys := held(s); records != 1 || logs != 0 || keys != 1 {
		t.Errorf("%d records, %d logs, %d keys in the index are left, want only the hot key's", records, logs, keys)
	}
}

// TestSweepKeepsWhatIsTouched has keys come to the front of the queue while they
// are alive.
func TestSweepKeepsWhatIsTouched(t *testing.T) {
	const n = 1000
	c := newClock()
	s := New(Options{TTL: testTTL, Clock: c.Now})
	versions := make([]store.Version, n)
	for range 5 {
		for i, v := range versions {
			versions[i] = swap(t, s, numbered(i), v)
		}
		c.advance(testTTL / 2)
		for range 4 * shardCount {
			s.sweep(s.clock().Sub(s.epoch), sweepEvery)
		}
		if records, _, keys := held(s); records != n || keys != n {
			t.Fatalf("%d records, %d keys in the index, want %d", records, keys, n)
		}
	}
}

// TestListGoesOnPastExpired lists more than the index gives at a time, with all
// of a step expired.
func TestListGoesOnPastExpired(t *testing.T) {
	const n = 5 * listStep
	c := newClock()
	s := New(Options{TTL: testTTL, Clock: c.Now})
	old := make([]store.Version, n)
	for i := range n {
		old[i] = create(t, s, numbered(i))
	}
	c.advance(testTTL / 2)
	var want []store.Key
	for i := range n {
		if i < listStep/2 || i >= 3*listStep {
			swap(t, s, numbered(i), old[i])
			want = append(want, numbered(i))
		}
	}
	c.advance(testTTL / 2)
	for _, limit := range []int{1, listStep, listStep + 1, len(want), n} {
		keys, err := s.List(t.Context(), store.Filter{}, store.Key{}, limit)
		fatal.If(t, err)
		if w := want[:min(limit, len(want))]; len(keys) != len(w) || keys[len(keys)-1] != w[len(w)-1] {
			t.Errorf("limit %d: %d keys up to %v, want %d up to %v", limit, len(keys), keys[len(keys)-1], len(w), w[len(w)-1])
		}
	}
	if keys, err := s.List(t.Context(), store.Filter{}, store.Key{}, 0); err != nil || len(keys) != 0 {
		t.Errorf("limit 0: %v, %v", keys, err)
	}
}

// held returns how much the store holds, expired or not.
func held(s *Store) (records, logs, keys int) {
	for i := range s.shards {
		records += len(s.shards[i].records.items)
		logs += len(s.shards[i].logs[0].items) + len(s.shards[i].logs[1].items)
	}
	for i := range s.index.chunks {
		keys += len(s.index.chunks[i])
	}
	return records, logs, keys
}

func numbered(i int) store.Key {
	return store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprintf("%06d", i)}
}

func create(t *testing.T, s *Store, k store.Key) store.Version {
	t.Helper()
	return swap(t, s, k, "")
}

func swap(t *testing.T, s *Store, k store.Key, old store.Version) store.Version {
	t.Helper()
	res, err := s.CompareAndSwap(t.Context(), store.Swap{Key: k, Old: old})
	if err != nil || !res.Swapped {
		t.Fatalf("swap of %v from %q: %+v, %v", k, old, res, err)
	}
	return res.Record.Version
}

func appendLog(t *testing.T, s *Store, k store.Key) {
	t.Helper()
	fatal.If(t, s.AppendLog(t.Context(), []store.LogEntry{{Key: k, Value: []byte("entry")}}))
}
