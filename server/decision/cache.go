package decision

import (
	"strings"
	"sync/atomic"

	"github.com/VictoriaMetrics/fastcache"

	"github.com/setpoint-dev/setpoint/store"
)

// maxCachedBytes is what the cache takes of one record at most.
const maxCachedBytes = 60 << 10

// cache holds records as this instance last saw or wrote them, so that a decision need not load a
// version that the swap compares anyway. It may be out of date, as another instance may have
// written since: a cached record counts only once a swap from its version has succeeded.
type cache struct {
	entries *fastcache.Cache // nil: nothing is remembered
	// forgets counts calls of forget.
	forgets atomic.Uint64
}

// newCache returns a cache of about that many bytes, for 0 one that is always
// empty. Its memory is not the garbage collector's; it takes 32 MiB at least once
// it is full.
func newCache(bytes int) *cache {
	if bytes <= 0 {
		return &cache{}
	}
	return &cache{entries: fastcache.New(bytes)}
}

func cacheKey(key store.Key) []byte {
	b := make([]byte, 0, 96)
	b = append(append(b, key.Cluster...), '/')
	b = append(append(b, key.Namespace...), '/')
	return append(b, key.Target...)
}

// get returns a record that existed.
func (c *cache) get(key store.Key) (store.Record, bool) {
	var to recalled
	return c.recall(&to, key)
}

// recalled is where records lie that were asked for together.
type recalled struct {
	values   []byte
	versions strings.Builder
}

// recall is get with the record added to others.
func (c *cache) recall(to *recalled, key store.Key) (store.Record, bool) {
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

// since is an instant for putSince.
func (c *cache) since() uint64 { return c.forgets.Load() }

// putSince is put for a record that was seen at some time since that instant. If a target
// was forgotten after it, nothing is remembered: it may have been this one.
func (c *cache) putSince(since uint64, key store.Key, r store.Record) {
	if c.forgets.Load() == since {
		c.put(key, r)
	}
	if c.forgets.Load() != since { // even if forget came meanwhile
		c.put(key, store.Record{})
	}
}

// forget forgets a target that was deleted, and what is on its way to the cache.
func (c *cache) forget(key store.Key) {
	c.forgets.Add(1)
	c.put(key, store.Record{})
}

// put remembers a record, or forgets the key if there is none.
func (c *cache) put(key store.Key, r store.Record) {
	if c.entries == nil {
		return
	}
	n := len(r.Version)
	if !r.Exists() || n > 255 || len(r.Value) > maxCachedBytes {
		c.entries.Del(cacheKey(key))
		return
	}
	var room [1024]byte
	b := append(room[:0], byte(n))
	c.entries.Set(cacheKey(key), append(append(b, r.Version...), r.Value...))
}

// close gives the memory back.
func (c *cache) close() {
	if c.entries != nil {
		c.entries.Reset()
	}
}
