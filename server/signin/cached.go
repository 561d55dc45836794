package signin

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errUnanswered is the error of asking that panicked.
var errUnanswered = errors.New("asking has failed")

// cached is a value of the issuer or the store, or the error of asking for it, for a while. One
// caller asks. The others get the last value meanwhile, or, without any, wait for it as long as their
// contexts let them. The zero value knows nothing.
type cached[T any] struct {
	mu sync.Mutex
	// Guarded by mu: the last value, its error, and when they came.
	value T
	err   error
	at    time.Time
	// asking is closed when the caller that asks has asked; nil: none does. Guarded by mu.
	asking chan struct{}
}

// get returns the value while it is younger than age, or its error than failureAge; then it asks for
// it with the value so far. The caller may be gone before the answer comes: the next one needs it,
// too.
func (c *cached[T]) get(ctx context.Context, age, failureAge, timeout time.Duration, ask func(context.Context, T) (T, error)) (T, error) {
	for {
		c.mu.Lock()
		if known := time.Since(c.at); !c.at.IsZero() && (c.err == nil && known < age || c.err != nil && known < failureAge) {
			defer c.mu.Unlock()
			return c.value, c.err
		}
		asked := c.asking
		if asked != nil && !c.at.IsZero() && c.err == nil { // what was known until a moment ago
			defer c.mu.Unlock()
			return c.value, nil
		}
		if asked == nil {
			c.asking = make(chan struct{})
			last := c.value
			c.mu.Unlock()
			return c.ask(ctx, timeout, last, ask)
		}
		c.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (c *cached[T]) ask(ctx context.Context, timeout time.Duration, last T, ask func(context.Context, T) (T, error)) (value T, err error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.value, c.err, c.at = value, err, time.Now()
		close(c.asking)
		c.asking = nil
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	err = errUnanswered // if it panics: the zero value is no answer
	return ask(ctx, last)
}
