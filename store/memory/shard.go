package memory

import (
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// shard holds the records and logs of the keys that hash to it. The byte slices
// in it are never written to after they came in, so its methods hand them out as
// they are and callers copy them without holding the lock.
//
// A shard's lock may be held while taking the index's, never the other way
// round, and never together with another shard's.
type shard struct {
	mu       sync.Mutex
	records  *table[store.Record] // guarded by mu
	logs     *table[ring]         // guarded by mu
	appended uint64               // entries ever appended to logs; guarded by mu
}

func (sh *shard) load(key store.Key, now time.Duration) store.Record {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if it := sh.records.get(key, now); it != nil {
		return it.value
	}
	return store.Record{}
}

func (sh *shard) exists(key store.Key, now time.Duration) bool {
	return sh.load(key, now).Exists()
}

// compareAndSwap puts next in the place of the key's record if that has version
// old, and returns the record that the key has now.
func (sh *shard) compareAndSwap(key store.Key, old store.Version, next store.Record, now time.Duration) (rec store.Record, swapped bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	it := sh.records.get(key, now)
	switch {
	case it == nil && old != "":
		return store.Record{}, false
	case it == nil:
		it = sh.records.add(key, now)
	case it.value.Version != old:
		return it.value, false
	}
	it.value, it.touched = next, now
	return next, true
}

func (sh *shard) delete(key store.Key, now time.Duration) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if it := sh.logs.get(key, now); it != nil {
		sh.logs.remove(it)
	}
	it := sh.records.get(key, now)
	if it == nil {
		return false
	}
	sh.records.remove(it)
	return true
}

func (sh *shard) appendLog(entry store.LogEntry, bound int, now time.Duration) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	it := sh.logs.get(entry.Key, now)
	if it != nil && entry.First {
		return
	}
	if it == nil {
		it = sh.logs.add(entry.Key, now)
		// A log that replaces another one begins past all positions of that.
		it.value.origin = position(sh.appended)
	}
	it.value.push(entry.Value, bound)
	it.touched = now
	sh.appended++
}

func (sh *shard) readLog(key store.Key, before position, limit int, now time.Duration) (values [][]byte, next position) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if it := sh.logs.get(key, now); it != nil {
		return it.value.read(before, limit)
	}
	return nil, 0
}

func (sh *shard) sweep(now time.Duration, limit int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.records.sweep(now, limit)
	sh.logs.sweep(now, limit)
}
