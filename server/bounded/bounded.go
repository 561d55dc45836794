// Package bounded has a map that keeps recently used entries, up to a limit.
package bounded

import "sync"

// Map keeps entries up to the limit of New or NewWeighted. It has two generations: new
// and used entries go to the younger one; when that has half of the limit it becomes
// the older one, and the previous older one is dropped. So entries in use are kept, and
// every operation takes the same time however large the map is. It is safe for
// concurrent use.
type Map[K comparable, V any] struct {
	half   int
	weight func(V) int

	mu         sync.RWMutex
	young, old map[K]V
	held       int // what the younger generation weighs
}

// New returns a map of at most bound entries, at least 2.
func New[K comparable, V any](bound int) *Map[K, V] {
	return NewWeighted[K](bound, func(V) int { return 1 })
}

// NewWeighted returns a map of entries that together weigh at most bound, or are only two. An entry weighs the same for
// as long as it is there, and not less than 0.
func NewWeighted[K comparable, V any](bound int, weight func(V) int) *Map[K, V] {
	return &Map[K, V]{half: max(bound/2, 1), weight: weight, young: make(map[K]V)}
}

// Get returns the entry of key, if the map has it.
func (m *Map[K, V]) Get(key K) (V, bool) {
	m.mu.RLock()
	value, young := m.young[key]
	old := false
	if !young {
		value, old = m.old[key]
	}
	m.mu.RUnlock()
	if old {
		m.keep(key)
	}
	return value, young || old
}

// GetBytes is Get by the bytes of a text, of which it makes no copy.
func GetBytes[V any](m *Map[string, V], key []byte) (V, bool) {
	m.mu.RLock()
	value, young := m.young[string(key)]
	old := false
	if !young {
		value, old = m.old[string(key)]
	}
	m.mu.RUnlock()
	if old {
		m.keep(string(key))
	}
	return value, young || old
}

// keep moves an entry to the younger generation, unless it was deleted meanwhile.
func (m *Map[K, V]) keep(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value, old := m.old[key]; old {
		m.put(key, value)
	}
}

// Put adds or replaces an entry.
func (m *Map[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value)
}

// The caller of put has locked mu.
func (m *Map[K, V]) put(key K, value V) {
	m.remove(key)
	weight := m.weight(value)
	if len(m.young) > 0 && m.held+weight > m.half {
		m.old, m.young, m.held = m.young, make(map[K]V), 0
	}
	m.young[key] = value
	m.held += weight
}

// remove removes an entry. The caller has locked mu.
func (m *Map[K, V]) remove(key K) {
	if value, there := m.young[key]; there {
		delete(m.young, key)
		m.held -= m.weight(value)
	}
	delete(m.old, key)
}

// Delete removes an entry.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
}

// Each calls do for each entry as of now.
func (m *Map[K, V]) Each(do func(V)) {
	m.mu.RLock()
	all := make([]V, 0, len(m.young)+len(m.old))
	for _, generation := range []map[K]V{m.young, m.old} {
		for _, value := range generation {
			all = append(all, value)
		}
	}
	m.mu.RUnlock()
	for _, value := range all {
		do(value)
	}
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.young) + len(m.old)
}
