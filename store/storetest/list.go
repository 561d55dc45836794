package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var listTests = []test{
	{"EmptyStore", testListEmpty},
	{"Order", testListOrder},
	{"Pages", testListPages},
	{"FiltersAndPositions", testListFilters},
	{"KeysWithARecordOnly", testListRecordsOnly},
	{"ChangesBetweenPages", testListChanges},
}

// namesInOrder are prefixes of each other, continued by bytes below and above '/'.
var namesInOrder = []string{"A", "a", "a-", "a-b", "a.b", "a0", "a_b", "aa", "b"}

// grid returns the keys of all combinations of names, in no order.
func grid() []store.Key {
	var keys []store.Key
	for _, cluster := range namesInOrder {
		for _, namespace := range namesInOrder[:5] {
			for _, target := range namesInOrder[1:5] {
				keys = append(keys, store.Key{Cluster: cluster, Namespace: namespace, Target: target})
			}
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

func testListEmpty(t *testing.T, s suite) {
	f := s.open(t)
	for _, filter := range []store.Filter{{}, {Cluster: "a"}, {Namespace: "a"}, {Cluster: "a", Namespace: "a"}} {
		for _, after := range []store.Key{{}, key("target")} {
			f.wantKeys("nothing", f.list(filter, after, 10), nil)
		}
	}
}

func testListOrder(t *testing.T, s suite) {
	f := s.open(t)
	keys := grid()
	f.createAll(keys)
	slices.SortFunc(keys, store.Key.Compare)
	f.wantKeys("all", f.list(store.Filter{}, store.Key{}, len(keys)+1), keys)
	f.wantKeys("all, without a limit", f.list(store.Filter{}, store.Key{}, math.MaxInt32), keys)
}

func testListPages(t *testing.T, s suite) {
	f := s.open(t)
	keys := grid()
	f.createAll(keys)
	slices.SortFunc(keys, store.Key.Compare)
	for _, limit := range []int{1, 7, 60, len(keys) - 1, len(keys), len(keys) + 1} {
		var got []store.Key
		for after := (store.Key{}); ; after = got[len(got)-1] {
			page := f.list(store.Filter{}, after, limit)
			got = append(got, page...)
			if len(page) < limit || len(got) > len(keys) {
				break
			}
		}
		f.wantKeys(fmt.Sprintf("pages of %d", limit), got, keys)
	}
}

func testListFilters(t *testing.T, s suite) {
	f := s.open(t)
	keys := grid()
	f.createAll(keys)
	slices.SortFunc(keys, store.Key.Compare)
	check := func(filter store.Filter, after store.Key, limit int) {
		t.Helper()
		f.wantKeys(fmt.Sprintf("filter %q, after %q, limit %d", filter, after, limit),
			f.list(filter, after, limit), listed(keys, filter, after, limit))
	}
	// Positions before, between, at and after the selected keys.
	names := slices.Concat(namesInOrder, []string{"", "missing", "a-a", "z"})
	for _, cluster := range names {
		for _, namespace := range names {
			check(store.Filter{Cluster: cluster, Namespace: namespace}, store.Key{}, len(keys))
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	pick := func() string { return names[random.IntN(len(names))] }
	for range 300 {
		filter := store.Filter{Cluster: pick(), Namespace: pick()}
		if random.IntN(2) == 0 {
			filter.Cluster = ""
		}
		if random.IntN(2) == 0 {
			filter.Namespace = ""
		}
		check(filter, store.Key{Cluster: pick(), Namespace: pick(), Target: pick()}, 1+random.IntN(30))
	}
}

func testListRecordsOnly(t *testing.T, s suite) {
	f := s.open(t)
	keys := numbered(5)
	f.createAll(keys)
	f.appendLog(key("target-00002-log"), "entry")
	f.load(key("target-00002-load"))
	f.lose(key("target-00002-lost"), f.load(keys[0]).Version, "value")
	f.wantKeys("all", f.list(store.Filter{}, store.Key{}, 100), keys)

	f.replace(keys[1], f.load(keys[1]).Version, "second")
	f.wantKeys("all after a swap", f.list(store.Filter{}, store.Key{}, 100), keys)

	f.mustDelete(keys[3])
	f.wantKeys("all but the deleted", f.list(store.Filter{}, store.Key{}, 100), slices.Delete(slices.Clone(keys), 3, 4))

	f.create(keys[3], "again")
	f.wantKeys("all and the recreated", f.list(store.Filter{}, store.Key{}, 100), keys)
}

func testListChanges(t *testing.T, s suite) {
	f := s.open(t)
	keys := numbered(12)
	f.createAll(keys)
	first := f.list(store.Filter{}, store.Key{}, 4)
	f.wantKeys("first page", first, keys[:4])

	f.mustDelete(keys[1]) // before the position
	f.mustDelete(keys[3]) // the position itself
	f.mustDelete(keys[5]) // after it
	f.create(key("target-00002-new"), "before the position")
	f.create(key("target-00008-new"), "after the position")
	f.replace(keys[7], f.load(keys[7]).Version, "second")

	want := slices.Concat(keys[4:5], keys[6:9], []store.Key{key("target-00008-new")}, keys[9:])
	f.wantKeys("the rest", f.list(store.Filter{}, keys[3], 100), want)
}
