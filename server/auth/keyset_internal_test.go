package auth

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// fakeKeys starts a set whose fetches fail while down.
func fakeKeys(t *testing.T, down *atomic.Bool) (*keySet, *atomic.Int64) {
	t.Helper()
	var fetches atomic.Int64
	s := newKeySet(func(context.Context) ([]jose.JSONWebKey, error) {
		fetches.Add(1)
		if down.Load() {
			return nil, errors.New("down")
		}
		return nil, nil
	}, func(error) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s, &fetches
}

func TestKeysCountForADayWithoutTheirIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s, _ := fakeKeys(t, &down)
		if _, err := s.current(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		down.Store(true)
		time.Sleep(keysMaxAge)
		if _, err := s.current(t.Context(), nil); err != nil {
			t.Errorf("after a day: %v", err)
		}
		time.Sleep(keysRefresh + time.Second)
		if _, err := s.current(t.Context(), nil); err == nil {
			t.Error("a day and a refresh later: the keys still count")
		}
		down.Store(false)
		time.Sleep(lastRetry)
		synctest.Wait()
		if _, err := s.current(t.Context(), nil); err != nil {
			t.Errorf("the issuer is back: %v", err)
		}
	})
}

// TestManyAskForKeysOnce checks that callers wait for a fetch that is in progress or
// requested.
func TestManyAskForKeysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s, fetches := fakeKeys(t, &down)
		synctest.Wait()
		if newer, _ := s.refetch(t.Context(), nil); newer {
			t.Error("fetched again at once")
		}
		time.Sleep(refetchInterval)
		var told atomic.Int64
		for range 100 {
			go func() {
				if newer, _ := s.refetch(t.Context(), nil); newer {
					told.Add(1)
				}
			}()
		}
		synctest.Wait()
		if fetches.Load() != 2 || told.Load() == 0 {
			t.Errorf("%d fetches, want 2; %d were told", fetches.Load(), told.Load())
		}
		// The requested fetch counts as a refresh, too.
		time.Sleep(keysRefresh - time.Second)
		if n := fetches.Load(); n != 2 {
			t.Errorf("%d fetches before the refresh, want 2", n)
		}
	})
}

func TestNoCallerWaitsForAClosedSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newKeySet(func(ctx context.Context) ([]jose.JSONWebKey, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, func(error) {})
		ctx, cancel := context.WithCancel(t.Context())
		go s.run(ctx)
		waiting := make(chan error)
		go func() {
			_, err := s.current(context.WithoutCancel(ctx), nil)
			waiting <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-waiting; !errors.Is(err, errClosed) {
			t.Errorf("got %v, want that it is closed", err)
		}
		time.Sleep(refetchInterval)
		if newer, _ := s.refetch(context.WithoutCancel(ctx), nil); newer {
			t.Error("a closed set is said to have been fetched")
		}
	})
}

// TestAFetchThatIsUnderWayIsAnswerEnough checks that a caller that arrives as the timer
// fires does not cause a second fetch.
func TestAFetchThatIsUnderWayIsAnswerEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newKeySet(nil, nil)
		s.begin()
		s.finish(nil, nil)
		time.Sleep(refetchInterval)
		go func() { _, _ = s.refetch(t.Context(), nil) }()
		synctest.Wait()
		s.begin()
		if len(s.wake) != 0 {
			t.Error("another fetch would follow")
		}
		s.finish(nil, nil)
	})
}

func TestParseKeys(t *testing.T) {
	const set = `{"keys": [
		{"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
		{"kty": "OKP", "crv": "Ed25519", "kid": "right", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
		{"kty": "OKP", "crv": "Ed25519", "kid": "encrypts", "use": "enc", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
		{"kty": "OKP", "crv": "Ed25519", "kid": "private", "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
		{"kty": "none"}, {}, 7
	]}`
	keys, err := parseKeys([]byte(set))
	if err != nil || len(keys) != 1 || keys[0].KeyID != "right" {
		t.Errorf("got %d keys, %v", len(keys), err)
	}
	for _, body := range []string{"", "[]", `{"keys": {}}`, `{"keys": []}`, "{}"} {
		if _, err := parseKeys([]byte(body)); err == nil {
			t.Errorf("%q has keys", body)
		}
	}
}

// TestFewWaitForAnIssuerThatHangs checks that callers with unknown keys must retry at once
// when many wait already, that each waiting caller calls waits before, and that places are
// free again after the issuer has responded.
func TestFewWaitForAnIssuerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		s := newKeySet(func(ctx context.Context) ([]jose.JSONWebKey, error) {
			select {
			case <-answer:
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, func(error) {})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.run(ctx)
		synctest.Wait()
		var said, crowded, served atomic.Int64
		for range 10 * maxWaiters {
			go func() {
				switch _, err := s.current(ctx, func() { said.Add(1) }); {
				case err == nil:
					served.Add(1)
				case errors.Is(err, errCrowded):
					crowded.Add(1)
				}
			}()
		}
		synctest.Wait()
		if said.Load() != maxWaiters || crowded.Load() != 9*maxWaiters {
			t.Errorf("%d wait and %d were refused at once, want %d and %d", said.Load(), crowded.Load(), maxWaiters, 9*maxWaiters)
		}
		close(answer)
		synctest.Wait()
		if served.Load() != maxWaiters || s.waiting != 0 {
			t.Errorf("%d of them were served, %d still wait", served.Load(), s.waiting)
		}
		// The same for keys that are fetched again.
		answer = make(chan struct{})
		time.Sleep(refetchInterval)
		for range 10 * maxWaiters {
			go func() {
				if _, err := s.refetch(ctx, nil); errors.Is(err, errCrowded) {
					crowded.Add(1)
				}
			}()
		}
		synctest.Wait()
		if crowded.Load() != 18*maxWaiters {
			t.Errorf("%d were refused at once, want %d", crowded.Load(), 18*maxWaiters)
		}
	})
}
