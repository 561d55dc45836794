package recommender

// Incarnation identifies one of several objects that successively had the same name, by a
// hash of its uid: FNV-1a of 64 bits. 0 is the hash of an empty uid only.
func Incarnation[T string | []byte](uid T) uint64 {
	if len(uid) == 0 {
		return 0
	}
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for i := range len(uid) {
		hash = (hash ^ uint64(uid[i])) * prime
	}
	return max(1, hash)
}

// Of returns the part of the history that counts for an incarnation. If the history
// belongs to another one, that is only its newest instant, so that time never goes back,
// and its cluster. If either incarnation is 0, and thus unknown, the whole history counts.
func (h History) Of(incarnation uint64) History {
	if h.IsOf(incarnation) {
		return h
	}
	return History{Updated: h.Updated, Cluster: h.Cluster}
}

// IsOf reports whether the history may belong to an incarnation.
func (h *History) IsOf(incarnation uint64) bool {
	return incarnation == 0 || h.Incarnation == 0 || h.Incarnation == incarnation
}

// Cluster identifies one of several clusters that may have the same name, by a hash of its
// uid: FNV-1a of 32 bits. 0 is the hash of an empty uid only.
func Cluster[T string | []byte](uid T) uint32 {
	if len(uid) == 0 {
		return 0
	}
	const offset, prime = 2166136261, 16777619
	hash := uint32(offset)
	for i := range len(uid) {
		hash = (hash ^ uint32(uid[i])) * prime
	}
	return max(1, hash)
}

// IsOfCluster reports whether the history may belong to a cluster; true if either is 0, and
// thus unknown.
func (h *History) IsOfCluster(cluster uint32) bool {
	return cluster == 0 || h.Cluster == 0 || h.Cluster == cluster
}
