package recommender

import "hash/maphash"

// nameIndex finds names: an open-addressing table of indices that is reused, so that
// joining allocates nothing.
type nameIndex struct {
	built bool
	used  int
	slots []int32 // index + 1; 0: free; len is a power of two
}

var indexSeed = maphash.MakeSeed()

// build fills the table with the pods, with capacity for as many unlisted names.
func (x *nameIndex) build(pods []Pod) {
	x.resize(4 * (len(pods) + 1))
	for i := range pods {
		name := pods[i].Name
		slot := x.slot(name)
		for x.slots[slot] != 0 {
			slot = (slot + 1) & (len(x.slots) - 1)
		}
		x.slots[slot] = int32(i) + 1
	}
	x.built, x.used = true, len(pods)
}

func (x *nameIndex) resize(atLeast int) {
	size := 8
	for size < atLeast {
		size *= 2
	}
	if cap(x.slots) < size {
		x.slots = make([]int32, size)
	}
	x.slots = x.slots[:size]
	clear(x.slots)
}

func (x *nameIndex) slot(name string) int {
	return int(maphash.String(indexSeed, name) & uint64(len(x.slots)-1))
}

// find returns the index of the name, and adds it if it is missing. nameAt returns the
// name at an index, add creates an entry.
func (x *nameIndex) find(name string, nameAt func(int) string, add func() int) int {
	slot := x.slot(name)
	for x.slots[slot] != 0 {
		if i := int(x.slots[slot] - 1); nameAt(i) == name {
			return i
		}
		slot = (slot + 1) & (len(x.slots) - 1)
	}
	i := add()
	x.slots[slot] = int32(i) + 1
	x.used++
	if 2*x.used > len(x.slots) {
		x.rehash(i+1, nameAt)
	}
	return i
}

func (x *nameIndex) rehash(n int, nameAt func(int) string) {
	x.resize(4 * n)
	for i := range n {
		slot := x.slot(nameAt(i))
		for x.slots[slot] != 0 {
			slot = (slot + 1) & (len(x.slots) - 1)
		}
		x.slots[slot] = int32(i) + 1
	}
}
