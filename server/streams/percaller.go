package streams

import "sync"

// PerCaller counts the calls that each caller has open. It may be used concurrently.
type PerCaller struct {
	mu   sync.Mutex
	open map[string]int // guarded by mu
}

// Take counts a call, unless its caller has that many; 0: any number. Calls of nobody are not limited.
func (p *PerCaller) Take(caller string, most int) (leave func(), taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if caller != "" && most > 0 && p.open[caller] >= most {
		return nil, false
	}
	if p.open == nil {
		p.open = make(map[string]int)
	}
	p.open[caller]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open[caller]--; p.open[caller] == 0 {
			delete(p.open, caller)
		}
	}, true
}
