package nomad

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// How long a lock outlives its holder, how often the holder renews it and others ask for it, and
// how long before its end a holder that can't renew it stops acting.
const (
	lockTTL    = 15 * time.Second
	lockEvery  = 3 * time.Second
	lockMargin = 4 * time.Second
)

// Lock is the lock of a Nomad variable, which one of several agents has, and which acts. A holder
// that dies is followed after some half a minute; one that ends releases it.
type Lock struct {
	Client *api.Client
	// Path and Namespace are those of the variable. The token needs write on it.
	Path, Namespace string
	// Log takes the lines.
	Log *zap.Logger

	standing atomic.Pointer[string]
}

// Standby says why this agent does not act, "": it has the lock.
func (l *Lock) Standby() string {
	if why := l.standing.Load(); why != nil {
		return *why
	}
	return ""
}

// Collector returns the metric of whether this agent has the lock, which has the name of Kubernetes' agents'.
func (l *Lock) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_agent_leading", Help: "1 while this agent has the lock of --nomad-lock, and acts; absent without that setting.",
	}, func() float64 {
		if why := l.standing.Load(); why == nil || *why != "" { // nil: it has not asked yet
			return 0
		}
		return 1
	})
}

func (l *Lock) stand(why string) {
	if last := l.standing.Swap(&why); last == nil || *last != why {
		l.Log.Info("the lock", zap.String("state", cmp.Or(why, "this agent has the lock "+l.Path+", and acts")))
	}
}

// Lead runs act while this agent has the lock, again when it has it again, until the context ends
// or act returns by itself.
func (l *Lock) Lead(ctx context.Context, act func(context.Context) error) error {
	for {
		lock, err := l.new()
		if err != nil {
			return err
		}
		since := time.Now()
		err = within(ctx, since.Add(lockTTL-lockMargin), lock, func(ctx context.Context) error {
			_, err := lock.Acquire(ctx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			l.stand("")
			if err := l.hold(ctx, lock, since, act); err != nil || ctx.Err() != nil {
				return err
			}
			l.stand("the lock " + l.Path + " was lost")
		case errors.Is(err, api.ErrLockConflict):
			l.stand("another agent has the lock " + l.Path + ", and acts; this one stands by")
		default:
			l.stand(denied("the lock "+l.Path, "write on that variable", err).Error())
		}
		if !deadline.Sleep(ctx, lockEvery) {
			return nil
		}
	}
}

func (l *Lock) new() (*api.Locks, error) {
	return l.Client.Locks(api.WriteOptions{Namespace: l.Namespace}, api.Variable{
		Path: l.Path, Namespace: l.Namespace, Lock: &api.VariableLock{TTL: lockTTL.String(), LockDelay: "1s"},
	}, api.LocksOptionWithMaxRetries(1))
}

// within makes a call about a lock that ends with the context, and at that time: Nomad's client sends
// its request without the context that it takes.
func within(ctx context.Context, end time.Time, lock *api.Locks, call func(context.Context) error) error {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	lock.WriteOptions = *lock.WithContext(ctx)
	return call(ctx)
}

// hold runs act until it returns, or until the lock, held since then, can't be renewed. act has
// ended when it returns.
func (l *Lock) hold(ctx context.Context, lock *api.Locks, since time.Time, act func(context.Context) error) error {
	acting, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- act(acting) }()
	ticker := time.NewTicker(lockEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			// The next one need not wait for the end of the lock.
			_ = within(context.WithoutCancel(ctx), time.Now().Add(lockMargin), lock, lock.Release)
			return err
		case <-ticker.C:
		}
		// A call that hangs is made again. It is renewed while reconciles in flight end, too.
		began, end := time.Now(), since.Add(lockTTL-lockMargin)
		if again := began.Add(lockMargin); again.Before(end) {
			end = again
		}
		err := within(context.WithoutCancel(ctx), end, lock, lock.Renew)
		switch {
		case err == nil:
			since = began
		case errors.Is(err, api.ErrLockConflict), time.Since(since) > lockTTL-lockMargin-lockEvery:
			l.Log.Warn("the lock was not renewed, stopping", zap.Error(err))
			stop()
			return <-done
		}
	}
}
