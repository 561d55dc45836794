package memory

import (
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/store"
)

// chunkLength bounds what inserting a key has to move. The list of chunks, which
// only a split or a join has to move, is some 11,000 long for a million keys.
const chunkLength = 128

// index is a set of keys in the order of Key.Compare: sorted chunks, one after
// the other. It is safe for concurrent use. The zero value is empty.
type index struct {
	mu sync.RWMutex
	// chunks are never empty nor longer than chunkLength; neighbors that fit
	// into half of one are joined. Guarded by mu.
	chunks [][]store.Key
}

// insert adds a key that is not in the index.
func (x *index) insert(key store.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, i, _ := x.search(key)
	switch {
	case c == len(x.chunks):
		x.chunks = append(x.chunks, newChunk(nil))
	case len(x.chunks[c]) == chunkLength:
		c, i = x.split(c, i)
	}
	x.chunks[c] = slices.Insert(x.chunks[c], i, key)
}

// remove removes a key that is in the index.
func (x *index) remove(key store.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, i, found := x.search(key)
	if !found {
		return
	}
	x.chunks[c] = slices.Delete(x.chunks[c], i, i+1)
	if len(x.chunks[c]) == 0 {
		x.chunks = slices.Delete(x.chunks, c, c+1)
	}
	x.join(c)
	x.join(c - 1)
}

// page returns up to limit keys that the filter chooses and that come after the
// key given.
func (x *index) page(filter store.Filter, after store.Key, limit int) []store.Key {
	x.mu.RLock()
	defer x.mu.RUnlock()
	keys := make([]store.Key, 0, limit)
	c, i, found := x.search(after)
	if found {
		i++
	}
	for len(keys) < limit && c < len(x.chunks) {
		if i == len(x.chunks[c]) {
			c, i = c+1, 0
			continue
		}
		key := x.chunks[c][i]
		if filter.Matches(key) {
			keys = append(keys, key)
			i++
			continue
		}
		next, ok := filter.Seek(key)
		if !ok {
			break
		}
		c, i, _ = x.search(next)
	}
	return keys
}

// search returns the place of the key, or where it belongs: chunk c, position i,
// which is past the chunk's end if the key comes after all of it. In an empty
// index c is 0 although there is no such chunk.
func (x *index) search(key store.Key) (c, i int, found bool) {
	c, found = slices.BinarySearchFunc(x.chunks, key, func(chunk []store.Key, key store.Key) int {
		return chunk[0].Compare(key)
	})
	if found || c == 0 {
		return c, 0, found
	}
	i, found = slices.BinarySearchFunc(x.chunks[c-1], key, store.Key.Compare)
	return c - 1, i, found
}

// split makes room in the full chunk c and returns what place c, i is now.
func (x *index) split(c, i int) (int, int) {
	at := chunkLength / 2
	if c == len(x.chunks)-1 && i == chunkLength {
		// Keys that come in order leave full chunks behind.
		at = chunkLength
	}
	x.chunks = slices.Insert(x.chunks, c+1, newChunk(x.chunks[c][at:]))
	x.chunks[c] = slices.Delete(x.chunks[c], at, chunkLength)
	if i > at || i == chunkLength {
		return c + 1, i - at
	}
	return c, i
}

// join appends chunk c+1 to chunk c if both exist and are short.
func (x *index) join(c int) {
	if c < 0 || c+1 >= len(x.chunks) || len(x.chunks[c])+len(x.chunks[c+1]) > chunkLength/2 {
		return
	}
	x.chunks[c] = append(x.chunks[c], x.chunks[c+1]...)
	x.chunks = slices.Delete(x.chunks, c+1, c+2)
}

// newChunk returns a chunk of the keys, with the room that chunks have.
func newChunk(keys []store.Key) []store.Key {
	return append(make([]store.Key, 0, chunkLength), keys...)
}
