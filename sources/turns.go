package sources

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// turns bound the queries that are asked at once: of all, of a namespace, and of each source. A slow
// source holds its turns for seconds, so these go round: the next one is of the cluster, and of its
// namespace, with the fewest, and some are kept for those that have none.
type turns struct {
	mu sync.Mutex
	// all are the turns of all, and sources those of each, by name. Guarded by mu.
	all     *pool
	sources map[string]*pool
	// waiting are the fetches that wait. Guarded by mu.
	waiting []*waiter
}

// pool is a number of turns.
type pool struct {
	most, taken int
	// clusters and namespaces that have some.
	clusters   map[string]int
	namespaces map[store.Key]int
}

// keptPart of a pool is for namespaces that have no turn, half of it for clusters that have none.
const keptPart = 4

func newPool(most int) *pool {
	return &pool{most: most, clusters: map[string]int{}, namespaces: map[store.Key]int{}}
}

// heaviest is the most that a fetch takes: any namespace without turns may take it.
func (p *pool) heaviest() int { return p.most - p.most/keptPart }

// has reports whether a namespace may take so many more.
func (p *pool) has(namespace store.Key, n int) bool {
	most := p.most
	switch {
	case p.namespaces[namespace] > 0:
		most -= p.most / keptPart
	case p.clusters[namespace.Cluster] > 0:
		most -= p.most / keptPart / 2
	}
	return p.taken+n <= most
}

func (p *pool) take(namespace store.Key, n int) {
	p.taken += n
	p.clusters[namespace.Cluster] += n
	p.namespaces[namespace] += n
}

func (p *pool) leave(namespace store.Key, n int) {
	p.taken -= n
	less(p.clusters, namespace.Cluster, n)
	less(p.namespaces, namespace, n)
}

// waiter is a fetch that waits for its turn, or has it.
type waiter struct {
	namespace store.Key
	needs     []need
	turn      chan struct{} // closed on its turn
}

// need is the turns that a fetch takes of a pool.
type need struct {
	pool  *pool
	turns int
}

// newTurns returns the turns of sources with so many each, by name.
func newTurns(sources map[string]int) *turns {
	t := &turns{all: newPool(Queries), sources: make(map[string]*pool, len(sources))}
	for name, most := range sources {
		t.sources[name] = newPool(most)
	}
	return t
}

// take waits until a target's queries, so many of each source, may be asked; leave is called when they
// are answered. stored.ErrBusy: it took longer than the context.
func (t *turns) take(ctx context.Context, key store.Key, queries map[string]int) (leave func(), err error) {
	w := &waiter{namespace: store.Key{Cluster: key.Cluster, Namespace: key.Namespace}, turn: make(chan struct{})}
	all := 0
	for name, n := range queries {
		all += n
		if p := t.sources[name]; p != nil {
			w.needs = append(w.needs, need{p, min(n, p.heaviest())})
		}
	}
	w.needs = append(w.needs, need{t.all, min(all, t.all.heaviest())})
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.callLocked()
	t.mu.Unlock()
	select {
	case <-w.turn:
		return func() { t.leave(w) }, nil
	default:
	}
	select {
	case <-w.turn:
		return func() { t.leave(w) }, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // its turn came meanwhile
		t.leaveLocked(w)
	}
	t.callLocked()
	return nil, stored.ErrBusy
}

func (t *turns) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveLocked(w)
	t.callLocked()
}

func (t *turns) leaveLocked(w *waiter) {
	for _, n := range w.needs {
		n.pool.leave(w.namespace, n.turns)
	}
}

// callLocked begins all fetches whose turn it is.
func (t *turns) callLocked() {
	for {
		// Who has waited longest is first among equals.
		slices.SortStableFunc(t.waiting, func(a, b *waiter) int {
			return cmp.Or(
				cmp.Compare(t.all.clusters[a.namespace.Cluster], t.all.clusters[b.namespace.Cluster]),
				cmp.Compare(t.all.namespaces[a.namespace], t.all.namespaces[b.namespace]),
			)
		})
		next := t.nextLocked()
		if next < 0 {
			return
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		for _, n := range w.needs {
			n.pool.take(w.namespace, n.turns)
		}
		close(w.turn)
	}
}

// nextLocked returns the index of the fetch that may begin, -1: none.
func (t *turns) nextLocked() int {
	var full []*pool // of which an earlier namespace without turns needs some: later ones leave it them
	for i, w := range t.waiting {
		// A spec with more queries than that is asked alone.
		if own := t.all.namespaces[w.namespace]; own > 0 && own+w.needs[len(w.needs)-1].turns > QueriesOfNamespace {
			continue
		}
		begins := true
		for _, n := range w.needs {
			if slices.Contains(full, n.pool) || !n.pool.has(w.namespace, n.turns) {
				begins = false
			}
		}
		if begins {
			return i
		}
		for _, n := range w.needs {
			if n.pool.namespaces[w.namespace] == 0 && !n.pool.has(w.namespace, n.turns) {
				full = append(full, n.pool)
			}
		}
	}
	return -1
}
