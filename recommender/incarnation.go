package recommender

// Incarnation tells things apart that had one name one after the other, by a hash of
// what names each of them alone: FNV-1a of 64 bits. 0 stands for an empty uid only.
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

// Of returns what of the history counts for that incarnation: nothing where it is
// another one's. Its newest instant stays, so that time never goes back, and its cluster.
// Where either is 0 it is unknown, and all of it counts.
func (h History) Of(incarnation uint64) History {
	if h.IsOf(incarnation) {
		return h
	}
	return History{Updated: h.Updated, Cluster: h.Cluster}
}

// IsOf tells whether the history may be that incarnation's.
func (h *History) IsOf(incarnation uint64) bool {
	return incarnation == 0 || h.Incarnation == 0 || h.Incarnation == incarnation
}

// Cluster tells clusters apart that may have one name, by a hash of what names each of
// them alone: FNV-1a of 32 bits. 0 stands for an empty uid only.
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

// IsOfCluster tells whether the history may be that cluster's: where either is 0 nobody
// said whose it is.
func (h *History) IsOfCluster(cluster uint32) bool {
	return cluster == 0 || h.Cluster == 0 || h.Cluster == cluster
}
