package wire

import "sync"

// Approximate sizes of cached values, bytes: decoding a message on the slow path takes
// several times its size.
const (
	memoEntry = 1 << 10
	memoByte  = 12
)

// memo caches results of the slow path by the encoded bytes. It is limited in size, and
// drops entries that were not used for long. Safe for concurrent use.
type memo[T any] struct {
	// limit is the size of one generation.
	limit int

	mu sync.RWMutex
	// A full generation becomes the older one, and the previous older one is dropped.
	// Used entries move back to the recent one.
	recent, older map[string]*T // guarded by mu
	weight        int           // size of recent, guarded by mu
}

// get returns the cached value of the key; nil: there is none.
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
