package memory

import (
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// table maps keys to values that expire when they were not touched for a while.
// It is not safe for concurrent use.
//
// Its items also stand in a queue, by the time at which the sweep last looked at
// them (or they were added). Touching an item does not move it, which would cost
// every swap several cache misses; the sweep sends it to the end instead when
// its turn comes and it turns out to be alive. So an expired item leaves within
// two TTLs of its last touch, given that sweeps happen.
type table[V any] struct {
	ttl   time.Duration // 0 or less: nothing expires
	items map[store.Key]*item[V]
	queue item[V] // its next is the queue's front, its prev the end
	index *index  // kept in step with the keys of items; may be nil
}

// item is a key with its value. Instants are times since the store's epoch.
type item[V any] struct {
	key        store.Key
	touched    time.Duration // what the TTL is measured from
	queued     time.Duration // when it came to the end of the queue
	prev, next *item[V]
	value      V
}

func newTable[V any](ttl time.Duration, index *index) *table[V] {
	t := &table[V]{ttl: ttl, items: make(map[store.Key]*item[V]), index: index}
	t.queue.prev, t.queue.next = &t.queue, &t.queue
	return t
}

// get returns the key's item, nil if there is none. It removes one that has
// expired.
func (t *table[V]) get(key store.Key, now time.Duration) *item[V] {
	it := t.items[key]
	if it != nil && t.past(it.touched, now) {
		t.remove(it)
		return nil
	}
	return it
}

// add returns a new item with the zero value for a key that has none.
func (t *table[V]) add(key store.Key, now time.Duration) *item[V] {
	it := &item[V]{key: cloneKey(key), touched: now}
	t.items[it.key] = it
	t.enqueue(it, now)
	if t.index != nil {
		t.index.insert(it.key)
	}
	return it
}

// remove removes an item of the table.
func (t *table[V]) remove(it *item[V]) {
	delete(t.items, it.key)
	it.dequeue()
	if t.index != nil {
		t.index.remove(it.key)
	}
}

// sweep looks at up to limit items, those first that it has not looked at for
// longest, and removes the expired ones.
func (t *table[V]) sweep(now time.Duration, limit int) {
	for range limit {
		it := t.queue.next
		switch {
		case it == &t.queue, !t.past(it.queued, now):
			return
		case t.past(it.touched, now):
			t.remove(it)
		default:
			it.dequeue()
			t.enqueue(it, now)
		}
	}
}

// past reports whether the TTL has gone by since the instant given.
func (t *table[V]) past(since, now time.Duration) bool {
	return t.ttl > 0 && now-since >= t.ttl
}

func (t *table[V]) enqueue(it *item[V], now time.Duration) {
	it.queued = now
	it.prev, it.next = t.queue.prev, &t.queue
	it.prev.next, it.next.prev = it, it
}

func (it *item[V]) dequeue() {
	it.prev.next, it.next.prev = it.next, it.prev
	it.prev, it.next = nil, nil
}

// cloneKey copies the key into memory of its own, so that the table does not pin
// the request that the key's parts may be slices of.
func cloneKey(k store.Key) store.Key {
	all := k.Cluster + k.Namespace + k.Target
	namespace, target := len(k.Cluster), len(k.Cluster)+len(k.Namespace)
	return store.Key{Cluster: all[:namespace], Namespace: all[namespace:target], Target: all[target:]}
}
