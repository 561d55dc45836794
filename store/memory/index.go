package memory

import (
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/store"
)

// chunkLength bounds how many keys an insertion moves. Only a split or a join moves the
// list of chunks, which has about 11,000 elements for a million keys.
const chunkLength = 128

// leastTaken is how many keys a page takes at a time at the start and after the filter skipped
// some.
const leastTaken = 4

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
		x.chunks = append(x.chunks, make([]store.Key, 0, chunkLength))
	case len(x.chunks[c]) == chunkLength:
		c, i = x.split(c, i)
	}
	x.chunks[c] = slices.Insert(x.chunks[c], i, key)
}

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

// page returns up to limit keys that match the filter and follow the given key.
func (x *index) page(filter store.Filter, after store.Key, limit int) []store.Key {
	x.mu.RLock()
	defer x.mu.RUnlock()
	keys := make([]store.Key, 0, limit)
	c, i, found := x.search(after)
	if found {
		i++
	}
	for taken := leastTaken; len(keys) < limit && c < len(x.chunks); taken = min(2*taken, chunkLength) {
		chunk := x.chunks[c]
		to := min(i+taken, i+limit-len(keys), len(chunk))
		other := slices.IndexFunc(chunk[i:to], func(key store.Key) bool { return !filter.Matches(key) })
		if other < 0 {
			keys = append(keys, chunk[i:to]...)
			if i = to; i == len(chunk) {
				c, i = c+1, 0
			}
			continue
		}
		keys = append(keys, chunk[i:i+other]...)
		next, ok := filter.Seek(chunk[i+other])
		if !ok {
			break
		}
		c, i, _ = x.search(next)
		taken = leastTaken
	}
	return keys
}

// search returns the index of the key, or where to insert it: chunk c, position i,
// which is past the chunk's end if the key follows all of its keys. In an empty index c
// is 0 although that chunk does not exist.
func (x *index) search(key store.Key) (c, i int, found bool) {
	c, found = slices.BinarySearchFunc(x.chunks, key, func(c []store.Key, key store.Key) int { return c[0].Compare(key) })
	if found || c == 0 {
		return c, 0, found
	}
	i, found = slices.BinarySearchFunc(x.chunks[c-1], key, store.Key.Compare)
	return c - 1, i, found
}

// split splits the full chunk c and returns the new position of c, i.
func (x *index) split(c, i int) (int, int) {
	at := chunkLength / 2
	if c == len(x.chunks)-1 && i == chunkLength {
		// Keys inserted in order leave full chunks behind.
		at = chunkLength
	}
	rest := append(make([]store.Key, 0, chunkLength), x.chunks[c][at:]...)
	clear(x.chunks[c][at:])
	x.chunks[c] = x.chunks[c][:at]
	x.chunks = slices.Insert(x.chunks, c+1, rest)
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
