package decision

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/VictoriaMetrics/fastcache"

	"github.com/setpoint-dev/setpoint/store"
)

// maxCachedBytes is the largest record that the cache keeps.
const maxCachedBytes = 60 << 10

// cache keeps records as this instance last read or wrote them, so that a decision need not load
// a version that the swap compares anyway. A cached record may be stale, because another instance
// may have written since: it counts only once a swap from its version has succeeded.
type cache struct {
	entries *fastcache.Cache // nil: the cache is off
	// forgets counts calls of forget.
	forgets atomic.Uint64
}

// newCache returns a cache of about that many bytes, for 0 one that is always empty.
// Its memory is not garbage-collected; it takes at least 32 MiB when full.
func newCache(bytes int) *cache {
	if bytes <= 0 {
		return &cache{}
	}
	return &cache{entries: fastcache.New(bytes)}
}

// empty reports whether nothing is cached. It takes some microseconds.
func (c *cache) empty() bool {
	if c.entries == nil {
		return true
	}
	var stats fastcache.Stats
	c.entries.UpdateStats(&stats)
	return stats.EntriesCount == 0
}

func cacheKey(key store.Key) []byte {
	b := make([]byte, 0, 96)
	b = append(append(b, key.Cluster...), '/')
	b = append(append(b, key.Namespace...), '/')
	return append(b, key.Target...)
}

func (c *cache) get(key store.Key) (store.Record, bool) {
	var to recordBuffer
	return c.appendGet(&to, key)
}

// ofGet pools memory for the records of single jobs.
var ofGet = sync.Pool{New: func() any { return new(recordBuffer) }}

// recordBuffer is a buffer for several cached records.
type recordBuffer struct {
	values   []byte
	versions strings.Builder
}

// mostBuffered limits the memory that is kept for the next records, in bytes.
const mostBuffered = 1 << 20

// empty keeps only the memory.
func (r *recordBuffer) empty() {
	values := r.values[:0]
	if cap(values) > mostBuffered {
		values = nil
	}
	*r = recordBuffer{values: values}
}

// appendGet is get with the record appended to others.
func (c *cache) appendGet(to *recordBuffer, key store.Key) (store.Record, bool) {
	if c.entries == nil {
		return store.Record{}, false
	}
	before := len(to.values)
	to.values = c.entries.Get(to.values, cacheKey(key))
	found := to.values[before:len(to.values):len(to.values)]
	if len(found) == 0 || int(found[0]) >= len(found) {
		to.values = to.values[:before]
		return store.Record{}, false
	}
	end, from := 1+int(found[0]), to.versions.Len()
	to.versions.Write(found[1:end])
	return store.Record{Version: store.Version(to.versions.String()[from:]), Value: found[end:]}, true
}

// since returns a marker for putSince.
func (c *cache) since() uint64 { return c.forgets.Load() }

// putSince is put for a record that was read after that call of since. It caches nothing
// if any target was forgotten in between: it may have been this one.
func (c *cache) putSince(since uint64, key store.Key, r store.Record) {
	if c.forgets.Load() == since {
		c.put(key, r)
	}
	if c.forgets.Load() != since { // even if forget was called meanwhile
		c.put(key, store.Record{})
	}
}

// forget removes a deleted target, and discards puts in progress.
func (c *cache) forget(key store.Key) {
	c.forgets.Add(1)
	c.put(key, store.Record{})
}

// put caches a record, or removes the key if there is none.
func (c *cache) put(key store.Key, r store.Record) {
	if c.entries == nil {
		return
	}
	n := len(r.Version)
	if !r.Exists() || n > 255 || len(r.Value) > maxCachedBytes {
		c.entries.Del(cacheKey(key))
		return
	}
	if 1+n+len(r.Value) > usualEntry {
		room := longEntries.Get().(*[]byte)
		*room = append(append(append((*room)[:0], byte(n)), r.Version...), r.Value...)
		c.entries.Set(cacheKey(key), *room)
		longEntries.Put(room)
		return
	}
	var room [usualEntry]byte
	b := append(room[:0], byte(n))
	c.entries.Set(cacheKey(key), append(append(b, r.Version...), r.Value...))
}

// usualEntry is a size in bytes that most entries fit into; longEntries pools memory for others.
const usualEntry = 1024

var longEntries = sync.Pool{New: func() any { return new([]byte) }}

// close frees the memory.
func (c *cache) close() {
	if c.entries != nil {
		c.entries.Reset()
	}
}
