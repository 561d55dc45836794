package feed

import (
	"slices"

	"github.com/setpoint-dev/setpoint/store"
)

// Filter chooses decisions. The zero value is all.
type Filter struct {
	// Cluster, Namespace and Target are names; empty: all.
	Cluster, Namespace, Target string
	// ChangesOnly leaves out decisions that do not change the count.
	ChangesOnly bool
}

// matches reports whether the filter chooses decisions of the key.
func (f *Filter) matches(k store.Key) bool { return f.names().of(k) == f.key() }

// key is what the filter names; the rest is empty.
func (f *Filter) key() store.Key {
	return store.Key{Cluster: f.Cluster, Namespace: f.Namespace, Target: f.Target}
}

// names says which names a filter has, a bit each.
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

// of is the part of a key that filters with these names name.
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

// index finds the watchers of a key without asking all: those that name the same are together.
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

// interested visits the watchers of a key.
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
