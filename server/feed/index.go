package feed

import "github.com/setpoint-dev/setpoint/store"

// Filter chooses decisions. The zero value is all.
type Filter struct {
	// Cluster, Namespace and Target are names; empty: all.
	Cluster, Namespace, Target string
	// ChangesOnly leaves out decisions that do not change the count.
	ChangesOnly bool
}

// matches reports whether the filter chooses decisions of the key.
func (f *Filter) matches(k store.Key) bool {
	return (f.Cluster == "" || f.Cluster == k.Cluster) && (f.Namespace == "" || f.Namespace == k.Namespace) && (f.Target == "" || f.Target == k.Target)
}

// index finds the watchers of a key without asking all.
type index struct {
	// exact are those of one target, others all else.
	exact  map[store.Key]map[*Watcher]struct{}
	others map[*Watcher]struct{}
	count  int
}

func newIndex() index {
	return index{exact: make(map[store.Key]map[*Watcher]struct{}), others: make(map[*Watcher]struct{})}
}

// target is the only one that a filter chooses, if it is one.
func (f *Filter) target() (store.Key, bool) {
	return store.Key{Cluster: f.Cluster, Namespace: f.Namespace, Target: f.Target}, f.Cluster != "" && f.Namespace != "" && f.Target != ""
}

func (x *index) add(w *Watcher) {
	x.count++
	key, one := w.filter.target()
	if !one {
		x.others[w] = struct{}{}
		return
	}
	if x.exact[key] == nil {
		x.exact[key] = make(map[*Watcher]struct{})
	}
	x.exact[key][w] = struct{}{}
}

func (x *index) remove(w *Watcher) {
	x.count--
	key, one := w.filter.target()
	if !one {
		delete(x.others, w)
		return
	}
	if delete(x.exact[key], w); len(x.exact[key]) == 0 {
		delete(x.exact, key)
	}
}

// interested visits the watchers of a key.
func (x *index) interested(key store.Key, visit func(*Watcher)) {
	for w := range x.exact[key] {
		visit(w)
	}
	for w := range x.others {
		if w.filter.matches(key) {
			visit(w)
		}
	}
}

func (x *index) each(visit func(*Watcher)) {
	for _, some := range x.exact {
		for w := range some {
			visit(w)
		}
	}
	for w := range x.others {
		visit(w)
	}
}
