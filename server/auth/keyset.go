package auth

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

const (
	// keysRefresh is how often keys are fetched, and so how long a key counts after the
	// issuer has withdrawn it.
	keysRefresh = 5 * time.Minute
	// refetchInterval is the minimum time between fetches caused by tokens with unknown
	// keys, and so how long a newly published key may be unknown.
	refetchInterval = 10 * time.Second
	// keysMaxAge is how long keys count while the issuer is unreachable.
	keysMaxAge = 24 * time.Hour
	// firstRetry doubles with each failure up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// maxWaiters is how many calls may wait for one issuer. An invented key id makes a call
	// wait, so further callers are told at once to retry.
	maxWaiters = 64
)

var (
	errClosed  = errors.New("the server stops")
	errCrowded = errors.New("too many calls wait for the issuer")
)

// keySet keeps an issuer's keys. One goroutine fetches them: at once, then every
// keysRefresh, sooner after failures, and when a token has an unknown key. So an
// unreachable issuer does not block the start, and is tried again until it responds.
//
// go-oidc has such a set, too, but it calls the issuer for each token that it can't
// verify, and never again for a key that it has.
type keySet struct {
	fetch func(context.Context) ([]jose.JSONWebKey, error)
	// report is called after every fetch.
	report func(error)
	wake   chan struct{}
	// state is the result of the last fetches; nil: none has finished yet.
	state atomic.Pointer[keyState]

	mu sync.Mutex
	// pending is closed when the running or requested fetch has finished; nil without a
	// fetch.
	pending chan struct{}
	waiting int       // how many calls wait for pending
	started time.Time // start of the last fetch
	closed  bool      // no fetch starts any more

	fetches, failures atomic.Uint64
}

// keyState is immutable.
type keyState struct {
	keys []jose.JSONWebKey
	// generation counts changes of the keys.
	generation uint64
	// fetched is when the keys were fetched; zero: never.
	fetched time.Time
	// err is the error of the last fetch; nil: it succeeded.
	err error
}

func newKeySet(fetch func(context.Context) ([]jose.JSONWebKey, error), report func(error)) *keySet {
	return &keySet{fetch: fetch, report: report, wake: make(chan struct{}, 1), pending: make(chan struct{})}
}

// run fetches until ctx is done.
func (s *keySet) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failed := 0
	for {
		select {
		case <-ctx.Done():
			s.close()
			return
		case <-timer.C:
		case <-s.wake:
		}
		s.begin()
		keys, err := s.fetch(ctx)
		if ctx.Err() != nil {
			s.close()
			return
		}
		s.finish(keys, err)
		s.report(err)
		if err == nil {
			failed = 0
			timer.Reset(keysRefresh)
			continue
		}
		timer.Reset(retryAfter(failed))
		failed++
	}
}

// retryAfter spreads the retries of many instances over time.
func retryAfter(failed int) time.Duration {
	pause := min(firstRetry<<min(failed, 10), lastRetry)
	return pause/2 + rand.N(pause/2)
}

func (s *keySet) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Requests made so far are served by this fetch; they need no other.
	select {
	case <-s.wake:
	default:
	}
	if s.pending == nil {
		s.pending = make(chan struct{})
	}
	s.started = time.Now()
	s.fetches.Add(1)
}

// close releases all waiting callers.
func (s *keySet) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.finish(nil, errClosed)
}

// finish stores the result of a fetch. A failed fetch keeps the keys.
func (s *keySet) finish(keys []jose.JSONWebKey, err error) {
	next := keyState{err: err}
	if last := s.state.Load(); last != nil {
		next = *last
		next.err = err
	}
	if err != nil {
		s.failures.Add(1)
	} else {
		if !sameKeys(next.keys, keys) {
			next.keys = keys
			next.generation++
		}
		next.fetched = time.Now()
	}
	s.state.Store(&next)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		close(s.pending)
		s.pending = nil
	}
}

func sameKeys(a, b []jose.JSONWebKey) bool {
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && string(first) == string(second)
}

// await waits until a fetch has finished. It calls waits, unless that is nil, before it does.
// It fails if too many callers wait already, or ctx is over.
func (s *keySet) await(ctx context.Context, pending <-chan struct{}, waits func()) error {
	s.mu.Lock()
	if s.waiting >= maxWaiters {
		s.mu.Unlock()
		return errCrowded
	}
	s.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting--
	}()
	if waits != nil {
		waits()
	}
	select {
	case <-pending:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// current returns the keys. It waits for the first fetch; see await.
func (s *keySet) current(ctx context.Context, waits func()) (*keyState, error) {
	state := s.state.Load()
	if state == nil {
		s.mu.Lock()
		pending := s.pending
		s.mu.Unlock()
		if pending != nil {
			if err := s.await(ctx, pending, waits); err != nil {
				return nil, err
			}
		}
		state = s.state.Load()
	}
	if err := state.unusable(time.Now()); err != nil {
		return nil, err
	}
	return state, nil
}

// unusable returns why the keys must not be used: they are too old or were never
// fetched; nil: they may be used.
func (s *keyState) unusable(now time.Time) error {
	switch {
	case s.err == nil:
		return nil
	case errors.Is(s.err, errClosed), now.Sub(s.fetched) > keysMaxAge:
		return s.err
	}
	return nil
}

// fetchNow requests a fetch, however recent the last one was.
func (s *keySet) fetchNow() {
	select {
	case s.wake <- struct{}{}:
	default: // it is already requested
	}
}

// refetch waits for keys newer than the caller's, and reports whether there may be any:
// they are not fetched again too soon. It fails if it could not wait for them; see await.
func (s *keySet) refetch(ctx context.Context, waits func()) (newer bool, err error) {
	s.mu.Lock()
	if s.pending == nil {
		if s.closed || time.Since(s.started) < refetchInterval {
			s.mu.Unlock()
			return false, nil
		}
		s.pending = make(chan struct{})
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	pending := s.pending
	s.mu.Unlock()
	err = s.await(ctx, pending, waits)
	return err == nil, err
}
