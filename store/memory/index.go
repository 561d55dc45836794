package memory

import (
	"bytes"
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
	chunks []chunk
}

// chunk is a sorted list of keys in two allocations, so that the garbage collector sees
// only two objects.
type chunk struct {
	text []byte   // the keys' text, one after the other; see appendKey
	ends []uint32 // end of each key in text
}

// newChunk returns an empty chunk with the usual capacity.
func newChunk() chunk { return chunk{ends: make([]uint32, 0, chunkLength)} }

func (c *chunk) len() int { return len(c.ends) }

// at returns where key i begins in the text; for i = len(), where the text ends.
func (c *chunk) at(i int) int {
	if i == 0 {
		return 0
	}
	return int(c.ends[i-1])
}

// appendKeys appends the keys from index from up to, not including, index to.
func (c *chunk) appendKeys(keys []store.Key, from, to int) []store.Key {
	begin := c.at(from)
	text := string(c.text[begin:c.at(to)])
	for i := from; i < to; i++ {
		keys = append(keys, cutKey(text[c.at(i)-begin:c.at(i+1)-begin]))
	}
	return keys
}

// search returns the index of the key, or where to insert it.
func (c *chunk) search(key store.Key) (i int, found bool) {
	low, high := 0, c.len()
	for low < high {
		middle := (low + high) / 2
		switch order := c.compare(middle, key); {
		case order == 0:
			return middle, true
		case order < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, false
}

// compare compares key i with another as Key.Compare does. The other may be a key that no
// target can have.
func (c *chunk) compare(i int, key store.Key) int {
	rest := c.text[c.at(i):c.at(i+1)]
	for _, other := range [...]string{key.Cluster, key.Namespace, key.Target} {
		part, after, _ := bytes.Cut(rest, []byte(separator))
		if string(part) < other {
			return -1
		}
		if string(part) > other {
			return 1
		}
		rest = after
	}
	return 0
}

// insert adds a key as key i.
func (c *chunk) insert(i int, key store.Key) {
	at := c.at(i)
	var room [128]byte
	text := appendKey(room[:0], key)
	c.text = slices.Insert(c.text, at, text...)
	c.ends = slices.Insert(c.ends, i, uint32(at))
	c.shift(i, len(text))
}

// remove removes key i.
func (c *chunk) remove(i int) {
	from, to := c.at(i), c.at(i+1)
	c.text = slices.Delete(c.text, from, to)
	c.ends = slices.Delete(c.ends, i, i+1)
	c.shift(i, from-to)
}

// shift adds by to the ends of key i and all later ones.
func (c *chunk) shift(i, by int) {
	for ; i < len(c.ends); i++ {
		c.ends[i] = uint32(int(c.ends[i]) + by)
	}
}

// cut shortens the chunk to its first i keys and returns a chunk of the others.
func (c *chunk) cut(i int) chunk {
	from, rest := c.at(i), newChunk()
	rest.text = bytes.Clone(c.text[from:])
	rest.ends = append(rest.ends, c.ends[i:]...)
	rest.shift(0, -from)
	c.text, c.ends = bytes.Clone(c.text[:from]), c.ends[:i]
	return rest
}

// append adds the keys of the chunk that follows this one.
func (c *chunk) append(next chunk) {
	i, by := c.len(), len(c.text)
	c.text = append(c.text, next.text...)
	c.ends = append(c.ends, next.ends...)
	c.shift(i, by)
}

// insert adds a key that is not in the index.
func (x *index) insert(key store.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, i, _ := x.search(key)
	switch {
	case c == len(x.chunks):
		x.chunks = append(x.chunks, newChunk())
	case x.chunks[c].len() == chunkLength:
		c, i = x.split(c, i)
	}
	x.chunks[c].insert(i, key)
}

// remove removes a key that is in the index.
func (x *index) remove(key store.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, i, found := x.search(key)
	if !found {
		return
	}
	x.chunks[c].remove(i)
	if x.chunks[c].len() == 0 {
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
		chunk, before := &x.chunks[c], len(keys)
		to := min(i+taken, i+limit-before, chunk.len())
		keys = chunk.appendKeys(keys, i, to)
		other := slices.IndexFunc(keys[before:], func(key store.Key) bool { return !filter.Matches(key) })
		if other >= 0 {
			next, ok := filter.Seek(keys[before+other])
			keys = keys[:before+other]
			if !ok {
				break
			}
			c, i, _ = x.search(next)
			taken = leastTaken
		} else if i = to; i == chunk.len() {
			c, i = c+1, 0
		}
	}
	return keys
}

// search returns the index of the key, or where to insert it: chunk c, position i,
// which is past the chunk's end if the key follows all of its keys. In an empty index c
// is 0 although that chunk does not exist.
func (x *index) search(key store.Key) (c, i int, found bool) {
	c, found = slices.BinarySearchFunc(x.chunks, key, func(c chunk, key store.Key) int { return c.compare(0, key) })
	if found || c == 0 {
		return c, 0, found
	}
	i, found = x.chunks[c-1].search(key)
	return c - 1, i, found
}

// split splits the full chunk c and returns the new position of c, i.
func (x *index) split(c, i int) (int, int) {
	at := chunkLength / 2
	if c == len(x.chunks)-1 && i == chunkLength {
		// Keys inserted in order leave full chunks behind.
		at = chunkLength
	}
	x.chunks = slices.Insert(x.chunks, c+1, x.chunks[c].cut(at))
	if i > at || i == chunkLength {
		return c + 1, i - at
	}
	return c, i
}

// join appends chunk c+1 to chunk c if both exist and are short.
func (x *index) join(c int) {
	if c < 0 || c+1 >= len(x.chunks) || x.chunks[c].len()+x.chunks[c+1].len() > chunkLength/2 {
		return
	}
	x.chunks[c].append(x.chunks[c+1])
	x.chunks = slices.Delete(x.chunks, c+1, c+2)
}
