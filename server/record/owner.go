package record

import "github.com/setpoint-dev/setpoint/recommender"

// Owner is whose target a request is about; a part that is 0 is unknown.
type Owner struct {
	Incarnation uint64
	Cluster     uint32
}

// OwnerOf returns the owner with these uids, which may be empty.
func OwnerOf[T string | []byte](targetUID, clusterUID T) Owner {
	return Owner{Incarnation(targetUID), Cluster(clusterUID)}
}

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

// Of returns the part of the record that counts for an incarnation. If the record belongs to
// another one, that is only its newest instant, so that time never goes back, and its cluster. If
// either incarnation is 0, and thus unknown, the whole record counts.
func (r *Record) Of(incarnation uint64) Record {
	if r.IsOf(incarnation) {
		return *r
	}
	next := Record{History: recommender.History{Updated: r.Updated}}
	next.Cluster = r.Cluster
	return next
}

// IsOf reports whether the record may belong to an incarnation.
func (r *Record) IsOf(incarnation uint64) bool {
	return incarnation == 0 || r.Incarnation == 0 || r.Incarnation == incarnation
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

// IsOfCluster reports whether the record may belong to a cluster; true if either is 0, and
// thus unknown.
func (r *Record) IsOfCluster(cluster uint32) bool {
	return cluster == 0 || r.Cluster == 0 || r.Cluster == cluster
}
