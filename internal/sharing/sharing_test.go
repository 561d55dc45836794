package sharing

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow returns after a while, and counts its calls and how often their context ended
// before.
type slow struct {
	takes          time.Duration
	mu             sync.Mutex
	asked, stopped int
	joined         int // who got another's answer
	err            error
}

func (s *slow) read(ctx context.Context) (int, error) {
	s.mu.Lock()
	s.asked++
	answer := s.asked
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
		return answer, s.err
	case <-ctx.Done():
		s.mu.Lock()
		s.stopped++
		s.mu.Unlock()
		return 0, ctx.Err()
	}
}

func (s *slow) get(ctx context.Context, from *Group[int], key string) (int, error) {
	value, joined, err := from.Get(ctx, key, time.Minute, s.read)
	if joined {
		s.mu.Lock()
		s.joined++
		s.mu.Unlock()
	}
	return value, err
}

func TestSharing(t *testing.T) {
	t.Parallel()
	rules := map[string]func(t *testing.T, s *Group[int], source *slow){
		"those who ask meanwhile wait for the one request": func(t *testing.T, s *Group[int], source *slow) {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if got, err := source.get(t.Context(), s, "a"); got != 1 || err != nil {
						t.Errorf("got %d, %v", got, err)
					}
				})
			}
			all.Wait()
			if source.asked != 1 || source.joined != 9 {
				t.Errorf("asked %d times, %d joined", source.asked, source.joined)
			}
		},
		"an answer is used again until it is too old": func(t *testing.T, s *Group[int], source *slow) {
			_, _ = source.get(t.Context(), s, "a")
			time.Sleep(time.Second - source.takes - 1)
			if got, _ := source.get(t.Context(), s, "a"); got != 1 {
				t.Errorf("got answer %d before its time", got)
			}
			time.Sleep(time.Nanosecond)
			if got, _ := source.get(t.Context(), s, "a"); got != 2 {
				t.Errorf("got answer %d after its time", got)
			}
		},
		"a failure is shared, too": func(t *testing.T, s *Group[int], source *slow) {
			source.err = errors.New("away")
			for range 3 {
				if _, err := source.get(t.Context(), s, "a"); err == nil {
					t.Error("no error")
				}
			}
			if source.asked != 1 || source.joined != 2 {
				t.Errorf("asked %d times, %d joined", source.asked, source.joined)
			}
		},
		"keys are apart": func(t *testing.T, s *Group[int], source *slow) {
			_, _ = source.get(t.Context(), s, "a")
			if got, _ := source.get(t.Context(), s, "b"); got != 2 {
				t.Errorf("got %d", got)
			}
		},
		"the first asker's end is not that of the others": func(t *testing.T, s *Group[int], source *slow) {
			first, cancel := context.WithCancel(t.Context())
			go func() { _, _ = source.get(first, s, "a") }()
			synctest.Wait()
			cancelled := make(chan error)
			go func() {
				_, err := source.get(t.Context(), s, "a")
				cancelled <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-cancelled; err != nil || source.stopped > 0 {
				t.Errorf("got %v, stopped %d", err, source.stopped)
			}
		},
		"a request that nobody waits for is stopped and not joined": func(t *testing.T, s *Group[int], source *slow) {
			ctx, cancel := context.WithTimeout(t.Context(), source.takes/2)
			defer cancel()
			if _, err := source.get(ctx, s, "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if got, err := source.get(t.Context(), s, "a"); got != 2 || err != nil || source.stopped != 1 {
				t.Errorf("got %d, %v, stopped %d", got, err, source.stopped)
			}
		},
		"a request under way is joined however old it is": func(t *testing.T, s *Group[int], source *slow) {
			source.takes = 5 * time.Second
			go func() { _, _ = source.get(t.Context(), s, "a") }()
			time.Sleep(4 * time.Second)
			if got, _ := source.get(t.Context(), s, "a"); got != 1 {
				t.Errorf("got %d", got)
			}
		},
		"a stopped request does not take the next one along": func(t *testing.T, s *Group[int], source *slow) {
			ctx, cancel := context.WithTimeout(t.Context(), source.takes/2)
			defer cancel()
			_, _ = source.get(ctx, s, "a")
			_, _ = source.get(t.Context(), s, "a")
			time.Sleep(time.Second - 5*source.takes/4)
			synctest.Wait()
			if got, _ := source.get(t.Context(), s, "a"); got != 2 {
				t.Errorf("got %d", got)
			}
		},
		"a request lasts no longer than its timeout": func(t *testing.T, s *Group[int], source *slow) {
			source.takes = time.Hour
			began := time.Now()
			if _, err := source.get(t.Context(), s, "a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
		},
		"closing stops a request and waits for its end": func(t *testing.T, s *Group[int], source *slow) {
			go func() { _, _ = source.get(t.Context(), s, "a") }()
			synctest.Wait()
			if s.Close(); source.stopped != 1 {
				t.Error("it goes on")
			}
		},
		"nothing is kept that is too old": func(t *testing.T, s *Group[int], source *slow) {
			_, _ = source.get(t.Context(), s, "a")
			_, _ = source.get(t.Context(), s, "b")
			time.Sleep(time.Second - source.takes)
			synctest.Wait()
			if kept, _ := s.Size(); kept > 0 {
				t.Errorf("kept %d", kept)
			}
		},
		"an answer that took longer than it lasts is dropped at once": func(t *testing.T, s *Group[int], source *slow) {
			source.takes = 5 * time.Second
			_, _ = source.get(t.Context(), s, "a")
			synctest.Wait()
			if got, _ := source.get(t.Context(), s, "a"); got != 2 {
				t.Errorf("got %d", got)
			}
		},
		"a shorter age holds for what is there": func(t *testing.T, s *Group[int], source *slow) {
			_, _ = source.get(t.Context(), s, "a")
			s.SetMaxAge(source.takes)
			if got, _ := source.get(t.Context(), s, "a"); got != 2 {
				t.Errorf("got %d", got)
			}
		},
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rule(t, New[int](time.Second), &slow{takes: 100 * time.Millisecond})
			})
		})
	}
}
