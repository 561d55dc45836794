package signin

import (
	"context"
	"errors"
	"testing"
	"time"
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
