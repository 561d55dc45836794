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
