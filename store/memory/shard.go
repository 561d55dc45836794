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
	mu       sync.Mutex
	records  table[version] // guarded by mu
	logs     table[history] // guarded by mu
	appended uint64         // entries ever appended to logs; guarded by mu
}

// load returns the version of the key's record, absent if there is none, and its value
// appended to the slice given.
func (sh *shard) load(key hashed, now time.Duration, to []byte) (version, []byte) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := sh.records.get(key, now)
	if n == 0 {
		return absent, to
	}
	return sh.records.items[n].meta, append(to, sh.records.value(n)...)
}

// size returns how many bytes the value of the key's record has, if there is one.
func (sh *shard) size(key hashed, now time.Duration) (bytes int, exists bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := sh.records.get(key, now)
	if n == 0 {
		return 0, false
	}
	return len(sh.records.value(n)), true
}

// compareAndSwap gives the key's record the next version and value if its version is old.
// If not, it returns the current version, and the current value appended to the given
// slice.
func (sh *shard) compareAndSwap(key hashed, old, next version, value []byte, now time.Duration, to []byte) (has version, _ []byte, swapped bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := &sh.records
	n := t.get(key, now)
	switch {
	case n == 0 && old != absent:
		return absent, to, false
	case n == 0:
		n = t.add(key, now, len(value))
	case t.items[n].meta != old:
		return t.items[n].meta, append(to, t.value(n)...), false
	}
	t.set(n, value)
	t.items[n].meta, t.items[n].touched = next, now
	return next, to, true
}

func (sh *shard) delete(key hashed, now time.Duration) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if n := sh.logs.get(key, now); n != 0 {
		sh.logs.remove(n)
	}
	n := sh.records.get(key, now)
	if n == 0 {
		return false
	}
	sh.records.remove(n)
	return true
}

// deleteVersion removes the key's record if it has that version. If not, it returns the
// current version and value.
func (sh *shard) deleteVersion(key hashed, old version, now time.Duration) (has version, value []byte, deleted bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := sh.records.get(key, now)
	switch {
	case n == 0:
		return absent, nil, false
	case sh.records.items[n].meta != old:
		return sh.records.items[n].meta, bytes.Clone(sh.records.value(n)), false
	}
	sh.records.remove(n)
	return absent, nil, true
}

func (sh *shard) appendLog(key hashed, entry store.LogEntry, bound int, now time.Duration) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := &sh.logs
	n := t.get(key, now)
	if n != 0 && entry.First {
		return
	}
	if n == 0 {
		n = t.add(key, now, len(entry.Value)+lengthBytes)
		// A log that replaces another one begins after all positions of the old one.
		t.items[n].meta.origin = position(sh.appended)
	}
	push(t, n, entry.Value, bound)
	t.items[n].touched = now
	sh.appended++
}

func (sh *shard) readLog(key hashed, before position, limit, bound int, now time.Duration) (values [][]byte, next position) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := sh.logs.get(key, now)
	if n == 0 {
		return nil, positionNone
	}
	values, next = sh.logs.items[n].meta.read(sh.logs.value(n), before, limit, bound)
	for i, value := range values {
		values[i] = bytes.Clone(value)
	}
	return values, next
}

func (sh *shard) sweep(now time.Duration, limit int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.records.sweep(now, limit)
	sh.logs.sweep(now, limit)
}
