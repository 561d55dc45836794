package sources

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// some is a number of queries of one source.
func some(n int) map[string]int { return map[string]int{"prometheus": n} }

// asking is a fetch that has its turn, or waits for it.
type asking struct {
	leave func()
	err   error
	ended chan struct{}
}

func (a *asking) begun() bool {
	select {
	case <-a.ended:
		return a.err == nil
	default:
		return false
	}
}

// ask takes turns in the background, and returns when it has them or waits.
func ask(t *testing.T, turns *turns, cluster, namespace string, queries map[string]int) *asking {
	a := &asking{ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		a.leave, a.err = turns.take(t.Context(), store.Key{Cluster: cluster, Namespace: namespace, Target: "any"}, queries)
	}()
	synctest.Wait()
	return a
}

func asks(t *testing.T, turns *turns, n int, cluster, namespace string, queries map[string]int) (all []*asking) {
	for range n {
		all = append(all, ask(t, turns, cluster, namespace, queries))
	}
	return all
}

func begun(all []*asking) (n int) {
	for _, a := range all {
		if a.begun() {
			n++
		}
	}
	return n
}

func TestTurns(t *testing.T) {
	t.Parallel()
	rules := map[string]func(t *testing.T, turns *turns) []*asking{
		"a namespace has so many at once": func(t *testing.T, turns *turns) []*asking {
			all := asks(t, turns, 12, "prod", "slow", some(1))
			if n := begun(all); n != QueriesOfNamespace {
				t.Errorf("%d began", n)
			}
			all[0].leave()
			synctest.Wait()
			if n := begun(all); n != QueriesOfNamespace+1 {
				t.Errorf("%d began when one had ended", n)
			}
			return all[1:]
		},
		"four namespaces with slow sources leave one to the fifth, and to another cluster's": func(t *testing.T, turns *turns) (all []*asking) {
			for i := range 4 {
				all = append(all, asks(t, turns, 12, "prod", fmt.Sprint("slow-", i), some(1))...)
			}
			for _, cluster := range []string{"prod", "test"} {
				if a := ask(t, turns, cluster, "quick", some(1)); !a.begun() {
					t.Errorf("the namespace of cluster %s waits", cluster)
				} else {
					all = append(all, a)
				}
			}
			return all
		},
		"however many namespaces a cluster has, another finds a turn": func(t *testing.T, turns *turns) (all []*asking) {
			for i := range 2 * Queries {
				all = append(all, ask(t, turns, "many", fmt.Sprint(i), some(1)))
			}
			if n := begun(all); n >= Queries {
				t.Errorf("all %d turns are taken", n)
			}
			a := ask(t, turns, "one", "shop", some(1))
			if !a.begun() {
				t.Error("it waits")
			}
			return append(all, a)
		},
		"two namespaces do not take all of a source that others share": func(t *testing.T, turns *turns) (all []*asking) {
			shared := map[string]int{"shared": 1}
			for i := range 2 {
				all = append(all, asks(t, turns, 12, "prod", fmt.Sprint("slow-", i), shared)...)
			}
			if n := begun(all); n > concurrency-concurrency/keptPart {
				t.Errorf("two have %d of the source's %d", n, concurrency)
			}
			a := ask(t, turns, "prod", "quick", shared)
			if !a.begun() {
				t.Error("the third waits")
			}
			return append(all, a)
		},
		"the next turn is the namespace's with the fewest": func(t *testing.T, turns *turns) []*asking {
			var first, later []*asking
			for i := range 4 {
				first = append(first, asks(t, turns, 8, "prod", fmt.Sprint("slow-", i), some(1))...)
			}
			later = asks(t, turns, 4, "prod", "quick", some(1))
			if n := begun(later); n == 0 || n == 4 {
				t.Fatalf("%d began at first", n)
			}
			for i, had := 0, begun(later); had < 4; i++ {
				if !first[i].begun() {
					continue
				}
				first[i].leave()
				first = slices.Delete(first, i, i+1)
				i--
				synctest.Wait()
				// Turns beyond those that are kept for others come back one by one.
				if now := begun(later); now < had || now == had && turns.all.taken < Queries-Queries/keptPart {
					t.Fatalf("%d of 4 have begun, %d before; %d turns are taken", now, had, turns.all.taken)
				}
				had = begun(later)
			}
			return append(first, later...)
		},
		"more queries than a namespace may ask at once are asked alone": func(t *testing.T, turns *turns) []*asking {
			many := ask(t, turns, "prod", "many", some(10*Queries))
			after := ask(t, turns, "prod", "many", some(1))
			if !many.begun() || after.begun() {
				t.Errorf("many began: %v, another beside: %v", many.begun(), after.begun())
			}
			return []*asking{many, after}
		},
		"many queries are not overtaken for ever": func(t *testing.T, turns *turns) []*asking {
			var first []*asking
			for i := range 3 {
				first = append(first, asks(t, turns, 8, "prod", fmt.Sprint(i), some(1))...)
			}
			many := ask(t, turns, "prod", "many", some(20))
			later := ask(t, turns, "prod", "later", some(1))
			if many.begun() || later.begun() {
				t.Fatalf("many began: %v, a later one: %v", many.begun(), later.begun())
			}
			for _, a := range first[:16] {
				a.leave()
			}
			synctest.Wait()
			if !many.begun() {
				t.Error("they still wait")
			}
			return append(first[16:], many, later)
		},
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns := newTurns(map[string]int{"prometheus": 1000, "shared": concurrency})
				left := rule(t, turns)
				for len(left) > 0 {
					synctest.Wait()
					i := slices.IndexFunc(left, (*asking).begun)
					if i < 0 {
						t.Fatalf("%d never have their turn", len(left))
					}
					left[i].leave()
					left = slices.Delete(left, i, i+1)
				}
				for name, p := range map[string]*pool{"all": turns.all, "prometheus": turns.sources["prometheus"], "shared": turns.sources["shared"]} {
					if p.taken != 0 || len(p.clusters) != 0 || len(p.namespaces) != 0 || len(turns.waiting) != 0 {
						t.Errorf("%s: %d turns of %v, %v are left; %d wait", name, p.taken, p.clusters, p.namespaces, len(turns.waiting))
					}
				}
			})
		})
	}
}

func TestAFetchThatGoesWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(nil)
		first := ask(t, turns, "prod", "shop", some(QueriesOfNamespace))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.take(ctx, store.Key{Cluster: "prod", Namespace: "shop"}, some(1)); !errors.Is(err, stored.ErrBusy) {
			t.Errorf("got %v", err)
		}
		first.leave()
		if turns.all.taken != 0 || len(turns.waiting) != 0 {
			t.Errorf("%d turns are left, %d wait", turns.all.taken, len(turns.waiting))
		}
	})
}

func TestPollsThatMayWait(t *testing.T) {
	t.Parallel()
	of := func(cluster string, i int) store.Key { return store.Key{Cluster: cluster, Namespace: fmt.Sprint(i)} }
	fill := func(d *door, namespace store.Key, caller string) (n int, leaves []func()) {
		for n < 2*Waiting {
			leave, ok := d.enter(namespace, caller)
			if !ok {
				break
			}
			n++
			leaves = append(leaves, leave)
		}
		return n, leaves
	}
	d := newDoor()
	var leaves []func()
	entered := func(what string, least, most int, namespace store.Key, caller string) {
		t.Helper()
		n, left := fill(d, namespace, caller)
		leaves = append(leaves, left...)
		if n < least || n > most {
			t.Errorf("%s: %d, want %d to %d", what, n, least, most)
		}
	}
	entered("a caller of a namespace", WaitingOfNamespace/2, WaitingOfNamespace/2, of("a", 0), "keda")
	entered("the next caller", WaitingOfNamespace/4, WaitingOfNamespace/4, of("a", 0), "adapter")
	entered("a namespace beside", WaitingOfNamespace/2, WaitingOfNamespace/2, of("a", 1), "keda")
	for i := range 1000 { // the cluster's other namespaces, with many callers each
		for caller := range 8 {
			_, left := fill(d, of("a", 2+i), fmt.Sprint(caller))
			leaves = append(leaves, left...)
		}
	}
	if n := d.clusters["a"]; n > Waiting/2 {
		t.Errorf("a cluster has %d of %d", n, Waiting)
	}
	entered("a namespace of another cluster", WaitingOfNamespace/4, WaitingOfNamespace/2, of("b", 0), "keda")
	for _, leave := range leaves {
		leave()
	}
	if d.polls != 0 || len(d.clusters) != 0 || len(d.namespaces) != 0 {
		t.Errorf("%d polls, %d clusters and %d namespaces are left", d.polls, len(d.clusters), len(d.namespaces))
	}
}

// Polls that share one fetch are bounded as well, and nobody else hears of it.
func TestPollsOfOneFetchAreBounded(t *testing.T) {
	t.Parallel()
	slow, quick := newSource(t), newSource(t)
	slow.answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	quick.says(`{"length": 35}`)
	sources := opened(t, Options{URLs: []string{slow.URL, quick.URL}})
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	refused := make(chan struct{}, 4*WaitingOfNamespace)
	for range cap(refused) {
		waiting.Go(func() {
			_, err := sources.Fetch(ctx, store.Key{Cluster: "prod", Namespace: "slow", Target: "web"}, queueSpec(slow.URL), nil)
			if errors.Is(err, stored.ErrBusy) {
				refused <- struct{}{}
			}
		})
	}
	for range cap(refused) - WaitingOfNamespace {
		<-refused // most at once; the others wait for the source
	}
	fetched, err := sources.Fetch(t.Context(), store.Key{Cluster: "prod", Namespace: "quick", Target: "web"}, queueSpec(quick.URL), nil)
	if err != nil || len(fetched.ExternalMetrics) != 1 {
		t.Errorf("another namespace: %v, %v", fetched, err)
	}
	cancel()
	waiting.Wait()
}
