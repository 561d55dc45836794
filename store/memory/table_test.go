package memory

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/setpoint-dev/setpoint/store"
)

func TestTableQueue(t *testing.T) {
	const ttl = 10
	tab := &table[int]{ttl: ttl, growth: 8}
	a, b, c := numbered(1), numbered(2), numbered(3)
	tab.add(a, 0)
	tab.add(b, 1)
	tab.add(c, 2)
	tab.get(a, 5).touched = 5

	for _, step := range []struct {
		name  string
		now   time.Duration
		limit int
		want  []store.Key
	}{
		{"nothing is old enough", 9, 10, []store.Key{a, b, c}},
		{"the first was touched and goes to the end", 10, 10, []store.Key{b, c, a}},
		{"no more than the limit", 12, 1, []store.Key{c, a}},
		{"the next one", 12, 1, []store.Key{a}},
		{"the touched one is dead, but its turn is to come", 19, 10, []store.Key{a}},
		{"its turn has come", 20, 10, nil},
		{"nothing is left", 100, 10, nil},
	} {
		tab.sweep(step.now, step.limit)
		checkTable(t, tab)
		if got := queued(tab); !slices.Equal(got, step.want) {
			t.Fatalf("%s: queue %v, want %v", step.name, got, step.want)
		}
	}
}

func TestTableDropsAnExpiredItemOnAccess(t *testing.T) {
	tab := &table[int]{ttl: 10, index: new(index), growth: 8}
	tab.add(numbered(1), 0)
	if tab.get(numbered(1), 9) == nil {
		t.Error("the item is gone before its time")
	}
	if tab.get(numbered(1), 10) != nil {
		t.Error("the item is there after its time")
	}
	if len(tab.items) != 0 || len(queued(tab)) != 0 || len(tab.index.chunks) != 0 {
		t.Error("the item was not removed everywhere")
	}
}

// A key's parts may be of a whole message, which the table must not keep.
func TestTableCopiesKeys(t *testing.T) {
	tab := &table[int]{growth: 8}
	k := numbered(1)
	if it := tab.add(k, 0); it.key != k || unsafe.StringData(it.key.Target) == unsafe.StringData(k.Target) {
		t.Errorf("the table has the caller's own key, or another one: %v", it.key)
	}
}

// FuzzTable has a table do what a map does, and checks that its parts agree and that what it
// takes is bounded by what it holds.
func FuzzTable(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		steps := make([]byte, 900)
		for i := range steps {
			steps[i] = byte(random.IntN(256))
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		const ttl = 1000
		tab := &table[int]{ttl: ttl, index: new(index), growth: 8}
		model := map[store.Key][]byte{}
		touched := map[store.Key]time.Duration{}
		now := time.Duration(0)
		for i := 0; i+2 < len(steps); i += 3 {
			now += time.Duration(steps[i+2])
			k := store.Key{Cluster: "c", Namespace: "n", Target: strconv.Itoa(int(steps[i+1] % 128))}
			for held := range model {
				if now-touched[held] >= ttl {
					delete(model, held)
				}
			}
			it := tab.get(k, now)
			if (it != nil) != (model[k] != nil) {
				t.Fatalf("step %d: item %v, value %q", i, it, model[k])
			}
			switch action := steps[i]; {
			case action < 40:
				if it != nil {
					tab.remove(it)
					delete(model, k)
				}
			case action < 60:
				tab.sweep(now, int(steps[i+1]))
			default:
				value := bytes.Repeat([]byte{steps[i+1]}, int(action)*int(action)/16)
				if it == nil {
					it = tab.add(k, now)
				}
				tab.set(it, value)
				it.touched = now
				model[k], touched[k] = value, now
			}
			if i%(3*20) != 0 && i+5 < len(steps) {
				continue
			}
			checkTable(t, tab)
			for held, want := range model {
				if it := tab.get(held, now); it == nil || !bytes.Equal(it.value, want) {
					t.Fatalf("step %d: %v has not the value of %d bytes", i, held, len(want))
				}
			}
		}
	})
}

// TestTableGivesMemoryBack fills a table and empties it, but for a few.
func TestTableGivesMemoryBack(t *testing.T) {
	const many, few = 20_000, 10
	tab := &table[int]{growth: 8}
	value := bytes.Repeat([]byte("x"), 300)
	for i := range many {
		tab.set(tab.add(numbered(i), 0), value)
	}
	for i := range many - few {
		tab.remove(tab.get(numbered(i), 0))
	}
	checkTable(t, tab)
	for i := many - few; i < many; i++ {
		if it := tab.get(numbered(i), 0); it == nil || !bytes.Equal(it.value, value) {
			t.Errorf("item %d has not its value any more", i)
		}
	}
}

// queued returns the keys in the order of the queue.
func queued[M any](tab *table[M]) (keys []store.Key) {
	for it := tab.ends.next; it != nil && it != &tab.ends; it = it.next {
		keys = append(keys, it.key)
	}
	return keys
}

// checkTable checks that the parts of a table agree.
func checkTable[M any](t *testing.T, tab *table[M]) {
	t.Helper()
	keys := queued(tab)
	for _, k := range keys {
		it := tab.items[k]
		if it == nil || it.next.prev != it || it.prev.next != it {
			t.Fatalf("the queue is broken at %v", k)
		}
		if room := 4*len(it.value) + 128; cap(it.value) > room { // the allocator rounds up
			t.Fatalf("%v: room for %d bytes, want at most %d", k, cap(it.value), room)
		}
	}
	if len(keys) != len(tab.items) {
		t.Fatalf("%d items are in the queue, not %d", len(keys), len(tab.items))
	}
	if most := max(fewItems, 4*(len(tab.items)+1)); tab.most > most {
		t.Fatalf("the map is for %d items, want at most %d for %d", tab.most, most, len(tab.items))
	}
	if tab.index != nil {
		slices.SortFunc(keys, store.Key.Compare)
		checkChunks(t, tab.index, keys)
	}
}
