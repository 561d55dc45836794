package setpoint

import "sync"

// budget bounds the attempts beyond the first ones, over all calls of a client.
type budget struct {
	mu          sync.Mutex
	tokens      float64 // guarded by mu
	most, ratio float64
}

// deposit records a call.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+b.ratio, b.most)
}

// withdraw reports whether one more attempt may be made.
func (b *budget) withdraw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
