package memory

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/setpoint-dev/setpoint/store"
)

func TestTableQueue(t *testing.T) {
	const ttl = 10
	tab := newTable[int](ttl, nil)
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
		var got []store.Key
		for it := tab.queue.next; it != &tab.queue; it = it.next {
			got = append(got, it.key)
			if it.next.prev != it || it.prev.next != it {
				t.Fatalf("%s: the queue is broken at %v", step.name, it.key)
			}
		}
		if len(got) != len(tab.items) || !slices.Equal(got, step.want) {
			t.Fatalf("%s: queue %v, %d items, want %v", step.name, got, len(tab.items), step.want)
		}
	}
}

func TestTableDropsAnExpiredItemOnAccess(t *testing.T) {
	tab := newTable[int](10, new(index))
	tab.add(numbered(1), 0)
	if tab.get(numbered(1), 9) == nil {
		t.Error("the item is gone before its time")
	}
	if tab.get(numbered(1), 10) != nil {
		t.Error("the item is there after its time")
	}
	if len(tab.items) != 0 || tab.queue.next != &tab.queue || len(tab.index.chunks) != 0 {
		t.Error("the item was not removed everywhere")
	}
}

// TestTablePinsNoRequest shows that a key that was cut out of a large string does
// not keep that alive.
func TestTablePinsNoRequest(t *testing.T) {
	request := strings.Repeat("clusternamespacetarget", 10)
	k := store.Key{Cluster: request[:7], Namespace: request[7:16], Target: request[16:22]}
	tab := newTable[int](0, nil)
	it := tab.add(k, 0)
	if it.key != k {
		t.Fatalf("the key became %v", it.key)
	}
	for mapped := range tab.items {
		if unsafe.StringData(mapped.Cluster) == unsafe.StringData(k.Cluster) {
			t.Error("the table keeps the caller's string")
		}
	}
}
