package services

import "sync"

// perCaller counts the calls that each caller has open. It may be used concurrently.
type perCaller struct {
	mu   sync.Mutex
	open map[string]int // guarded by mu
}

// take counts a call, unless its caller has that many; 0: any number. Calls of nobody are not limited.
func (p *perCaller) take(caller string, most int) (leave func(), taken bool) {
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
