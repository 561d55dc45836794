package memory

import (
	"bytes"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// shard holds the records and logs of the keys that hash to it. Values are overwritten
// in place, so its methods copy them while they hold the lock.
//
// A shard's lock may be held while taking the index's, never the other way round, and
// never together with another shard's.
type shard struct {
	mu      sync.Mutex
	records table[version] // guarded by mu
	// logs have the entries, and apart from them those that are kept longer, with how many were
	// ever appended; guarded by mu
	logs     [2]table[int]
	appended position // entries ever appended to logs; guarded by mu
}

// load returns the version of the key's record, absent if there is none, and its value.
func (sh *shard) load(key store.Key, now time.Duration, to *copied) version {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	it := sh.records.get(key, now)
	if it == nil {
		return absent
	}
	to.copy(it.value)
	return it.meta
}

// copied is a copy of a value: usual ones are copied within the lock without allocating.
type copied struct {
	room [usualValue]byte
	n    int
	long []byte
}

func (c *copied) copy(value []byte) {
	if len(value) > len(c.room) {
		c.long = bytes.Clone(value)
		return
	}
	c.n = copy(c.room[:], value)
}

// bytes returns the value, nil for an empty one.
func (c *copied) bytes() []byte {
	if c.long != nil || c.n == 0 {
		return c.long
	}
	return bytes.Clone(c.room[:c.n])
}

// version returns the version of the key's record, absent if there is none.
func (sh *shard) version(key store.Key, now time.Duration) version {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	it := sh.records.get(key, now)
	if it == nil {
		return absent
	}
	return it.meta
}

// size returns how many bytes the value of the key's record has, if there is one.
func (sh *shard) size(key store.Key, now time.Duration) (bytes int, exists bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	it := sh.records.get(key, now)
	if it == nil {
		return 0, false
	}
	return len(it.value), true
}

// compareAndSwap gives the key's record the next version and value if its version is old.
// If not, it returns the current version and value.
func (sh *shard) compareAndSwap(key store.Key, old, next version, value []byte, now time.Duration, to *copied) (has version, swapped bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := &sh.records
	it := t.get(key, now)
	switch {
	case it == nil && old != absent:
		return absent, false
	case it == nil:
		it = t.add(key, now)
	case it.meta != old:
		to.copy(it.value)
		return it.meta, false
	}
	t.set(it, value)
	it.meta, it.touched = next, now
	return next, true
}

func (sh *shard) delete(key store.Key, now time.Duration) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range sh.logs {
		if it := sh.logs[i].get(key, now); it != nil {
			sh.logs[i].remove(it)
		}
	}
	it := sh.records.get(key, now)
	if it == nil {
		return false
	}
	sh.records.remove(it)
	return true
}

// deleteVersion removes the key's record if it has that version. If not, it returns the
// current version and value.
func (sh *shard) deleteVersion(key store.Key, old version, now time.Duration) (has version, value []byte, deleted bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	it := sh.records.get(key, now)
	switch {
	case it == nil:
		return absent, nil, false
	case it.meta != old:
		return it.meta, bytes.Clone(it.value), false
	}
	sh.records.remove(it)
	return absent, nil, true
}

func (sh *shard) appendLog(entry *store.LogEntry, lengths [2]int, now time.Duration) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	which := 0
	if entry.Kept && lengths[1] > 0 {
		which = 1
	}
	its, other := sh.logs[which].get(entry.Key, now), sh.logs[1-which].get(entry.Key, now)
	if entry.First && (its != nil || other != nil) {
		return
	}
	if its == nil {
		its = sh.logs[which].add(entry.Key, now)
	}
	sh.appended++
	push(&sh.logs[which], its, sh.appended, entry.Value, lengths[which])
	its.touched = now
}

// readLog returns up to limit entries before the position, newest first, and the position to
// continue from, positionNone if no entry is left.
func (sh *shard) readLog(key store.Key, before position, limit int, lengths [2]int, now time.Duration) (values [][]byte, next position) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var left [2]entries
	for i := range sh.logs {
		if it := sh.logs[i].get(key, now); it != nil {
			left[i] = entries{it.value, min(it.meta, lengths[i])}
		}
		for left[i].count > 0 && left[i].newest() >= before {
			left[i].take()
		}
	}
	for next = before; ; {
		newest := &left[0]
		if left[1].newest() > newest.newest() {
			newest = &left[1]
		}
		switch {
		case newest.count == 0:
			return values, positionNone
		case len(values) == limit:
			return values, next
		}
		next = newest.newest()
		values = append(values, bytes.Clone(newest.take()))
	}
}

func (sh *shard) sweep(now time.Duration, limit int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.records.sweep(now, limit)
	for i := range sh.logs {
		sh.logs[i].sweep(now, limit)
	}
}
