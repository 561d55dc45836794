package memory

import (
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// table maps keys to values that expire when they were not touched for a while.
// It is not safe for concurrent use.
//
// It has nothing in it that the garbage collector would have to follow: items refer to each
// other by their numbers, and keys and values lie one behind the other in one slice of bytes.
// So a collection takes as long with a million keys as with none.
//
// Items also stand in a queue, by the time at which the sweep last looked at
// them (or they were added). Touching an item does not move it, which would cost
// every swap several cache misses; the sweep sends it to the end instead when
// its turn comes and it turns out to be alive. So an expired item leaves within
// two TTLs of its last touch, given that sweeps happen.
type table[M any] struct {
	ttl    time.Duration // 0 or less: nothing expires
	index  *index        // kept in step with the table's keys; may be nil
	growth int           // an item has room for so many parts of what it uses and one more
	// items are by number. The first stands for none: it is the queue's beginning and end.
	items []item[M]
	count int    // of items that have a key
	free  number // the first of those that have none, chained
	heads []number
	// bytes are those of all items, and dead how many of them are of none any more.
	bytes []byte
	dead  int
}

// number is that of an item in its table. It remains the item's until something is removed.
type number uint32

// item is a key with its value. Instants are times since the store's epoch.
//
// The text of its key and behind that its value are used bytes from at on, where it has room
// for more: a value that grows a little stays where it is.
type item[M any] struct {
	at, used, room int
	keyLength      int
	touched        time.Duration // what the TTL is measured from
	queued         time.Duration // when it came to the end of the queue
	hash           uint32
	chain          number // the next one with a hash in the same place
	prev, next     number // in the queue
	meta           M      // without pointers
}

// hashed is a key and its hash.
type hashed struct {
	store.Key
	hash uint32
}

const (
	// A table has room for a few of what it holds, and gives memory back when it uses less
	// than a quarter.
	leastItems, leastBytes = 8, 1 << 10
	fewItems, fewBytes     = 8 * leastItems, 8 * leastBytes
)

// get returns the number of the key's item, 0 if there is none. It removes one that has
// expired.
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

// add returns the number of a new item for a key that has none. It has no value yet, but room
// for one of that length.
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

// name gives a new item a place, with the text of its key and room for a value.
func (t *table[M]) name(n number, k store.Key, length int) {
	keyLength := len(k.Cluster) + 1 + len(k.Namespace) + 1 + len(k.Target)
	t.move(n, 0, t.roomFor(keyLength+length))
	it := &t.items[n]
	it.keyLength, it.used = keyLength, keyLength
	appendKey(t.bytes[it.at:it.at], k)
}

// roomFor is some more than is used, so that the next value most likely fits, too.
func (t *table[M]) roomFor(used int) int { return used + used/t.growth }

// remove removes an item of the table. Others may have other numbers then.
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

// value returns an item's value, until the table is changed.
func (t *table[M]) value(n number) []byte {
	it := &t.items[n]
	return t.bytes[it.at+it.keyLength : it.at+it.used]
}

// set replaces an item's value.
func (t *table[M]) set(n number, value []byte) {
	copy(t.resize(n, len(value)), value)
}

// fits reports whether a value of that length needs no other place than the item's.
func (t *table[M]) fits(n number, length int) bool {
	return t.items[n].keyLength+length <= t.items[n].room
}

// resize makes an item's value so long, keeping what fits of it, and returns it.
func (t *table[M]) resize(n number, length int) []byte {
	used := t.items[n].keyLength + length
	if !t.fits(n, length) || t.items[n].room > 4*used+64 {
		t.move(n, used, t.roomFor(used))
	}
	t.items[n].used = used
	t.spare()
	return t.value(n)
}

// move gives an item another place, for so many of its bytes.
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

// compact leaves out the bytes that are of no item, and makes room for so many more, and for
// half as much as that is then. So a byte is copied twice for each that comes in.
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

// spare gives bytes back, if most are of no item any more.
func (t *table[M]) spare() {
	if living := len(t.bytes) - t.dead; cap(t.bytes) > fewBytes && 4*living < cap(t.bytes) {
		t.compact(0)
	}
}

// shrink gives memory back, if what was removed took most of it.
func (t *table[M]) shrink() {
	t.spare()
	if cap(t.items) <= fewItems || t.count > cap(t.items)/4 {
		return
	}
	// Items get numbers in the order of the queue.
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

// rehash finds places for all items, twice as many as there are.
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

// head is the place of the first item with such a hash.
func (t *table[M]) head(hash uint32) *number {
	return &t.heads[hash&uint32(len(t.heads)-1)]
}

// queue yields the items of the queue from its front on. They may not be removed meanwhile.
func (t *table[M]) queue(yield func(number) bool) {
	if len(t.items) == 0 {
		return
	}
	for n := t.items[0].next; n != 0 && yield(n); n = t.items[n].next {
	}
}

// sweep looks at up to limit items, those first that it has not looked at for
// longest, and removes the expired ones.
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

// past reports whether the TTL has gone by since the instant given.
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

// appendKey appends a key's text: its parts, in which there is no NUL byte, with one between
// them.
func appendKey(to []byte, k store.Key) []byte {
	to = append(append(to, k.Cluster...), 0)
	to = append(append(to, k.Namespace...), 0)
	return append(to, k.Target...)
}

// separator is what stands between the parts.
const separator = "\x00"

// cutKey is the key of a text.
func cutKey(text string) store.Key {
	cluster, rest, _ := strings.Cut(text, separator)
	namespace, target, _ := strings.Cut(rest, separator)
	return store.Key{Cluster: cluster, Namespace: namespace, Target: target}
}

// spells reports whether a text is the key's.
func spells(text []byte, k store.Key) bool {
	namespace := len(k.Cluster) + 1
	target := namespace + len(k.Namespace) + 1
	return len(text) == target+len(k.Target) && text[namespace-1] == 0 && text[target-1] == 0 &&
		string(text[:namespace-1]) == k.Cluster && string(text[namespace:target-1]) == k.Namespace && string(text[target:]) == k.Target
}
