package storetest

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var usageTests = []test{
	{"OfOneCluster", testUsageOfOneCluster},
	{"OfMany", testUsageOfMany},
	{"OfExpired", testUsageOfExpired},
}

// usage returns what the cluster's records take.
func (f fixture) usage(cluster string) store.Usage {
	f.t.Helper()
	engine, ok := f.Engine.(store.Usages)
	if !ok {
		f.t.Fatal("the engine does not implement store.Usages and Options.Skip does not say why")
	}
	used, err := engine.Usage(f.t.Context(), cluster)
	if err != nil {
		f.t.Fatalf("Usage(%q): %v", cluster, err)
	}
	return used
}

func (f fixture) wantUsage(cluster string, want store.Usage) {
	f.t.Helper()
	if got := f.usage(cluster); got != want {
		f.t.Errorf("Usage(%q) = %+v, want %+v", cluster, got, want)
	}
}

// Of few records all is known, and no cluster is taken for one whose name is like its own.
func testUsageOfOneCluster(t *testing.T, s suite) {
	f := s.open(t)
	f.wantUsage("a", store.Usage{})
	f.wantUsage("", store.Usage{})
	var all store.Usage
	for i, cluster := range []string{"a", "a-b", "a.b", "aa", "b", "A"} {
		want := store.Usage{}
		for n := range 3 + i {
			value := make([]byte, 10*(i+1)+n)
			key := store.Key{Cluster: cluster, Namespace: "n", Target: fmt.Sprint("t", n)}
			if res, err := f.CompareAndSwap(t.Context(), store.Swap{Key: key, Value: value}); err != nil || !res.Swapped {
				t.Fatal(res, err)
			}
			want.Keys, want.Bytes = want.Keys+1, want.Bytes+int64(len(value))
		}
		all.Keys, all.Bytes = all.Keys+want.Keys, all.Bytes+want.Bytes
		f.wantUsage(cluster, want)
	}
	f.wantUsage("", all)
	f.wantUsage("c", store.Usage{})
	if _, err := f.Delete(t.Context(), store.Key{Cluster: "a", Namespace: "n", Target: "t2"}); err != nil {
		t.Fatal(err)
	}
	f.wantUsage("a", store.Usage{Keys: 2, Bytes: 10 + 11})
}

// Of many records keys are counted and what they take is estimated: well, where they are
// of one size.
func testUsageOfMany(t *testing.T, s suite) {
	f := s.open(t)
	const each, size = 1500, 100
	for _, cluster := range []string{"first", "second", "third"} {
		swaps := make([]store.Swap, each)
		for i := range swaps {
			swaps[i] = store.Swap{Key: store.Key{Cluster: cluster, Namespace: "n", Target: fmt.Sprint(i)}, Value: make([]byte, size)}
		}
		if _, err := f.CompareAndSwapBatch(t.Context(), swaps); err != nil {
			t.Fatal(err)
		}
	}
	for cluster, want := range map[string]int64{"first": each, "second": each, "third": each, "": 3 * each} {
		got := f.usage(cluster)
		if off := got.Bytes - want*size; got.Keys != want || off < -1 || off > 1 {
			t.Errorf("Usage(%q) = %+v, want %d keys of %d bytes", cluster, got, want, size)
		}
	}
}

func testUsageOfExpired(t *testing.T, s suite) {
	f := s.openExpiring(t)
	for n := range 20 {
		if _, err := f.CompareAndSwap(t.Context(), store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprint(n)}, Value: []byte("value")}); err != nil {
			t.Fatal(err)
		}
	}
	f.pass(3)
	for n := range 5 {
		if _, err := f.CompareAndSwap(t.Context(), store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprint("late", n)}, Value: []byte("value")}); err != nil {
			t.Fatal(err)
		}
	}
	f.wantUsage("c", store.Usage{Keys: 25, Bytes: 25 * 5})
	f.pass(2)
	f.wantUsage("c", store.Usage{Keys: 5, Bytes: 5 * 5})
}
