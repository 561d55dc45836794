package main

import (
	"strings"
	"sync"
	"time"
)

// Bounds on the log of persistent errors: each kind once, up to a number of kinds, and again
// after an interval.
const (
	mostKinds  = 8
	againAfter = 10 * time.Minute
)

// lastError is the error of the last report. It is safe for concurrent use.
type lastError struct {
	mu  sync.Mutex
	err error // guarded by mu, as is all that follows
	was bool  // there was a report
	// loggedKinds are the kinds of errors logged since the last success, and loggedAt the time of the
	// last one; failed counts failed reports since then.
	loggedKinds map[string]bool
	loggedAt    time.Time
	failed      int
}

// set records the last result and reports whether to log it: the first success after errors, or
// an error of another kind than those before. An address that differs with each connection does
// not make another kind. A persistent error is logged again from time to time. failed is the
// number of consecutive failed reports.
func (l *lastError) set(err error, now time.Time) (news bool, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.err
	first := !l.was
	l.err, l.was = err, true
	if err == nil {
		failed = l.failed
		l.loggedKinds, l.failed = nil, 0
		return first || before != nil, failed
	}
	l.failed++
	kind := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
	if l.loggedKinds[kind] && now.Sub(l.loggedAt) < againAfter || !l.loggedKinds[kind] && len(l.loggedKinds) >= mostKinds && now.Sub(l.loggedAt) < againAfter {
		return false, l.failed
	}
	if l.loggedKinds == nil || len(l.loggedKinds) >= mostKinds {
		l.loggedKinds = map[string]bool{}
	}
	l.loggedKinds[kind], l.loggedAt = true, now
	return true, l.failed
}

func (l *lastError) get() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
