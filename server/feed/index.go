package feed

import (
	"slices"

	"github.com/setpoint-dev/setpoint/store"
)

// Filter selects decisions. The zero value selects all.
type Filter struct {
	// Cluster, Namespace and Target are names; empty: all.
	Cluster, Namespace, Target string
	// ChangesOnly omits decisions that do not change the count.
	ChangesOnly bool
}

// matches reports whether the filter selects decisions of the key.
func (f *Filter) matches(k store.Key) bool { return f.names().of(k) == f.key() }

// key has the filter's names; the rest is empty.
func (f *Filter) key() store.Key {
	return store.Key{Cluster: f.Cluster, Namespace: f.Namespace, Target: f.Target}
}

// names is the set of a filter's names, one bit each.
type names uint8

const (
	namesCluster names = 1 << iota
	namesNamespace
	namesTarget
	allNames
)

func (f *Filter) names() (n names) {
	if f.Cluster != "" {
		n |= namesCluster
	}
	if f.Namespace != "" {
		n |= namesNamespace
	}
	if f.Target != "" {
		n |= namesTarget
	}
	return n
}

// of returns the part of a key with these names.
func (n names) of(k store.Key) store.Key {
	if n&namesCluster == 0 {
		k.Cluster = ""
	}
	if n&namesNamespace == 0 {
		k.Namespace = ""
	}
	if n&namesTarget == 0 {
		k.Target = ""
	}
	return k
}

// index finds the watchers of a key without visiting all: those with the same names are
// grouped.
type index struct {
	watchers [allNames]map[store.Key][]*Watcher
	count    int
}

func (x *index) add(w *Watcher) {
	x.count++
	same := &x.watchers[w.filter.names()]
	if *same == nil {
		*same = make(map[store.Key][]*Watcher)
	}
	key := w.filter.key()
	w.place = len((*same)[key])
	(*same)[key] = append((*same)[key], w)
}

func (x *index) remove(w *Watcher) {
	x.count--
	same, key := x.watchers[w.filter.names()], w.filter.key()
	all := same[key]
	last := all[len(all)-1]
	all[w.place], last.place = last, w.place
	all = slices.Delete(all, len(all)-1, len(all))
	if same[key] = all; len(all) == 0 {
		delete(same, key)
	}
}

func (x *index) interested(key store.Key, visit func(*Watcher)) {
	for n, same := range x.watchers {
		if len(same) == 0 {
			continue
		}
		for _, w := range same[names(n).of(key)] {
			visit(w)
		}
	}
}

func (x *index) each(visit func(*Watcher)) {
	for _, same := range x.watchers {
		for _, all := range same {
			for _, w := range all {
				visit(w)
			}
		}
	}
}
