// Package deadline has contexts with a deadline that need no timer unless a goroutine waits for
// their end: a timer per call costs more than reading the clock.
//
//	var d deadline.Context
//	d.Begin(ctx, time.Now().Add(timeout), nil)
//	defer d.Cancel()
//
// Sleep is a wait that the end of a context cuts short.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is a context with a deadline, and a parent. Call Begin before it is used; it must not
// be copied afterwards. Its methods may be called concurrently.
type Context struct {
	parent context.Context
	at     time.Time
	cause  error

	mu     sync.Mutex
	ended  bool            // guarded by mu; by Cancel
	armed  context.Context // guarded by mu; the context with a timer, nil: there is no waiter
	cancel context.CancelFunc
}

var _ context.Context = (*Context)(nil)

// Begin sets the parent, the deadline, and the cause of a context that ends by it; nil:
// context.DeadlineExceeded, which is its error in any case.
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

// Done starts the timer.
func (c *Context) Done() <-chan struct{} { return c.withTimer().Done() }

func (c *Context) withTimer() context.Context {
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

// Err is the error of the context with a timer, if there is one: it is not nil exactly if
// Done is closed.
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
	return c.withTimer().Err()
}

// Value lets package context find a context's ancestors, and the cause.
func (c *Context) Value(key any) any {
	if armed, _ := c.timer(); armed != nil {
		return armed.Value(key)
	}
	return c.parent.Value(key)
}
