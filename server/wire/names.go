package wire

import "hash/maphash"

var nameSeed = maphash.MakeSeed()

// namesAreUnique reports whether no two pods have the same name. Lists of Kubernetes
// are sorted, which makes the check trivial.
func (r *reader) namesAreUnique() bool {
	if !r.unsorted {
		return true
	}
	size := 16
	for size < 2*len(r.pods) {
		size *= 2
	}
	if cap(r.names) < size {
		r.names = make([]uint64, size)
	}
	// A slot has a pod's index plus 1 in its lower half, and the upper half of its
	// name's hash, which excludes most other names.
	const lower = 1<<32 - 1
	slots := r.names[:size]
	clear(slots)
	for i := range r.pods {
		name := r.pods[i].Name
		hash := maphash.String(nameSeed, name)
		at := int(hash) & (size - 1)
		for ; slots[at] != 0; at = (at + 1) & (size - 1) {
			if slots[at]&^lower == hash&^lower && r.pods[slots[at]&lower-1].Name == name {
				return false
			}
		}
		slots[at] = hash&^lower | uint64(i+1)
	}
	return true
}
