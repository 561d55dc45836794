package main

import "sync"

// lastError is the error of the last report. It is safe for concurrent use.
type lastError struct {
	mu  sync.Mutex
	err error // guarded by mu
	was bool  // guarded by mu; there was a report
}

// set sets it and tells whether it is another one: one of an address that changes with each
// connection is not.
func (l *lastError) set(err error) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = !l.was || (err == nil) != (l.err == nil)
	l.err, l.was = err, true
	return changed
}

func (l *lastError) get() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
