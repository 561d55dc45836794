package server

import (
	"github.com/VictoriaMetrics/fastcache"

	"github.com/setpoint-dev/setpoint/store"
)

// maxCachedBytes is what the cache takes of one record at most.
const maxCachedBytes = 60 << 10

// cache remembers records as they were last seen or written here, so that a
// decision need not load what a swap will compare anyway. It is a guess: another
// instance may have written since. What is found in it counts only once a swap
// from its version has happened.
type cache struct {
	entries *fastcache.Cache // nil: nothing is remembered
}

// newCache returns a cache of about that many bytes, for 0 one that is always
// empty. Its memory is not the garbage collector's; it takes 32 MiB at least once
// it is full.
func newCache(bytes int) *cache {
	if bytes <= 0 {
		return &cache{}
	}
	return &cache{fastcache.New(bytes)}
}

func cacheKey(key store.Key) []byte {
	b := make([]byte, 0, 96)
	b = append(append(b, key.Cluster...), '/')
	b = append(append(b, key.Namespace...), '/')
	return append(b, key.Target...)
}

// get returns a record that existed.
func (c *cache) get(key store.Key) (store.Record, bool) {
	if c.entries == nil {
		return store.Record{}, false
	}
	b := c.entries.Get(make([]byte, 0, 512), cacheKey(key))
	if len(b) == 0 || int(b[0]) >= len(b) {
		return store.Record{}, false
	}
	end := 1 + int(b[0])
	return store.Record{Version: store.Version(b[1:end]), Value: b[end:]}, true
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
	b := append(make([]byte, 0, 1+n+len(r.Value)), byte(n))
	c.entries.Set(cacheKey(key), append(append(b, r.Version...), r.Value...))
}

// close gives the memory back.
func (c *cache) close() {
	if c.entries != nil {
		c.entries.Reset()
	}
}
