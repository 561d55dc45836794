// Package storetest is the suite that every engine of package store must pass,
// and a benchmark to compare them by.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, newStore, storetest.Options{LogLength: 8, KeptLength: 12, Expiring: newExpiring, Peer: newPeer})
//	}
//
//	func BenchmarkStore(b *testing.B) {
//		storetest.Benchmark(b, newStore, 100_000)
//	}
//
// The suite does a few thousand operations, some of them with values of 1 MiB. It
// never sleeps; whether time passes while records expire is up to the engine's
// own test, see Options.Expiring.
package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// Engine is what an engine implements.
type Engine interface {
	store.Store
	store.Log
}

// minLogLength is what the suite's log tests need to have something to page
// through.
const minLogLength = 4

// Options tell the suite about an engine. What an engine cannot do it leaves out
// here, and says why in Skip; the suite fails where it does not.
type Options struct {
	// LogLength is how many log entries per key the engines of newStore and
	// Expiring keep: 4 at least, and better some ten than thousands. Required.
	LogLength int
	// KeptLength is how many of those that are kept longer, likewise and another number. Required.
	KeptLength int
	// FeedLength is how many entries the feed of the engines of newStore keeps, some hundreds.
	// 0: the test of that bound is left out.
	FeedLength int
	// Expiring returns an empty engine whose records and logs expire after ttl,
	// and a function that lets time pass for it: by moving its clock, or by
	// sleeping. Tests let pass a quarter of the ttl and multiples of that and
	// expect operations between them to take no time worth mentioning, so where
	// pass sleeps the ttl must be much longer than a few operations take. It is
	// called by tests that run in parallel.
	Expiring func(t testing.TB) (e Engine, ttl time.Duration, pass func(time.Duration))
	// Peer opens another engine over the data of e, as another process would
	// that shares them or that was started after e's.
	Peer func(t testing.TB, e Engine) Engine
	// Skip names tests, or groups of them, that the engine cannot pass, each with
	// the reason. The name is what follows the name of Run's own test: "Peers",
	// "List/Order".
	Skip map[string]string
}

// group is a number of tests that belong together.
type group struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(t *testing.T, s suite)
}

// groups returns all tests.
func groups() []group {
	return []group{
		{"Swap", swapTests},
		{"Delete", deleteTests},
		{"Data", dataTests},
		{"Batch", batchTests},
		{"List", listTests},
		{"Log", logTests},
		{"Feed", feedTests},
		{"Model", modelTests},
		{"Expiry", expiryTests},
		{"Concurrency", concurrencyTests},
		{"Peers", peerTests},
		{"Usage", usageTests},
		{"Parts", partTests},
		{"Lifecycle", lifecycleTests},
	}
}

// Run runs the suite, each test with an engine of its own. newStore returns an
// empty one that shares no data with the others and, as far as the suite can
// tell, never expires anything; the suite closes it. What is to be done after
// that, newStore leaves to t.Cleanup.
func Run(t *testing.T, newStore func(t testing.TB) Engine, opts Options) {
	if least := min(opts.LogLength, opts.KeptLength); least < minLogLength || opts.LogLength == opts.KeptLength {
		t.Fatalf("Options.LogLength = %d and KeptLength = %d, must differ and be at least %d", opts.LogLength, opts.KeptLength, minLogLength)
	}
	for name := range opts.Skip {
		if !known(name) {
			t.Errorf("Options.Skip names %q, which is neither a test nor a group", name)
		}
	}
	s := suite{newStore: newStore, Options: opts}
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			s.skip(t, g.name)
			for _, tc := range g.tests {
				t.Run(tc.name, func(t *testing.T) {
					s.skip(t, g.name+"/"+tc.name)
					tc.run(t, s)
				})
			}
		})
	}
}

// known reports whether there is a group or a test of the name.
func known(name string) bool {
	for _, g := range groups() {
		if name == g.name {
			return true
		}
		for _, tc := range g.tests {
			if name == g.name+"/"+tc.name {
				return true
			}
		}
	}
	return false
}

