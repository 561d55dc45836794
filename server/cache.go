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
	record, _, ok := c.appendTo(nil, key)
	return record, ok
}

// appendTo is get with the value appended to b, which is returned: where many records
// are taken, they lie together.
func (c *cache) appendTo(b []byte, key store.Key) (record store.Record, all []byte, ok bool) {
	if c.entries == nil {
		return store.Record{}, b, false
	}
	before := len(b)
	b = c.entries.Get(b, cacheKey(key))
	found := b[before:len(b):len(b)]
	if len(found) == 0 || int(found[0]) >= len(found) {
		return store.Record{}, b[:before], false
	}
	end := 1 + int(found[0])
	return store.Record{Version: store.Version(found[1:end]), Value: found[end:]}, b, true
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
