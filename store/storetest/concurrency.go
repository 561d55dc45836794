package storetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
)

var concurrencyTests = []test{
	{"CountersLoseNoUpdate", testCounters},
	{"BatchedCountersLoseNoUpdate", testBatchedCounters},
	{"OneCreationWins", testCreationRaces},
	{"OneDeletionWins", testDeletionRaces},
	{"ListWhileKeysComeAndGo", testListRaces},
	{"ListAgreesWithLoadAfterRaces", testListAfterRaces},
	{"LogsKeepEachAppendersOrder", testLogRaces},
}

// together runs f n times concurrently and reports the errors.
func together(t *testing.T, n int, f func(worker int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for worker := range n {
		wg.Go(func() {
			if err := f(worker); err != nil {
				t.Errorf("worker %d: %v", worker, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func testCounters(t *testing.T, s suite) {
	f := s.open(t)
	countUp(t, f.Engine)
}

// countUp has workers on each engine, which share their data, increment two counters
// concurrently, and checks that each counter's history is linear.
func countUp(t *testing.T, engines ...Engine) {
	const workers, rounds = 8, 25
	counters := []store.Key{key("counter a"), key("counter b")}
	histories := []*history{newHistory(), newHistory()}
	together(t, workers, func(worker int) error {
		e := engines[worker%len(engines)]
		for round := range rounds {
			i := (worker + round) % len(counters)
			if err := increment(t.Context(), e, counters[i], histories[i], workers*rounds); err != nil {
				return err
			}
		}
		return nil
	})
	for i, h := range histories {
		rec, err := engines[0].Load(t.Context(), counters[i])
		fatal.If(t, err)
		h.check(t, rec, workers*rounds/len(counters))
	}
}

// increment adds one to the counter. An attempt loses only to another increment, and
// never two attempts to the same one, which bounds the attempts.
func increment(ctx context.Context, e Engine, k store.Key, h *history, attempts int) error {
	rec, err := e.Load(ctx, k)
	if err != nil {
		return err
	}
	for range attempts {
		h.see(rec)
		next, err := successor(rec)
		if err != nil {
			return err
		}
		res, err := e.CompareAndSwap(ctx, store.Swap{Key: k, Old: rec.Version, Value: next})
		if err != nil {
			return err
		}
		if res.Swapped {
			h.add(rec.Version, store.Record{Version: res.Record.Version, Value: next})
			return nil
		}
		rec = res.Record
	}
	return fmt.Errorf("%d attempts lost, more than there were increments to lose to", attempts)
}

// successor returns the value of the counter rec plus one.
func successor(rec store.Record) ([]byte, error) {
	n := 0
	if rec.Exists() {
		var err error
		if n, err = strconv.Atoi(string(rec.Value)); err != nil {
			return nil, err
		}
	}
	return strconv.AppendInt(nil, int64(n+1), 10), nil
}

// history records the changes of a counter.
type history struct {
	mu    sync.Mutex
	swaps map[store.Version]store.Record // the next record by old version; guarded by mu
	seen  map[store.Version]string       // values by version; guarded by mu
	fault error                          // the first contradiction; guarded by mu
}

func newHistory() *history {
	return &history{swaps: make(map[store.Version]store.Record), seen: make(map[store.Version]string)}
}

// see records a read.
func (h *history) see(rec store.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	value, known := h.seen[rec.Version]
	if known && value != string(rec.Value) && h.fault == nil {
		h.fault = fmt.Errorf("version %q had the value %q and then %q", rec.Version, value, rec.Value)
	}
	h.seen[rec.Version] = string(rec.Value)
}

// add records a swap.
func (h *history) add(old store.Version, next store.Record) {
	h.see(next)
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, taken := h.swaps[old]; taken && h.fault == nil {
		h.fault = fmt.Errorf("two swaps from version %q happened, to %s and %s", old, show(other), show(next))
	}
	h.swaps[old] = next
}

// check checks that the swaps form one line of n steps that ends at last.
func (h *history) check(t *testing.T, last store.Record, n int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil {
		t.Fatal(h.fault)
	}
	rec := store.Record{}
	for i := range n {
		next, ok := h.swaps[rec.Version]
		if !ok {
			t.Fatalf("no swap leads on from %s, step %d of %d", show(rec), i, n)
		}
		if want := strconv.Itoa(i + 1); string(next.Value) != want {
			t.Fatalf("step %d led to %s, want %q", i, show(next), want)
		}
		delete(h.seen, rec.Version)
		rec = next
	}
	if last.Version != rec.Version || string(last.Value) != string(rec.Value) {
		t.Fatalf("at the end: %s, want %s", show(last), show(rec))
	}
	delete(h.seen, rec.Version)
	if len(h.seen) > 0 {
		t.Fatalf("versions %q were read but no swap made them", slices.Collect(maps.Keys(h.seen)))
	}
}

func testBatchedCounters(t *testing.T, s suite) {
	const workers, rounds = 4, 5
	f := s.open(t)
	counters := numbered(40)
	together(t, workers, func(worker int) error {
		// Each worker uses another order, which exposes engines that lock key by key.
		mine := slices.Clone(counters)
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		for range rounds {
			random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			if err := incrementAll(t.Context(), f.Engine, mine, workers*rounds); err != nil {
				return err
			}
		}
		return nil
	})
	for i, rec := range f.loadBatch(counters...) {
		f.checkRecord("LoadBatch", counters[i], rec, rec.Version, strconv.Itoa(workers*rounds))
	}
}

// incrementAll adds one to each of the counters, in batches of those that lost.
func incrementAll(ctx context.Context, e Engine, counters []store.Key, attempts int) error {
	recs, err := e.LoadBatch(ctx, counters)
	if err != nil {
		return err
	}
	for range attempts {
		swaps := make([]store.Swap, len(counters))
		for i, k := range counters {
			next, err := successor(recs[i])
			if err != nil {
				return err
			}
			swaps[i] = store.Swap{Key: k, Old: recs[i].Version, Value: next}
		}
		results, err := e.CompareAndSwapBatch(ctx, swaps)
		if err != nil {
			return err
		}
		counters, recs = nil, nil
		for i, res := range results {
			if !res.Swapped {
				counters, recs = append(counters, swaps[i].Key), append(recs, res.Record)
			}
		}
		if len(counters) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d attempts lost on %v", attempts, counters)
}

func testCreationRaces(t *testing.T, s suite) {
	const workers = 8
	f := s.open(t)
	for _, k := range numbered(20) {
		var results [workers]store.SwapResult
		together(t, workers, func(worker int) (err error) {
			results[worker], err = f.CompareAndSwap(t.Context(), store.Swap{Key: k, Value: fmt.Append(nil, worker)})
			return err
		})
		rec := f.load(k)
		winners := 0
		for worker, res := range results {
			if res.Swapped {
				winners++
				f.checkRecord("Load", k, rec, res.Record.Version, strconv.Itoa(worker))
			} else {
				f.checkRecord("a lost race", k, res.Record, rec.Version, string(rec.Value))
			}
		}
		if winners != 1 {
			t.Fatalf("%d creations of %v happened", winners, k)
		}
	}
}

func testDeletionRaces(t *testing.T, s suite) {
	const workers = 8
	f := s.open(t)
	for _, k := range numbered(20) {
		f.create(k, "value")
		var deleted atomic.Int32
		together(t, workers, func(int) error {
			existed, err := f.Delete(t.Context(), k)
			if existed {
				deleted.Add(1)
			}
			return err
		})
		if n := deleted.Load(); n != 1 {
			t.Fatalf("%d deletions of %v report a record", n, k)
		}
		f.wantMissing(k)
	}
}

func testListRaces(t *testing.T, s suite) {
	const churners, rounds = 3, 100
	f := s.open(t)
	stable := numbered(60)
	f.createAll(stable)
	var churning atomic.Int32
	churning.Store(churners)
	together(t, churners+1, func(worker int) error {
		if worker < churners {
			defer churning.Add(-1)
			return churn(t.Context(), f.Engine, stable, worker, rounds)
		}
		for churning.Load() > 0 {
			if err := listStable(t.Context(), f.Engine, stable); err != nil {
				return err
			}
		}
		return nil
	})
	f.wantKeys("afterwards", f.list(store.Filter{}, store.Key{}, len(stable)+1), stable)
}

// churn creates and deletes keys between the stable ones, and swaps those.
func churn(ctx context.Context, e Engine, stable []store.Key, worker, rounds int) error {
	for i := range rounds {
		k := stable[(worker+i)%len(stable)]
		between := k
		between.Target += fmt.Sprint("-", worker)
		if _, err := e.CompareAndSwap(ctx, store.Swap{Key: between}); err != nil {
			return err
		}
		rec, err := e.Load(ctx, k)
		if err != nil {
			return err
		}
		if _, err := e.CompareAndSwap(ctx, store.Swap{Key: k, Old: rec.Version}); err != nil {
			return err
		}
		if existed, err := e.Delete(ctx, between); err != nil || !existed {
			return fmt.Errorf("delete of %v: existed %v, error %v", between, existed, err)
		}
	}
	return nil
}

// testListAfterRaces has workers create and delete the same keys, which engines
// with an index beside their records must keep in step.
func testListAfterRaces(t *testing.T, s suite) {
	const workers, rounds = 6, 60
	f := s.open(t)
	keys := numbered(4)
	together(t, workers, func(worker int) error {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		for range rounds {
			k := keys[random.IntN(len(keys))]
			if _, err := f.CompareAndSwap(t.Context(), store.Swap{Key: k}); err != nil {
				return err
			}
			k = keys[random.IntN(len(keys))]
			if _, err := f.Delete(t.Context(), k); err != nil {
				return err
			}
		}
		return nil
	})
	var alive []store.Key
	for i, rec := range f.loadBatch(keys...) {
		if rec.Exists() {
			alive = append(alive, keys[i])
		}
	}
	f.wantKeys("afterwards", f.list(store.Filter{}, store.Key{}, len(keys)+1), alive)
}

// listStable lists all keys in pages and checks that they ascend and that none of
// the stable ones is missing.
func listStable(ctx context.Context, e Engine, stable []store.Key) error {
	const limit = 7
	var after store.Key
	for {
		page, err := e.List(ctx, store.Filter{}, after, limit)
		if err != nil {
			return err
		}
		for _, k := range page {
			if k.Compare(after) <= 0 {
				return fmt.Errorf("%v is listed after %v", k, after)
			}
			after = k
			if len(stable) > 0 && k == stable[0] {
				stable = stable[1:]
			}
		}
		if len(page) < limit {
			break
		}
	}
	if len(stable) > 0 {
		return fmt.Errorf("%v is not listed", stable[0])
	}
	return nil
}

func testLogRaces(t *testing.T, s suite) {
	const workers, rounds = 4, 10
	f := s.open(t)
	k := key("target")
	together(t, workers, func(worker int) error {
		for round := range rounds {
			entry := store.LogEntry{Key: k, Value: fmt.Appendf(nil, "%d %02d", worker, round)}
			if err := f.AppendLog(t.Context(), []store.LogEntry{entry}); err != nil {
				return err
			}
		}
		return nil
	})
	values, _ := f.readLog(k, "", workers*rounds+1)
	if want := min(s.LogLength, workers*rounds); len(values) != want {
		t.Fatalf("%d entries, want %d", len(values), want)
	}
	last := make(map[byte]string)
	for _, value := range values { // newest first
		worker := value[0]
		if newer, ok := last[worker]; ok && value >= newer {
			t.Fatalf("%q is older than %q", value, newer)
		}
		last[worker] = value
	}
}
