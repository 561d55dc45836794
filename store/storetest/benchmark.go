package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	benchmarkValue = 300 // bytes, about the size of a target's history
	benchmarkBatch = 500
	benchmarkPage  = 100
)

// Benchmark measures the operations on an engine with the given number of keys, at
// least several thousand. GOMAXPROCS goroutines run op=load and op=swap concurrently
// (more with -cpu), one goroutine everything else; for batches, ns/key is the time per
// key.
func Benchmark(b *testing.B, newStore func(t testing.TB) Engine, keys int) {
	e := newStore(b)
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	})
	set := fill(b, e, keys)
	size := fmt.Sprintf("/keys=%d", keys)
	b.Run("op=load"+size, func(b *testing.B) { benchmarkLoad(b, e, set) })
	b.Run("op=swap"+size, func(b *testing.B) { benchmarkSwap(b, e, set) })
	b.Run(fmt.Sprintf("op=load-batch%s/batch=%d", size, benchmarkBatch), func(b *testing.B) { benchmarkLoadBatch(b, e, set) })
	b.Run(fmt.Sprintf("op=swap-batch%s/batch=%d", size, benchmarkBatch), func(b *testing.B) { benchmarkSwapBatch(b, e, set) })
	b.Run("op=create-delete"+size, func(b *testing.B) { benchmarkCreateDelete(b, e) })
	b.Run(fmt.Sprintf("op=list%s/page=%d", size, benchmarkPage), func(b *testing.B) { benchmarkList(b, e, store.Filter{}, set) })
	b.Run(fmt.Sprintf("op=list-namespace%s/page=%d", size, benchmarkPage), func(b *testing.B) {
		benchmarkList(b, e, store.Filter{Namespace: set.keys[0].Namespace}, set)
	})
	b.Run("op=append-log"+size, func(b *testing.B) { benchmarkAppendLog(b, e, set) })
}

// benchmarkSet is the content of the engine: keys in random order.
type benchmarkSet struct {
	keys     []store.Key
	versions []store.Version // by index in keys
	value    []byte
}

// fill creates n keys in 10 clusters with 50 namespaces each.
func fill(b *testing.B, e Engine, n int) *benchmarkSet {
	b.Helper()
	set := &benchmarkSet{keys: make([]store.Key, n), versions: make([]store.Version, n), value: make([]byte, benchmarkValue)}
	for i := range set.keys {
		set.keys[i] = store.Key{
			Cluster:   fmt.Sprintf("cluster-%d", i%10),
			Namespace: fmt.Sprintf("namespace-%02d", i/10%50),
			Target:    fmt.Sprintf("target-%07d", i),
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	random.Shuffle(n, func(i, j int) { set.keys[i], set.keys[j] = set.keys[j], set.keys[i] })
	for from := 0; from < n; from += benchmarkBatch {
		set.swapBatch(b, e, from, min(from+benchmarkBatch, n))
	}
	return set
}

// swapBatch swaps the keys in [from, to).
func (set *benchmarkSet) swapBatch(b *testing.B, e Engine, from, to int) {
	b.Helper()
	swaps := make([]store.Swap, to-from)
	for i := range swaps {
		swaps[i] = store.Swap{Key: set.keys[from+i], Old: set.versions[from+i], Value: set.value}
	}
	results, err := e.CompareAndSwapBatch(b.Context(), swaps)
	fatal.If(b, err)
	for i, res := range results {
		if !res.Swapped {
			b.Fatalf("lost a race without a competitor: %v, %s", swaps[i].Key, show(res.Record))
		}
		set.versions[from+i] = res.Record.Version
	}
}

// parallel calls f for the indices of keys in turn; no two goroutines share an index.
func (set *benchmarkSet) parallel(b *testing.B, f func(ctx context.Context, i int) error) {
	b.Helper()
	const stripes = 256
	var stripe atomic.Int64
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		first := int(stripe.Add(1)-1) % stripes
		for i := first; pb.Next(); i += stripes {
			if i >= len(set.keys) {
				i = first
			}
			if err := f(ctx, i); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func benchmarkLoad(b *testing.B, e Engine, set *benchmarkSet) {
	set.parallel(b, func(ctx context.Context, i int) error {
		rec, err := e.Load(ctx, set.keys[i])
		if err == nil && rec.Version != set.versions[i] {
			err = fmt.Errorf("%v: %s, want version %q", set.keys[i], show(rec), set.versions[i])
		}
		return err
	})
}

func benchmarkSwap(b *testing.B, e Engine, set *benchmarkSet) {
	set.parallel(b, func(ctx context.Context, i int) error {
		res, err := e.CompareAndSwap(ctx, store.Swap{Key: set.keys[i], Old: set.versions[i], Value: set.value})
		if err == nil && !res.Swapped {
			err = fmt.Errorf("lost a race without a competitor: %v, %s", set.keys[i], show(res.Record))
		}
		set.versions[i] = res.Record.Version
		return err
	})
}

func benchmarkLoadBatch(b *testing.B, e Engine, set *benchmarkSet) {
	b.ReportAllocs()
	from := 0
	for b.Loop() {
		if _, err := e.LoadBatch(b.Context(), set.keys[from:from+benchmarkBatch]); err != nil {
			b.Fatal(err)
		}
		from = set.nextBatch(from)
	}
	reportPerKey(b)
}

func benchmarkSwapBatch(b *testing.B, e Engine, set *benchmarkSet) {
	b.ReportAllocs()
	from := 0
	for b.Loop() {
		set.swapBatch(b, e, from, from+benchmarkBatch)
		from = set.nextBatch(from)
	}
	reportPerKey(b)
}

// nextBatch returns the start of the batch after the one at from.
func (set *benchmarkSet) nextBatch(from int) int {
	if from += benchmarkBatch; from+benchmarkBatch > len(set.keys) {
		return 0
	}
	return from
}

func reportPerKey(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchmarkBatch), "ns/key")
}

func benchmarkCreateDelete(b *testing.B, e Engine) {
	b.ReportAllocs()
	k := key("created and deleted")
	for b.Loop() {
		if _, err := e.CompareAndSwap(b.Context(), store.Swap{Key: k}); err != nil {
			b.Fatal(err)
		}
		if existed, err := e.Delete(b.Context(), k); err != nil || !existed {
			b.Fatalf("Delete: %v, %v", existed, err)
		}
	}
}

func benchmarkList(b *testing.B, e Engine, filter store.Filter, set *benchmarkSet) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := e.List(b.Context(), filter, set.keys[i%len(set.keys)], benchmarkPage); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkAppendLog(b *testing.B, e Engine, set *benchmarkSet) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		entry := store.LogEntry{Key: set.keys[i%benchmarkBatch], Value: set.value}
		fatal.If(b, e.AppendLog(b.Context(), []store.LogEntry{entry}))
	}
}
