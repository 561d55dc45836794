package memory

import (
	"maps"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// table maps keys to values that expire some time after they were last touched. It is not
// safe for concurrent use.
//
// Items also stand in a queue, by the time at which the sweep last looked at them (or they
// were added). Touching an item does not move it, which would cost every swap several cache
// misses; instead, the sweep moves an item that is still alive to the end. So the table drops
// an expired item within two TTLs of its last touch, as long as sweeps run.
type table[M any] struct {
	ttl    time.Duration // 0 or less: nothing expires
	index  *index        // kept in step with the table's keys; may be nil
	growth int           // spare capacity of a value: one growth-th of its length
	items  map[store.Key]*item[M]
	most   int // items since the map was made: a map never gives memory back
	// ends is the queue's head and tail.
	ends item[M]
}

// item is a key with its value. Instants are times since the store's epoch.
type item[M any] struct {
	key        store.Key
	value      []byte        // overwritten in place
	touched    time.Duration // start of the TTL
	queued     time.Duration // when it was moved to the end of the queue
	prev, next *item[M]      // neighbors in the queue
	meta       M
}

// fewItems is how many items a map may be too large for.
const fewItems = 64

// get returns the key's item, nil if it has none. It removes an expired one.
func (t *table[M]) get(k store.Key, now time.Duration) *item[M] {
	it := t.items[k]
	if it != nil && t.past(it.touched, now) {
		t.remove(it)
		return nil
	}
	return it
}

// add returns a new item, without a value, for a key that has none. It copies the key, whose
// parts may be of a whole message.
func (t *table[M]) add(k store.Key, now time.Duration) *item[M] {
	if t.items == nil {
		t.items = make(map[store.Key]*item[M])
		t.ends.prev, t.ends.next = &t.ends, &t.ends
	}
	it := &item[M]{key: copyKey(k), touched: now}
	t.items[it.key] = it
	t.most = max(t.most, len(t.items))
	t.enqueue(it, now)
	if t.index != nil {
		t.index.insert(it.key)
	}
	return it
}

func (t *table[M]) remove(it *item[M]) {
	if t.index != nil {
		t.index.remove(it.key)
	}
	delete(t.items, it.key)
	t.dequeue(it)
	if t.most <= fewItems || len(t.items) > t.most/4 {
		return
	}
	fewer := make(map[store.Key]*item[M], len(t.items))
	maps.Copy(fewer, t.items)
	t.items, t.most = fewer, len(fewer)
}

// set replaces an item's value.
func (t *table[M]) set(it *item[M], value []byte) {
	if cap(it.value) > 4*len(value)+64 {
		it.value = nil
	}
	it.value = append(t.room(it.value[:0], len(value)), value...)
}

// room returns the value with capacity for as many more bytes, and for somewhat more if it has to
// be moved, so that the next one most likely fits, too.
func (t *table[M]) room(value []byte, more int) []byte {
	used := len(value) + more
	if used <= cap(value) {
		return value
	}
	return append(make([]byte, 0, used+used/t.growth), value...)
}

// sweep checks up to limit items for expiry, least recently checked first, and removes
// the expired ones.
func (t *table[M]) sweep(now time.Duration, limit int) {
	for range min(limit, len(t.items)) {
		switch it := t.ends.next; {
		case !t.past(it.queued, now):
			return
		case t.past(it.touched, now):
			t.remove(it)
		default:
			t.dequeue(it)
			t.enqueue(it, now)
		}
	}
}

// past reports whether the TTL has passed since the given instant.
func (t *table[M]) past(since, now time.Duration) bool {
	return t.ttl > 0 && now-since >= t.ttl
}

func (t *table[M]) enqueue(it *item[M], now time.Duration) {
	it.queued, it.prev, it.next = now, t.ends.prev, &t.ends
	it.prev.next, t.ends.prev = it, it
}

func (t *table[M]) dequeue(it *item[M]) {
	it.prev.next, it.next.prev = it.next, it.prev
}

// copyKey copies the key's parts, into one string.
func copyKey(k store.Key) store.Key {
	all := strings.Join([]string{k.Cluster, k.Namespace, k.Target}, "")
	namespace := len(k.Cluster)
	target := namespace + len(k.Namespace)
	return store.Key{Cluster: all[:namespace], Namespace: all[namespace:target], Target: all[target:]}
}
