package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var batchTests = []test{
	{"EmptyDoesNothing", testEmptyBatches},
	{"LoadKeepsTheOrder", testLoadBatch},
	{"SwapKeepsTheOrder", testSwapBatch},
	{"SwapsOfOneKeyHappenInOrder", testSwapBatchOneKey},
	{"Large", testLargeBatch},
}

func testEmptyBatches(t *testing.T, s suite) {
	f := s.open(t)
	f.create(key("target"), "value")
	f.loadBatch()
	f.swapBatch()
	f.appendEntries()
	if recs, err := f.LoadBatch(t.Context(), []store.Key{}); err != nil || len(recs) != 0 {
		t.Errorf("LoadBatch of an empty slice returned %v, %v", recs, err)
	}
	if results, err := f.CompareAndSwapBatch(t.Context(), []store.Swap{}); err != nil || len(results) != 0 {
		t.Errorf("CompareAndSwapBatch of an empty slice returned %v, %v", results, err)
	}
	if err := f.AppendLog(t.Context(), []store.LogEntry{}); err != nil {
		t.Errorf("AppendLog of an empty slice: %v", err)
	}
	f.wantKeys("all", f.list(store.Filter{}, store.Key{}, 10), []store.Key{key("target")})
}

func testLoadBatch(t *testing.T, s suite) {
	f := s.open(t)
	a, b, missing := key("a"), key("b"), key("missing")
	va, vb := f.create(a, "value of a"), f.create(b, "value of b")
	recs := f.loadBatch(missing, b, a, missing, b)
	f.checkMissing("LoadBatch", missing, recs[0])
	f.checkRecord("LoadBatch", b, recs[1], vb, "value of b")
	f.checkRecord("LoadBatch", a, recs[2], va, "value of a")
	f.checkMissing("LoadBatch", missing, recs[3])
	f.checkRecord("LoadBatch", b, recs[4], vb, "value of b")
}

func testSwapBatch(t *testing.T, s suite) {
	f := s.open(t)
	kept, stale, gone, missing, made := key("kept"), key("stale"), key("gone"), key("missing"), key("made")
	vKept, vStale, vGone := f.create(kept, "1"), f.create(stale, "1"), f.create(gone, "1")
	vNew := f.replace(stale, vStale, "2")
	f.mustDelete(gone)

	results := f.swapBatch(
		store.Swap{Key: stale, Old: vStale, Value: []byte("lost")},
		store.Swap{Key: kept, Old: vKept, Value: []byte("2")},
		store.Swap{Key: gone, Old: vGone, Value: []byte("lost")},
		store.Swap{Key: made, Value: []byte("1")},
		store.Swap{Key: missing, Old: vKept, Value: []byte("lost")},
		store.Swap{Key: stale, Value: []byte("lost")})
	var swapped []bool
	for _, res := range results {
		swapped = append(swapped, res.Swapped)
	}
	if want := []bool{false, true, false, true, false, false}; !slices.Equal(swapped, want) {
		t.Fatalf("swapped %v, want %v", swapped, want)
	}
	f.checkRecord("a lost race", stale, results[0].Record, vNew, "2")
	f.checkMissing("a lost race", gone, results[2].Record)
	f.checkMissing("a lost race", missing, results[4].Record)
	f.checkRecord("a lost race", stale, results[5].Record, vNew, "2")

	f.wantRecord(stale, vNew, "2")
	f.wantRecord(kept, results[1].Record.Version, "2")
	f.wantRecord(made, results[3].Record.Version, "1")
	f.wantMissing(gone)
	f.wantMissing(missing)
}

func testSwapBatchOneKey(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	creations := f.swapBatch(
		store.Swap{Key: k, Value: []byte("first")},
		store.Swap{Key: key("other"), Value: []byte("other")},
		store.Swap{Key: k, Value: []byte("second")},
		store.Swap{Key: k, Value: []byte("third")})
	v := creations[0].Record.Version
	if !creations[0].Swapped {
		t.Fatal("the first creation did not happen")
	}
	for _, i := range []int{2, 3} {
		if creations[i].Swapped {
			t.Fatalf("creation %d of one key happened, too", i)
		}
		f.checkRecord("a lost race", k, creations[i].Record, v, "first")
	}

	swaps := f.swapBatch(
		store.Swap{Key: k, Value: []byte("lost to the first")},
		store.Swap{Key: k, Old: v, Value: []byte("second")},
		store.Swap{Key: k, Old: v, Value: []byte("lost to the second")})
	if swaps[0].Swapped || !swaps[1].Swapped || swaps[2].Swapped {
		t.Fatalf("swapped %v, %v, %v, want only the second", swaps[0].Swapped, swaps[1].Swapped, swaps[2].Swapped)
	}
	f.checkRecord("a lost race", k, swaps[0].Record, v, "first")
	f.checkRecord("a lost race", k, swaps[2].Record, swaps[1].Record.Version, "second")
	f.wantRecord(k, swaps[1].Record.Version, "second")
}

func testLargeBatch(t *testing.T, s suite) {
	f := s.open(t)
	keys := numbered(1000)
	f.createAll(keys)
	recs := f.loadBatch(keys...)
	swaps := make([]store.Swap, len(keys))
	for i, rec := range recs {
		f.checkRecord("LoadBatch", keys[i], rec, rec.Version, keys[i].String())
		swaps[i] = store.Swap{Key: keys[i], Old: rec.Version, Value: fmt.Append(nil, "second ", i)}
		if i%3 == 0 {
			swaps[i].Old = ""
		}
	}
	results := f.swapBatch(swaps...)
	for i, rec := range f.loadBatch(keys...) {
		want, version := fmt.Sprint("second ", i), results[i].Record.Version
		if i%3 == 0 {
			want, version = keys[i].String(), recs[i].Version
			f.checkRecord("a lost race", keys[i], results[i].Record, version, want)
		}
		f.checkRecord("LoadBatch", keys[i], rec, version, want)
	}
}
