package signin

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Asking that panics has no value for others: a secret of no bytes would seal nothing.
func TestAPanicIsNoAnswer(t *testing.T) {
	t.Parallel()
	var c cached[[]byte]
	get := func(ask func(context.Context, []byte) ([]byte, error)) ([]byte, error) {
		return c.get(t.Context(), time.Minute, time.Minute, time.Minute, ask)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = get(func(context.Context, []byte) ([]byte, error) { panic("a bug") })
	}()
	if value, err := get(nil); value != nil || !errors.Is(err, errUnanswered) {
		t.Errorf("%q, %v", value, err)
	}
}

// While a store or an issuer that hangs is asked again, only the caller that asks waits.
func TestOneWaitsForANewValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c cached[string]
		get := func(takes time.Duration, answer string) string {
			value, err := c.get(t.Context(), time.Minute, time.Second, time.Hour, func(context.Context, string) (string, error) {
				time.Sleep(takes)
				return answer, nil
			})
			fatal.If(t, err)
			return value
		}
		for _, step := range []struct{ name, answer, want string }{
			{"nothing is known: all wait", "first", "first"},
			{"what was known until now counts", "second", "first"},
		} {
			go get(time.Second, step.answer)
			synctest.Wait()
			if got := get(0, "never"); got != step.want {
				t.Errorf("%s: got %q, want %q", step.name, got, step.want)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := get(0, "never"); got != step.answer {
				t.Errorf("%s: got %q after it, want %q", step.name, got, step.answer)
			}
			time.Sleep(time.Minute)
		}
	})
}

// kept is an engine that keeps a secret until it is deleted.
type kept struct{ secret []byte }

func (k *kept) Secret(_ context.Context, _ string, proposal []byte) ([]byte, error) {
	if k.secret == nil {
		k.secret = slices.Clone(proposal)
	}
	return k.secret, nil
}

// Whoever deletes the secret ends all sessions: the instance that made it makes another one.
func TestADeletedSecretDoesNotComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := new(kept)
		s := newSealer(engine)
		sealed, err := s.seal(t.Context(), forSession, []byte("a session"))
		fatal.If(t, err)
		engine.secret = nil
		time.Sleep(secretAge)
		if plain, err := s.open(t.Context(), forSession, sealed); !errors.Is(err, errNotSealed) {
			t.Errorf("%q, %v", plain, err)
		}
	})
}
