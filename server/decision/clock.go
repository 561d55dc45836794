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

// clockTimeout bounds a question for the store's time that an answer waits for.
const clockTimeout = time.Second

// clock tells the time, compares it with that of the store that instances share, and
// says whether it is right: a decision of a wrong instant would hold others for as long.
type clock struct {
	// wall is this machine's clock; anchored says that between two comparisons time goes
	// on as it passes, so that one that is set counts only once it was compared.
	wall     func() time.Time
	anchored bool
	anchor   atomic.Pointer[time.Time]
	// store is whose clock is the measure, nil: there is no other one.
	store store.Clock
	// bound is how far apart they may be; 0: any.
	bound time.Duration
	// wrong means that they are further apart.
	wrong  atomic.Bool
	offset atomic.Int64 // nanoseconds that the wall's is ahead

	skew   prometheus.Gauge
	future prometheus.Counter
	log    *zap.Logger
}

func newClock(engine store.Store, o *Options) *clock {
	c := &clock{
		wall: o.Clock, bound: o.MaxClockSkew, log: o.Log,
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

// now is the instant to decide for.
func (c *clock) now() time.Time {
	if a := c.anchor.Load(); a != nil {
		return a.Add(time.Since(*a))
	}
	return c.wall()
}

// lead is how far a record may lie in the future: two instances may be as far apart as
// this. 0: any.
func (c *clock) lead() time.Duration { return 2 * c.bound }

// measure compares the clocks. Where the store does not tell its time nothing changes.
func (c *clock) measure(ctx context.Context) {
	if c.store == nil {
		return
	}
	begun := time.Now()
	theirs, err := c.store.Time(ctx)
	wall, took := c.wall(), time.Since(begun)
	if err != nil {
		c.log.Debug("the store's clock is not known", zap.Error(err))
		return
	}
	offset := wall.Add(-took / 2).Sub(theirs)
	c.offset.Store(int64(offset))
	c.skew.Set(offset.Seconds())
	wrong := c.bound > 0 && offset.Abs()-took/2 > c.bound
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

// problem is what to answer instead of deciding; nil while the clock is right.
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

// judges says whether the store confirms that now is now, before records of the future
// are corrected: a clock that is behind must not take all others for wrong.
func (c *clock) judges(ctx context.Context, now time.Time) error {
	if c.store == nil {
		return nil // there is no other clock, so this one was set back
	}
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
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