// suite is what tests make their engines of.
type suite struct {
	newStore func(t testing.TB) Engine
	Options
}

func (s suite) skip(t *testing.T, name string) {
	if reason, ok := s.Skip[name]; ok {
		t.Skip(reason)
	}
}

// open returns a fixture with an empty engine.
func (s suite) open(t *testing.T) fixture {
	return newFixture(t, s.newStore(t))
}

// openExpiring returns a fixture with an empty engine whose records expire. It
// makes the test run in parallel, since all that most engines do there is wait.
func (s suite) openExpiring(t *testing.T) expiringFixture {
	if s.Expiring == nil {
		t.Fatal("Options.Expiring is nil and Options.Skip does not say why")
	}
	t.Parallel()
	e, ttl, pass := s.Expiring(t)
	return expiringFixture{newFixture(t, e), func(quarters int) { pass(time.Duration(quarters) * ttl / 4) }}
}

// openPeers returns fixtures with two engines over the same data.
func (s suite) openPeers(t *testing.T) (a, b fixture) {
	if s.Peer == nil {
		t.Fatal("Options.Peer is nil and Options.Skip does not say why")
	}
	a = s.open(t)
	return a, newFixture(t, s.Peer(t, a.Engine))
}

// fixture is an engine in a test, with the operations in the form that tests
// want them. They fail the test on errors, so only its own goroutine may call
// them; others use the Engine's.
type fixture struct {
	Engine
	t *testing.T
}

// expiringFixture can let time pass.
type expiringFixture struct {
	fixture
	// pass lets a number of quarters of the time to live pass.
	pass func(quarters int)
}

func newFixture(t *testing.T, e Engine) fixture {
	t.Cleanup(func() {
		if err := e.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Errorf("Close() = %v", err)
		}
	})
	return fixture{Engine: e, t: t}
}

// load returns the key's record.
func (f fixture) load(key store.Key) store.Record {
	f.t.Helper()
	rec, err := f.Load(f.t.Context(), key)
	if err != nil {
		f.t.Fatalf("Load(%v): %v", key, err)
	}
	return rec
}

// loadBatch returns the keys' records.
func (f fixture) loadBatch(keys ...store.Key) []store.Record {
	f.t.Helper()
	recs, err := f.LoadBatch(f.t.Context(), keys)
	if err != nil {
		f.t.Fatalf("LoadBatch(%v): %v", keys, err)
	}
	if len(recs) != len(keys) {
		f.t.Fatalf("LoadBatch of %d keys returned %d records", len(keys), len(recs))
	}
	return recs
}

// swap performs a swap and checks what holds of all results.
func (f fixture) swap(swap store.Swap) store.SwapResult {
	f.t.Helper()
	res, err := f.CompareAndSwap(f.t.Context(), swap)
	if err != nil {
		f.t.Fatalf("CompareAndSwap(%v): %v", swap.Key, err)
	}
	f.checkResult(swap, res)
	return res
}

// swapBatch performs swaps and checks what holds of all results.
func (f fixture) swapBatch(swaps ...store.Swap) []store.SwapResult {
	f.t.Helper()
	results, err := f.CompareAndSwapBatch(f.t.Context(), swaps)
	if err != nil {
		f.t.Fatalf("CompareAndSwapBatch of %d: %v", len(swaps), err)
	}
	if len(results) != len(swaps) {
		f.t.Fatalf("CompareAndSwapBatch of %d swaps returned %d results", len(swaps), len(results))
	}
	for i, res := range results {
		f.checkResult(swaps[i], res)
	}
	return results
}

func (f fixture) checkResult(swap store.Swap, res store.SwapResult) {
	f.t.Helper()
	rec := res.Record
	switch {
	case res.Swapped && rec.Version == "":
		f.t.Fatalf("swap of %v happened but has no version", swap.Key)
	case res.Swapped && rec.Version == swap.Old:
		f.t.Fatalf("swap of %v happened but left the version %q", swap.Key, rec.Version)
	case res.Swapped && rec.Value != nil && string(rec.Value) != string(swap.Value):
		f.t.Fatalf("swap of %v returned value %s, want %s or nil", swap.Key, brief(rec.Value), brief(swap.Value))
	case !res.Swapped && rec.Version == swap.Old:
		f.t.Fatalf("swap of %v was refused although its version is %q", swap.Key, rec.Version)
	case rec.Version == "" && rec.Value != nil:
		f.t.Fatalf("swap of %v returned value %s without a version", swap.Key, brief(rec.Value))
	}
}

