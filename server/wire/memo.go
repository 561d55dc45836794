package wire

import "sync"

// Weights of what is remembered, bytes, roughly: what the long way makes of a
// message takes several times its size.
const (
	memoEntry = 1 << 10
	memoByte  = 12
)

// memo remembers what the long way made of bytes. It is bounded, and forgets what
// was not asked for in a long time. Safe for concurrent use.
type memo[T any] struct {
	// limit is the weight of one generation.
	limit int

	mu sync.RWMutex
	// What is full becomes older, and what was older is forgotten. What is asked
	// for comes back from there.
	recent, older map[string]*T // guarded by mu
	weight        int           // of recent, guarded by mu
}

// get returns what is remembered of the key; nil: nothing.
func (m *memo[T]) get(key []byte) *T {
	m.mu.RLock()
	value, isRecent := m.recent[string(key)]
	if !isRecent {
		value = m.older[string(key)]
	}
	m.mu.RUnlock()
	if !isRecent && value != nil {
		m.put(key, value)
	}
	return value
}

func (m *memo[T]) put(key []byte, value *T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.recent == nil || m.weight > m.limit {
		m.recent, m.older, m.weight = map[string]*T{}, m.recent, 0
	}
	if _, ok := m.recent[string(key)]; !ok {
		m.weight += memoEntry + memoByte*len(key)
	}
	m.recent[string(key)] = value
}
