package memory

import (
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// table maps keys to values that expire some time after they were last touched. It is not
// safe for concurrent use.
//
// It contains no pointers: items refer to each other by number, and keys and values are
// stored in one slice of bytes. So a garbage collection takes as long with a million keys as
// with none.
//
// Items also stand in a queue, by the time at which the sweep last looked at them (or they
// were added). Touching an item does not move it, which would cost every swap several cache
// misses; instead, the sweep moves an item that is still alive to the end. So the table drops
// an expired item within two TTLs of its last touch, as long as sweeps run.
type table[M any] struct {
	ttl    time.Duration // 0 or less: nothing expires
	index  *index        // kept in step with the table's keys; may be nil
	growth int           // spare capacity of an item: one growth-th of what it uses
	// items by number. Item 0 is a sentinel: the head and tail of the queue.
	items []item[M]
	count int    // items that have a key
	free  number // first of the free items, which are chained
	heads []number
	// bytes stores the keys and values of all items; dead counts the bytes that no item
	// uses any more.
	bytes []byte
	dead  int
}

// number identifies an item in its table. It stays the same until an item is removed.
type number uint32

// item is a key with its value. Instants are times since the store's epoch.
//
// Its key's text, followed by its value, takes used bytes from offset at. The item's
// capacity is larger, so that a value that grows a little stays in place.
type item[M any] struct {
	at, used, room int
	keyLength      int
	touched        time.Duration // start of the TTL
	queued         time.Duration // when it was moved to the end of the queue
	hash           uint32
	chain          number // the next item with the same hash slot
	prev, next     number // neighbors in the queue
	meta           M      // has no pointers
}

// hashed is a key and its hash.
type hashed struct {
	store.Key
	hash uint32
}

const (
	// Minimum capacities. The table gives memory back when it uses less than a quarter.
	leastItems, leastBytes = 8, 1 << 10
	fewItems, fewBytes     = 8 * leastItems, 8 * leastBytes
)

// get returns the number of the key's item, 0 if it has none. It removes an expired
// one.
func (t *table[M]) get(k hashed, now time.Duration) number {
	if len(t.heads) == 0 {
		return 0
	}
	for n := *t.head(k.hash); n != 0; n = t.items[n].chain {
		it := &t.items[n]
		if it.hash != k.hash || !spells(t.bytes[it.at:it.at+it.keyLength], k.Key) {
			continue
		}
		if t.past(it.touched, now) {
			t.remove(n)
			return 0
		}
		return n
	}
	return 0
}

// add returns the number of a new item for a key that has none. It has no value yet, but
// capacity for one of that length.
func (t *table[M]) add(k hashed, now time.Duration, length int) number {
	if len(t.items) == 0 {
		t.items = make([]item[M], 1, leastItems)
	}
	n := t.free
	if n != 0 {
		t.free = t.items[n].chain
	} else {
		n = number(len(t.items))
		t.items = append(t.items, item[M]{})
	}
	t.items[n] = item[M]{hash: k.hash, touched: now}
	t.enqueue(n, now)
	if t.count++; t.count > len(t.heads) {
		t.rehash()
	} else {
		t.link(n)
	}
	t.name(n, k.Key, length)
	if t.index != nil {
		t.index.insert(k.Key)
	}
	return n
}

// name writes a new item's key into the bytes and reserves capacity for its value.
func (t *table[M]) name(n number, k store.Key, length int) {
	keyLength := len(k.Cluster) + 1 + len(k.Namespace) + 1 + len(k.Target)
	t.move(n, 0, t.roomFor(keyLength+length))
	it := &t.items[n]
	it.keyLength, it.used = keyLength, keyLength
	appendKey(t.bytes[it.at:it.at], k)
}

// roomFor returns somewhat more than is used, so that the next value most likely fits,
// too.
func (t *table[M]) roomFor(used int) int { return used + used/t.growth }

// remove removes an item of the table. It may change the numbers of other items.
func (t *table[M]) remove(n number) {
	if t.index != nil {
		it := &t.items[n]
		t.index.remove(cutKey(string(t.bytes[it.at : it.at+it.keyLength])))
	}
	for place := t.head(t.items[n].hash); ; place = &t.items[*place].chain {
		if *place == n {
			*place = t.items[n].chain
			break
		}
	}
	t.dequeue(n)
	t.dead += t.items[n].room
	t.items[n] = item[M]{chain: t.free}
	t.free = n
	t.count--
	t.shrink()
}

// value returns an item's value, valid until the next change of the table.
func (t *table[M]) value(n number) []byte {
	it := &t.items[n]
	return t.bytes[it.at+it.keyLength : it.at+it.used]
}

// set replaces an item's value.
func (t *table[M]) set(n number, value []byte) {
	copy(t.resize(n, len(value)), value)
}

// fits reports whether a value of that length fits into the item's capacity.
func (t *table[M]) fits(n number, length int) bool {
	return t.items[n].keyLength+length <= t.items[n].room
}

// resize sets the length of an item's value, keeping as much of the value as fits, and
// returns it.
func (t *table[M]) resize(n number, length int) []byte {
	used := t.items[n].keyLength + length
	if !t.fits(n, length) || t.items[n].room > 4*used+64 {
		t.move(n, used, t.roomFor(used))
	}
	t.items[n].used = used
	t.spare()
	return t.value(n)
}

// move moves an item to a place with that capacity.
func (t *table[M]) move(n number, used, room int) {
	if cap(t.bytes)-len(t.bytes) < room {
		t.compact(room)
	}
	at := len(t.bytes)
	t.bytes = t.bytes[:at+room]
	it := &t.items[n]
	copy(t.bytes[at:], t.bytes[it.at:it.at+min(it.used, used)])
	t.dead += it.room
	it.at, it.room = at, room
}

// compact drops the dead bytes and makes room for n more, and for half of that size again.
// So each byte that is added costs at most two copies.
func (t *table[M]) compact(more int) {
	living := len(t.bytes) - t.dead + more
	to := make([]byte, 0, max(leastBytes, living+living/2))
	for n := range t.queue {
		it := &t.items[n]
		at := len(to)
		to = append(to, t.bytes[it.at:it.at+it.used]...)[:at+it.room]
		it.at = at
	}
	t.bytes, t.dead = to, 0
}

// spare frees memory if most bytes are dead.
func (t *table[M]) spare() {
	if living := len(t.bytes) - t.dead; cap(t.bytes) > fewBytes && 4*living < cap(t.bytes) {
		t.compact(0)
	}
}

// shrink frees memory if most items were removed.
func (t *table[M]) shrink() {
	t.spare()
	if cap(t.items) <= fewItems || t.count > cap(t.items)/4 {
		return
	}
	// Items are renumbered in the order of the queue.
	items := make([]item[M], 1, max(leastItems, 2*t.count))
	for n := range t.queue {
		it := t.items[n]
		it.prev, it.next = number(len(items)-1), number(len(items)+1)
		items = append(items, it)
	}
	last := len(items) - 1
	items[0].prev, items[0].next = number(last), min(1, number(last))
	items[last].next = 0
	t.items, t.free = items, 0
	t.rehash()
}

// rehash builds a hash table with twice as many slots as there are items.
func (t *table[M]) rehash() {
	size := leastItems
	for size < 2*t.count {
		size *= 2
	}
	t.heads = make([]number, size)
	for n := range t.queue {
		t.link(n)
	}
}

func (t *table[M]) link(n number) {
	head := t.head(t.items[n].hash)
	t.items[n].chain, *head = *head, n
}

// head returns the slot of a hash, which has the first item of its chain.
func (t *table[M]) head(hash uint32) *number {
	return &t.heads[hash&uint32(len(t.heads)-1)]
}

// queue yields the items from the front of the queue on. The caller must not remove items
// meanwhile.
func (t *table[M]) queue(yield func(number) bool) {
	if len(t.items) == 0 {
		return
	}
	for n := t.items[0].next; n != 0 && yield(n); n = t.items[n].next {
	}
}

// sweep checks up to limit items for expiry, least recently checked first, and removes
// the expired ones.
func (t *table[M]) sweep(now time.Duration, limit int) {
	for range limit {
		if t.count == 0 {
			return
		}
		n := t.items[0].next
		switch it := &t.items[n]; {
		case !t.past(it.queued, now):
			return
		case t.past(it.touched, now):
			t.remove(n)
		default:
			t.dequeue(n)
			t.enqueue(n, now)
		}
	}
}

// past reports whether the TTL has passed since the given instant.
func (t *table[M]) past(since, now time.Duration) bool {
	return t.ttl > 0 && now-since >= t.ttl
}

func (t *table[M]) enqueue(n number, now time.Duration) {
	it := &t.items[n]
	it.queued = now
	it.prev, it.next = t.items[0].prev, 0
	t.items[it.prev].next, t.items[0].prev = n, n
}

func (t *table[M]) dequeue(n number) {
	it := &t.items[n]
	t.items[it.prev].next, t.items[it.next].prev = it.next, it.prev
}

// appendKey appends a key's text: its parts, which contain no NUL byte, separated by one.
func appendKey(to []byte, k store.Key) []byte {
	to = append(append(to, k.Cluster...), 0)
	to = append(append(to, k.Namespace...), 0)
	return append(to, k.Target...)
}

// separator separates the parts.
const separator = "\x00"

// cutKey parses the text of a key.
func cutKey(text string) store.Key {
	cluster, rest, _ := strings.Cut(text, separator)
	namespace, target, _ := strings.Cut(rest, separator)
	return store.Key{Cluster: cluster, Namespace: namespace, Target: target}
}

// spells reports whether text is the key's.
func spells(text []byte, k store.Key) bool {
	namespace := len(k.Cluster) + 1
	target := namespace + len(k.Namespace) + 1
	return len(text) == target+len(k.Target) && text[namespace-1] == 0 && text[target-1] == 0 &&
		string(text[:namespace-1]) == k.Cluster && string(text[namespace:target-1]) == k.Namespace && string(text[target:]) == k.Target
}