func (f fixture) create(key store.Key, value string) store.Version {
	f.t.Helper()
	return f.replace(key, "", value)
}

// replace performs a swap that must happen and returns the new version.
func (f fixture) replace(key store.Key, old store.Version, value string) store.Version {
	f.t.Helper()
	res := f.swap(store.Swap{Key: key, Old: old, Value: []byte(value)})
	if !res.Swapped {
		f.t.Fatalf("swap of %v from %q did not happen, in the way: %s", key, old, show(res.Record))
	}
	return res.Record.Version
}

// lose performs a swap that must not happen and returns what was in the way.
func (f fixture) lose(key store.Key, old store.Version, value string) store.Record {
	f.t.Helper()
	res := f.swap(store.Swap{Key: key, Old: old, Value: []byte(value)})
	if res.Swapped {
		f.t.Fatalf("swap of %v from %q happened, now: %s", key, old, show(res.Record))
	}
	return res.Record
}

// createAll creates the keys, each with its own name as the value.
func (f fixture) createAll(keys []store.Key) {
	f.t.Helper()
	swaps := make([]store.Swap, len(keys))
	for i, key := range keys {
		swaps[i] = store.Swap{Key: key, Value: []byte(key.String())}
	}
	for i, res := range f.swapBatch(swaps...) {
		if !res.Swapped {
			f.t.Fatalf("%v was not created, in the way: %s", keys[i], show(res.Record))
		}
	}
}

// delete deletes the key and reports whether it had a record.
func (f fixture) delete(key store.Key) bool {
	f.t.Helper()
	existed, err := f.Delete(f.t.Context(), key)
	if err != nil {
		f.t.Fatalf("Delete(%v): %v", key, err)
	}
	return existed
}

// mustDelete deletes a key that must have a record.
func (f fixture) mustDelete(key store.Key) {
	f.t.Helper()
	if !f.delete(key) {
		f.t.Fatalf("Delete(%v) reports that there was no record", key)
	}
}

// list returns a page of keys.
func (f fixture) list(filter store.Filter, after store.Key, limit int) []store.Key {
	f.t.Helper()
	keys, err := f.List(f.t.Context(), filter, after, limit)
	if err != nil {
		f.t.Fatalf("List(%+v, %v, %d): %v", filter, after, limit, err)
	}
	if len(keys) > limit {
		f.t.Fatalf("List(%+v, %v, %d) returned %d keys", filter, after, limit, len(keys))
	}
	return keys
}

// appendLog appends values to the key's log.
func (f fixture) appendLog(key store.Key, values ...string) {
	f.t.Helper()
	entries := make([]store.LogEntry, len(values))
	for i, value := range values {
		entries[i] = store.LogEntry{Key: key, Value: []byte(value)}
	}
	f.appendEntries(entries...)
}

// appendEntries appends the entries.
func (f fixture) appendEntries(entries ...store.LogEntry) {
	f.t.Helper()
	if err := f.AppendLog(f.t.Context(), entries); err != nil {
		f.t.Fatalf("AppendLog of %d: %v", len(entries), err)
	}
}

// readLog returns a page of the key's log.
func (f fixture) readLog(key store.Key, before string, limit int) (values []string, next string) {
	f.t.Helper()
	raw, next, err := f.ReadLog(f.t.Context(), key, before, limit)
	if err != nil {
		f.t.Fatalf("ReadLog(%v, %q, %d): %v", key, before, limit, err)
	}
	if len(raw) > limit {
		f.t.Fatalf("ReadLog(%v, %q, %d) returned %d values", key, before, limit, len(raw))
	}
	for _, value := range raw {
		values = append(values, string(value))
	}
	return values, next
}
