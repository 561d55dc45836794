package sources

import (
	"sync"

	"github.com/setpoint-dev/setpoint/store"
)

// door bounds the polls that wait for fetches, whether each has its own or shares one. Nobody may
// have more of them than there are free places, so that whoever comes next finds some: a caller
// among those of its namespace, a namespace and its cluster among all.
type door struct {
	mu sync.Mutex
	// polls are those of all. Guarded by mu.
	polls int
	// clusters and namespaces that have any. Guarded by mu.
	clusters   map[string]int
	namespaces map[store.Key]*namespacePolls
}

// namespacePolls are the polls of a namespace, in all and by caller. Guarded by the mutex of door.
type namespacePolls struct {
	polls   int
	callers map[string]int
}

func newDoor() *door {
	return &door{clusters: map[string]int{}, namespaces: map[store.Key]*namespacePolls{}}
}

// enter counts a poll of a caller, "" if it is unknown; false: it has to come again later.
func (d *door) enter(namespace store.Key, caller string) (leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.namespaces[namespace]
	if of == nil {
		of = &namespacePolls{callers: map[string]int{}}
	}
	if of.callers[caller] >= WaitingOfNamespace-of.polls || d.clusters[namespace.Cluster]+of.polls >= Waiting-d.polls {
		return nil, false
	}
	d.namespaces[namespace] = of
	d.polls++
	d.clusters[namespace.Cluster]++
	of.polls++
	of.callers[caller]++
	return func() { d.leave(namespace, of, caller) }, true
}

func (d *door) leave(namespace store.Key, of *namespacePolls, caller string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.polls--
	if of.polls--; of.polls == 0 {
		delete(d.namespaces, namespace)
	}
	less(d.clusters, namespace.Cluster, 1)
	less(of.callers, caller, 1)
}

// less subtracts from a count; nothing is kept of those that are zero.
func less[K comparable](counts map[K]int, key K, by int) {
	if counts[key] -= by; counts[key] == 0 {
		delete(counts, key)
	}
}
