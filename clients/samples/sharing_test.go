package samples

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// asks counts requests and holds them until they are released.
type asks struct {
	began   chan context.Context
	release chan error
}

func newAsks() *asks {
	return &asks{make(chan context.Context, 100), make(chan error)}
}

func (a *asks) ask(ctx context.Context) (any, error) {
	a.began <- ctx
	select {
	case err := <-a.release:
		return "answer", err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestEqualQueriesAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := newSharing(time.Second, time.Minute), newAsks()
		defer s.close()
		type got struct {
			value  any
			joined bool
			err    error
		}
		answers := make(chan got, 3)
		for range 3 {
			go func() {
				value, joined, err := s.get(t.Context(), "q", a.ask)
				answers <- got{value, joined, err}
			}()
		}
		synctest.Wait()
		if n := len(a.began); n != 1 {
			t.Fatalf("%d requests for one query", n)
		}
		a.release <- nil
		joined := 0
		for range 3 {
			one := <-answers
			if one.value != "answer" || one.err != nil {
				t.Errorf("got %v, %v", one.value, one.err)
			}
			if one.joined {
				joined++
			}
		}
		if joined != 2 {
			t.Errorf("%d of 3 joined", joined)
		}
	})
}

func TestYoungAnswersAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(time.Second, time.Minute)
		defer s.close()
		asked := 0
		want := errors.New("refused")
		ask := func(context.Context) (any, error) { asked++; return nil, want }
		for _, step := range []struct {
			name string
			wait time.Duration
			want int
		}{
			{"the first is asked", 0, 1},
			{"a failure, too, serves who asks at once", 0, 1},
			{"and while it is young", 999 * time.Millisecond, 1},
			{"an old one does not", time.Millisecond, 2},
		} {
			time.Sleep(step.wait)
			if _, _, err := s.get(t.Context(), "q", ask); err != want || asked != step.want {
				t.Errorf("%s: asked %d times, want %d; error %v", step.name, asked, step.want, err)
			}
		}
		if _, joined, _ := s.get(t.Context(), "other", ask); joined || asked != 3 {
			t.Errorf("another query joined: %v, asked %d times", joined, asked)
		}
		time.Sleep(time.Minute)
		if _, _, err := s.get(t.Context(), "third", ask); err != want || len(s.entries) != 1 {
			t.Errorf("%d answers are kept where all but one are old; error %v", len(s.entries), err)
		}
	})
}

func TestARequestLastsAsLongAsSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := newSharing(time.Second, time.Minute), newAsks()
		defer s.close()
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		go func() { _, _, err := s.get(first, "q", a.ask); errs <- err }()
		synctest.Wait()
		go func() { _, _, err := s.get(second, "q", a.ask); errs <- err }()
		synctest.Wait()
		request := <-a.began
		leaveFirst()
		synctest.Wait()
		if err := <-errs; !errors.Is(err, context.Canceled) || request.Err() != nil {
			t.Fatalf("the first left with %v, and the request has %v", err, request.Err())
		}
		leaveSecond()
		synctest.Wait()
		if err := <-errs; !errors.Is(err, context.Canceled) || request.Err() == nil {
			t.Fatalf("the second left with %v, and the request goes on for nobody", err)
		}
		// Who comes after is not told that it was cancelled.
		go func() { _, _, err := s.get(t.Context(), "q", a.ask); errs <- err }()
		synctest.Wait()
		a.release <- nil
		if err := <-errs; err != nil {
			t.Fatalf("who came after got %v", err)
		}
	})
}

func TestARequestEndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := newSharing(time.Second, 5*time.Second), newAsks()
		defer s.close()
		began := time.Now()
		if _, _, err := s.get(t.Context(), "q", a.ask); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Fatalf("ended after %s with %v", time.Since(began), err)
		}
	})
}

func TestCloseCancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := newSharing(time.Second, time.Minute), newAsks()
		errs := make(chan error, 1)
		go func() { _, _, err := s.get(t.Context(), "q", a.ask); errs <- err }()
		synctest.Wait()
		s.close()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatalf("who waited got %v", err)
		}
		_, _, err := s.get(t.Context(), "q", a.ask)
		if f := classify(err); f.outcome != Cancelled {
			t.Fatalf("after Close: %v", err)
		}
	})
}
