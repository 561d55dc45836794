// Package deadline makes contexts that end at an instant without a timer, unless somebody waits for
// it: a timer for each call costs more than looking at the clock.
//
//	var d deadline.Context
//	d.Begin(ctx, time.Now().Add(timeout), nil)
//	defer d.Cancel()
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is a context that ends at an instant, or with its parent. Begin it before it is used;
// it must not be copied afterwards. Its methods may be called concurrently.
type Context struct {
	parent context.Context
	at     time.Time
	cause  error

	mu     sync.Mutex
	ended  bool            // guarded by mu; by Cancel
	armed  context.Context // guarded by mu; the one with a timer, nil: nobody waits
	cancel context.CancelFunc
}

var _ context.Context = (*Context)(nil)

// Begin sets the parent, and the instant at which the context ends with that cause; nil: with
// context.DeadlineExceeded, as its error is in any case.
func (c *Context) Begin(parent context.Context, at time.Time, cause error) {
	if before, has := parent.Deadline(); has && before.Before(at) {
		at, cause = before, nil
	}
	c.parent, c.at, c.cause = parent, at, cause
}

// Cancel ends the context. Call it when the work is done.
func (c *Context) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Deadline implements context.Context, as do those below.
func (c *Context) Deadline() (time.Time, bool) { return c.at, true }

// Done makes the timer.
func (c *Context) Done() <-chan struct{} { return c.arm().Done() }

func (c *Context) arm() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil {
		c.armed, c.cancel = context.WithDeadlineCause(c.parent, c.at, c.cause)
		if c.ended {
			c.cancel()
		}
	}
	return c.armed
}

// timer returns the context with the timer, nil if there is none.
func (c *Context) timer() (armed context.Context, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed, c.ended
}

// Err is that of a context with a timer: once it is not nil Done is closed, and the reverse.
func (c *Context) Err() error {
	switch armed, ended := c.timer(); {
	case armed != nil:
		return armed.Err()
	case ended:
		return context.Canceled
	}
	if err := c.parent.Err(); err != nil {
		return err
	}
	if time.Now().Before(c.at) {
		return nil
	}
	return c.arm().Err()
}

// Value tells package context what its own contexts descend from, and of the cause.
func (c *Context) Value(key any) any {
	if armed, _ := c.timer(); armed != nil {
		return armed.Value(key)
	}
	return c.parent.Value(key)
}
