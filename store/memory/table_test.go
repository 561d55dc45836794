package memory

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// hash gives keys hashes of which many are the same.
func hash(k store.Key) hashed {
	return hashed{k, uint32(len(k.Target) + int(k.Target[len(k.Target)-1]))}
}

func TestTableQueue(t *testing.T) {
	const ttl = 10
	tab := &table[int]{ttl: ttl, growth: 8}
	a, b, c := numbered(1), numbered(2), numbered(3)
	tab.add(hash(a), 0, 0)
	tab.add(hash(b), 1, 0)
	tab.add(hash(c), 2, 0)
	tab.items[tab.get(hash(a), 5)].touched = 5

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
	tab.add(hash(numbered(1)), 0, 0)
	if tab.get(hash(numbered(1)), 9) == 0 {
		t.Error("the item is gone before its time")
	}
	if tab.get(hash(numbered(1)), 10) != 0 {
		t.Error("the item is there after its time")
	}
	if tab.count != 0 || len(queued(tab)) != 0 || len(tab.index.chunks) != 0 {
		t.Error("the item was not removed everywhere")
	}
}

// TestNothingForTheCollectorToFollow shows that tables hold no pointers but those to their
// own four pieces of memory and the index.
func TestNothingForTheCollectorToFollow(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[item[version]](), reflect.TypeFor[item[history]](), reflect.TypeFor[number]()} {
		checkWithoutPointers(t, of)
	}
}

func checkWithoutPointers(t *testing.T, of reflect.Type) {
	t.Helper()
	switch {
	case of.Kind() == reflect.Struct:
		for field := range of.Fields() {
			checkWithoutPointers(t, field.Type)
		}
	case of.Kind() < reflect.Bool || of.Kind() > reflect.Complex128:
		t.Errorf("%v has, or may have, a pointer", of)
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
			n := tab.get(hash(k), now)
			if (n != 0) != (model[k] != nil) {
				t.Fatalf("step %d: item %d, value %q", i, n, model[k])
			}
			switch action := steps[i]; {
			case action < 40:
				if n != 0 {
					tab.remove(n)
					delete(model, k)
				}
			case action < 60:
				tab.sweep(now, int(steps[i+1]))
			default:
				value := bytes.Repeat([]byte{steps[i+1]}, int(action)*int(action)/16)
				if n == 0 {
					n = tab.add(hash(k), now, len(value))
				}
				tab.set(n, value)
				tab.items[n].touched = now
				model[k], touched[k] = value, now
			}
			if i%(3*20) != 0 && i+5 < len(steps) {
				continue
			}
			checkTable(t, tab)
			for held, want := range model {
				if n := tab.get(hash(held), now); n == 0 || !bytes.Equal(tab.value(n), want) {
					t.Fatalf("step %d: item %d of %v has not the value of %d bytes", i, n, held, len(want))
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
	numberedHash := func(i int) hashed { return hashed{numbered(i), uint32(i)} }
	for i := range many {
		tab.set(tab.add(numberedHash(i), 0, len(value)), value)
	}
	full := cap(tab.bytes) + cap(tab.items) + len(tab.heads)
	for i := range many - few {
		tab.remove(tab.get(numberedHash(i), 0))
	}
	checkTable(t, tab)
	if left := cap(tab.bytes) + cap(tab.items) + len(tab.heads); left > full/100 {
		t.Errorf("room for %d bytes and %d items is left, of %d", cap(tab.bytes), cap(tab.items), full)
	}
	for i := many - few; i < many; i++ {
		if n := tab.get(numberedHash(i), 0); n == 0 || !bytes.Equal(tab.value(n), value) {
			t.Errorf("item %d has not its value any more", i)
		}
	}
}

// queued returns the keys in the order of the queue.
func queued[M any](tab *table[M]) (keys []store.Key) {
	for n := range tab.queue {
		keys = append(keys, keyOf(tab, n))
	}
	return keys
}

func keyOf[M any](tab *table[M], n number) store.Key {
	it := tab.items[n]
	return cutKey(string(tab.bytes[it.at : it.at+it.keyLength]))
}

// checkTable checks that the parts of a table agree.
func checkTable[M any](t *testing.T, tab *table[M]) {
	t.Helper()
	type place struct{ from, to int }
	var places []place
	room := 0
	for n := range tab.queue {
		it := tab.items[n]
		if tab.items[it.next].prev != n || tab.items[it.prev].next != n {
			t.Fatalf("the queue is broken at item %d", n)
		}
		if it.keyLength > it.used || it.used > it.room || it.at+it.room > len(tab.bytes) {
			t.Fatalf("item %d: key %d, used %d, room %d at %d of %d bytes", n, it.keyLength, it.used, it.room, it.at, len(tab.bytes))
		}
		places = append(places, place{it.at, it.at + it.room})
		room += it.room
	}
	if len(places) != tab.count {
		t.Fatalf("%d items are in the queue, not %d", len(places), tab.count)
	}
	slices.SortFunc(places, func(a, b place) int { return a.from - b.from })
	for i := 1; i < len(places); i++ {
		if places[i].from < places[i-1].to {
			t.Fatalf("two items share bytes: %v and %v", places[i-1], places[i])
		}
	}
	if room+tab.dead != len(tab.bytes) {
		t.Fatalf("%d bytes are of items and %d of none, but there are %d", room, tab.dead, len(tab.bytes))
	}
	if room := max(fewBytes, 4*room); cap(tab.bytes) > room {
		t.Fatalf("room for %d bytes, want at most %d", cap(tab.bytes), room)
	}
	if most := max(fewItems, 4*(tab.count+1)); cap(tab.items) > most {
		t.Fatalf("room for %d items, want at most %d for %d", cap(tab.items), most, tab.count)
	}
	chained := 0
	for place := range tab.heads {
		for n := tab.heads[place]; n != 0; n = tab.items[n].chain {
			if chained++; chained > tab.count {
				t.Fatal("the chains hold more than there is")
			}
		}
	}
	free := 0
	for n := tab.free; n != 0; n = tab.items[n].chain {
		if free++; free > len(tab.items) {
			t.Fatal("the chain of free items has no end")
		}
	}
	if chained != tab.count || tab.count+free != max(0, len(tab.items)-1) {
		t.Fatalf("%d items chained and %d free, of %d; %d in the queue", chained, free, len(tab.items)-1, tab.count)
	}
	if tab.index != nil {
		keys := queued(tab)
		slices.SortFunc(keys, store.Key.Compare)
		checkChunks(t, tab.index, keys)
	}
}
