package main

import (
	"strings"
	"sync"
	"time"
)

// Bounds of what is told of errors that last: each kind once, of so many, and after so long
// again.
const (
	mostKinds  = 8
	againAfter = 10 * time.Minute
)

// lastError is the error of the last report. It is safe for concurrent use.
type lastError struct {
	mu  sync.Mutex
	err error // guarded by mu, as is all that follows
	was bool  // there was a report
	// told are the kinds of errors that were told since the last success, and toldAt when the
	// last one was; failed is how many reports failed since then.
	told   map[string]bool
	toldAt time.Time
	failed int
}

// set sets it and tells whether that is news: the first success after errors, or an error of
// another kind than those before. One of an address that changes with each connection is not.
// One that lasts is told again from time to time. Failed is how many reports in a row failed.
func (l *lastError) set(err error, now time.Time) (news bool, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.err
	first := !l.was
	l.err, l.was = err, true
	if err == nil {
		failed = l.failed
		l.told, l.failed = nil, 0
		return first || before != nil, failed
	}
	l.failed++
	kind := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
	if l.told[kind] && now.Sub(l.toldAt) < againAfter || !l.told[kind] && len(l.told) >= mostKinds && now.Sub(l.toldAt) < againAfter {
		return false, l.failed
	}
	if l.told == nil || len(l.told) >= mostKinds {
		l.told = map[string]bool{}
	}
	l.told[kind], l.toldAt = true, now
	return true, l.failed
}

func (l *lastError) get() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
