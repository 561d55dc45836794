// Package bounded has a map that remembers what was used lately, within a bound.
package bounded

import "sync"

// Map keeps at most as many entries as New was told. It has two generations: new
// and reused entries go into the younger one; when that holds half of the bound it
// becomes the older one, and what was the older one is forgotten. So an entry that
// is used stays, and every operation takes the same time however large the map is.
// It is safe for concurrent use.
type Map[K comparable, V any] struct {
	half int

	mu         sync.RWMutex
	young, old map[K]V
}

// New returns a map of at most bound entries, at least 2.
func New[K comparable, V any](bound int) *Map[K, V] {
	return &Map[K, V]{half: max(bound/2, 1), young: make(map[K]V)}
}

// Get returns the entry of key, if it is remembered.
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

// keep moves an entry to the younger generation, unless it was deleted meanwhile.
func (m *Map[K, V]) keep(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value, old := m.old[key]; old {
		m.put(key, value)
	}
}

// Put remembers an entry.
func (m *Map[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value)
}

// put needs mu.
func (m *Map[K, V]) put(key K, value V) {
	delete(m.old, key)
	if _, there := m.young[key]; !there && len(m.young) >= m.half {
		m.old, m.young = m.young, make(map[K]V)
	}
	m.young[key] = value
}

// Delete forgets an entry.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.young, key)
	delete(m.old, key)
}

// Len is how many entries are remembered.
func (m *Map[K, V]) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.young) + len(m.old)
}
