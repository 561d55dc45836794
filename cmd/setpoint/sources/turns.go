package sources

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// turns bound the queries that are asked at once, and the fetches that wait for them.
type turns struct {
	all *semaphore.Weighted

	mu sync.Mutex
	// fetches are under way or wait, in all. Guarded by mu.
	fetches int
	// namespaces that have any. Guarded by mu.
	namespaces map[store.Key]*namespaceTurns
}

type namespaceTurns struct {
	turns *semaphore.Weighted
	// fetches are the namespace's. Guarded by the mutex of turns.
	fetches int
}

func newTurns() *turns {
	return &turns{all: semaphore.NewWeighted(Queries), namespaces: map[store.Key]*namespaceTurns{}}
}

// take waits until so many queries of a target may be asked; leave is called when they are
// answered. stored.ErrBusy: too many wait, or it took longer than the context.
func (t *turns) take(ctx context.Context, key store.Key, queries int64) (leave func(), err error) {
	namespace := store.Key{Cluster: key.Cluster, Namespace: key.Namespace}
	of := t.enter(namespace)
	if of == nil {
		return nil, stored.ErrBusy
	}
	// A spec with more queries than that is asked alone.
	own, all := min(queries, QueriesOfNamespace), min(queries, Queries)
	if of.turns.Acquire(ctx, own) != nil {
		t.leave(namespace, of)
		return nil, stored.ErrBusy
	}
	if t.all.Acquire(ctx, all) != nil {
		of.turns.Release(own)
		t.leave(namespace, of)
		return nil, stored.ErrBusy
	}
	return func() {
		t.all.Release(all)
		of.turns.Release(own)
		t.leave(namespace, of)
	}, nil
}

// enter counts a fetch; nil: there are too many.
func (t *turns) enter(namespace store.Key) *namespaceTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.namespaces[namespace]
	switch {
	case t.fetches >= Waiting, of != nil && of.fetches >= WaitingOfNamespace:
		return nil
	case of == nil:
		of = &namespaceTurns{turns: semaphore.NewWeighted(QueriesOfNamespace)}
		t.namespaces[namespace] = of
	}
	t.fetches++
	of.fetches++
	return of
}

func (t *turns) leave(namespace store.Key, of *namespaceTurns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fetches--
	if of.fetches--; of.fetches == 0 {
		delete(t.namespaces, namespace)
	}
}
