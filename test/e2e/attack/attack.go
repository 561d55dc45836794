//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// attack is a sequence of steps against one process.
type attack struct {
	name string
	// item is the finding that it comes from; empty: found while this was written.
	item  string
	about string
	// redis has histories kept in a Redis of its own.
	redis bool
	// prepare writes files and adds flags before the service starts; nil: none.
	prepare func(*site) error
	steps   []step
}

// step is one wave of an attack.
type step struct {
	name string
	// short has it in the short form, too.
	short bool
	// run attacks until it is done or ctx ends, after limit. It returns an error for a
	// forbidden result, whatever the cost: an answer that reveals too much, or a missing one.
	run func(context.Context, *scene) error
	// only are the codes that its calls may be answered with, the first one at least once; nil: any.
	only []codes.Code
	bounds
}

// bounds are the bounds of a step. Zero values are the defaults.
type bounds struct {
	// limit is how long the step may take, 20 s by default; then its context ends, which
	// is no fault by itself.
	limit time.Duration
	// memory is the most that may be resident, MiB; 512 by default.
	memory int64
	// property bounds memory by the bound of one request: ten times its bytes and 32 MiB, plus
	// the growth of the heap before the service collects it.
	property bool
	// processor is the most processor time it may cost; by default 50 ms a request and
	// 2 s for 16 MiB.
	processor time.Duration
	// keeps is how much of the heap may stay in use afterwards, MiB; 32 by default.
	keeps int64
	// worst is the longest that an honest call may take, on a machine that does not stand
	// still; 3 s by default.
	worst time.Duration
	// steady has the honest caller be told nothing but to come again, not even at its first try.
	steady bool
	// deaf disables the check of the honest caller: the attack is not on it.
	deaf bool
}

// Defaults of bounds.
const (
	defaultLimit     = 20 * time.Second
	defaultMemory    = 512
	defaultKeeps     = 32
	defaultWorst     = 3 * time.Second
	processorCall    = 50 * time.Millisecond
	processorPer16MB = 2 * time.Second
	bytes16MB        = 16 << 20
	// memoryFactor and memoryRest bound a request's memory: so many times its bytes, and so
	// many MiB. uncollected is the heap growth in MiB before garbage collection.
	memoryFactor, memoryRest, uncollected = 10, 32, 128
	// mostFailures is the share of an honest caller's calls that may fail although they
	// were tried again.
	mostFailures = .01
)

func (b bounds) withDefaults() bounds {
	b.limit = cmp.Or(b.limit, defaultLimit)
	b.memory = cmp.Or(b.memory, defaultMemory)
	b.keeps = cmp.Or(b.keeps, defaultKeeps)
	b.worst = cmp.Or(b.worst, defaultWorst)
	return b
}

// answered returns an error for a call that was answered with another code than it may be.
func (s *step) answered(met *hostile.Tally) error {
	for code := codes.OK; code <= codes.Unauthenticated && s.only != nil; code++ {
		if n := met.Of(code.String()); n > 0 && !slices.Contains(s.only, code) {
			return fmt.Errorf("%d calls were answered %v, want %v", n, code, s.only)
		}
	}
	if s.only != nil && met.Of(s.only[0].String()) == 0 {
		return fmt.Errorf("no call was answered %v", s.only[0])
	}
	return nil
}

// scene is the state of a step.
type scene struct {
	*site
	met *hostile.Tally
	// times is how often a request that costs much is sent.
	times int
	// requests and bytes count what was sent, together the most bytes at once.
	requests, bytes, together counter

	mu       sync.Mutex // guards cleanups
	cleanups []func()
}

// sent counts requests of so many bytes each, sent one after the other.
func (s *scene) sent(requests int, bytes int) {
	s.requests.add(int64(requests))
	s.bytes.add(int64(requests) * int64(bytes))
	s.together.atLeast(int64(bytes))
}

// sentTogether counts requests that are sent all at once.
func (s *scene) sentTogether(requests, bytes int) {
	s.sent(requests, bytes)
	s.together.atLeast(int64(requests) * int64(bytes))
}

// cleanup has f called after the step.
func (s *scene) cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *scene) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	s.cleanups = nil
}
