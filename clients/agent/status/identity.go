package status

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// Identity is the cluster's, as far as it is known.
type Identity struct {
	// Ask asks for it. Nil: there is none.
	Ask func(ctx context.Context) (string, error)
	// Timeout bounds a question. Required with Ask.
	Timeout time.Duration
	// GiveUp reports whether to go on without it, after so many questions of which the last one had
	// this error. Nil: never.
	GiveUp func(asked int, err error) bool
	// Log tells of failures. Required with Ask.
	Log *zap.Logger

	failure atomic.Pointer[error]
	known   atomic.Bool
}

// The first and the longest pause before the cluster is asked again.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Await asks until there is an answer, or it gives up; false: the context ended.
func (i *Identity) Await(ctx context.Context) (uid string, ok bool) {
	if i.Ask == nil {
		return "", ctx.Err() == nil
	}
	asked := 0
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		uid, err := i.once(ctx)
		asked++
		switch {
		case err == nil || ctx.Err() == nil && i.GiveUp != nil && i.GiveUp(asked, err):
			i.known.Store(true)
			return uid, true
		case ctx.Err() != nil:
			return "", false
		}
		i.failure.Store(&err)
		i.Log.Warn("cluster not reached, trying again", zap.Duration("in", wait), zap.Error(err))
		if !deadline.Sleep(ctx, wait) {
			return "", false
		}
	}
}

func (i *Identity) once(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, i.Timeout)
	defer cancel()
	return i.Ask(ctx)
}

// Problem is why the cluster is not known yet, nil: it is.
func (i *Identity) Problem() error {
	if i.Ask == nil || i.known.Load() {
		return nil
	}
	if err := i.failure.Load(); err != nil {
		return fmt.Errorf("the cluster can't be reached: %w", *err)
	}
	return errors.New("the cluster has not answered yet")
}
