package decision

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/store"
)

// clockTimeout limits a read of the store's time while a response waits. See store.Patience.
const clockTimeout = time.Second

// clock tells the time, compares it with the time of the store that instances share, and
// checks that the difference is small: a decision at a wrong instant would hold later
// ones for as long.
type clock struct {
	// wall is this machine's clock; anchored makes the time between two comparisons
	// monotonic, so that a change of the machine's clock counts only after the next
	// comparison.
	wall     func() time.Time
	anchored bool
	anchor   atomic.Pointer[time.Time]
	// store has the reference clock, nil: there is none. patience limits a read of it.
	store    store.Clock
	patience time.Duration
	// bound is the maximum difference; 0: unlimited.
	bound time.Duration
	// wrong reports that the difference exceeds it.
	wrong  atomic.Bool
	offset atomic.Int64 // wall's lead in nanoseconds
	// certain is now's lead, where it is more than the comparison may be wrong by, else 0; 0 where the difference is
	// unlimited, for then nobody trusts the store's clock.
	certain atomic.Int64

	skew   prometheus.Gauge
	future prometheus.Counter
	log    *zap.Logger
}

func newClock(engine store.Store, o *Options) *clock {
	c := &clock{
		wall: o.Clock, bound: o.MaxClockSkew, log: o.Log, patience: store.Patience(engine, clockTimeout),
		skew: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "setpoint_clock_skew_seconds", Help: "How far this instance's clock is ahead of the history store's; negative: behind. Beyond --max-clock-skew the instance is not ready.",
		}),
		future: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_records_from_the_future_total", Help: "Histories with timestamps in the future, written under a wrong clock, that were corrected.",
		}),
	}
	c.store, _ = engine.(store.Clock)
	if c.wall == nil {
		c.wall, c.anchored = time.Now, c.store != nil
	}
	return c
}

// now returns the instant for decisions.
func (c *clock) now() time.Time {
	if a := c.anchor.Load(); a != nil {
		return a.Add(time.Since(*a))
	}
	return c.wall()
}

// ofStore returns the store's time at an instant of this clock.
func (c *clock) ofStore(at time.Time) time.Time { return at.Add(-time.Duration(c.certain.Load())) }

// lead is how far in the future a record may be: two instances may differ by that much.
// 0: unlimited.
func (c *clock) lead() time.Duration { return 2 * c.bound }

// measure compares the clocks. If the store does not return its time, nothing changes.
func (c *clock) measure(ctx context.Context) {
	if c.store == nil {
		return
	}
	begun := time.Now()
	theirs, err := c.store.Time(ctx)
	now, wall, took := c.now(), c.wall(), time.Since(begun)
	if err != nil {
		c.log.Debug("the store's clock is unknown", zap.Error(err))
		return
	}
	offset := wall.Add(-took / 2).Sub(theirs)
	c.offset.Store(int64(offset))
	c.skew.Set(offset.Seconds())
	wrong := c.bound > 0 && offset.Abs()-took/2 > c.bound
	certain := offset
	if wrong { // now still goes by the comparison before
		certain = now.Add(-took / 2).Sub(theirs)
	}
	if c.bound <= 0 || certain.Abs() <= took/2 {
		certain = 0
	}
	c.certain.Store(int64(certain))
	if was := c.wrong.Swap(wrong); wrong != was {
		if wrong {
			c.log.Error("clock wrong: not ready", zap.Duration("ahead", offset), zap.Duration("bound", c.bound))
		} else {
			c.log.Info("clock right: ready", zap.Duration("ahead", offset))
		}
	}
	if c.anchored && !wrong {
		c.anchor.Store(&wall)
	}
}

// problem returns the error to return instead of deciding; nil while the clock is
// right.
func (c *clock) problem() error {
	if !c.wrong.Load() {
		return nil
	}
	offset := time.Duration(c.offset.Load())
	return apierror.New(codes.Unavailable, setpointv1.ErrorReason_ERROR_REASON_CLOCK_SKEWED, fmt.Sprintf(
		"this instance's clock is %s %s the history store's, which is more than %s: what it records would hold others up; hold the count and retry elsewhere, and have the clocks set",
		offset.Abs().Round(time.Millisecond), aheadOrBehind(offset), c.bound))
}

func aheadOrBehind(d time.Duration) string {
	if d < 0 {
		return "behind"
	}
	return "ahead of"
}

// judges reports whether the store confirms the current time, before records of the
// future are corrected: a clock that is behind must not regard all others as wrong.
func (c *clock) judges(ctx context.Context, now time.Time) error {
	if c.store == nil {
		return nil // there is no other clock, so this one was set back
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	theirs, err := c.store.Time(ctx)
	if err != nil {
		return err
	}
	if ahead := now.Sub(theirs); ahead.Abs() > c.lead() {
		c.measure(ctx)
		return fmt.Errorf("%w: the clock is %s off", store.ErrUnavailable, ahead)
	}
	return nil
}
