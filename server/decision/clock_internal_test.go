package decision

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// behind is a store whose clock is an hour behind.
type behind struct {
	store.Store
	now time.Time
}

func (b behind) Time(context.Context) (time.Time, error) { return b.now.Add(-time.Hour), nil }

// While the clocks are compared again, overrides begin and end by the difference that was measured before.
func TestAMeasurementForgetsNoDifference(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	engine := memory.New(memory.Options{})
	defer engine.Close()
	c := newClock(behind{engine, now}, &Options{Clock: func() time.Time { return now }, MaxClockSkew: 2 * time.Hour, Log: zap.NewNop()})
	c.measure(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20_000 {
			c.measure(t.Context())
		}
	}()
	for {
		if got := now.Sub(c.ofStore(now)); got < time.Hour/2 {
			t.Fatalf("the clock is %s ahead of the store's, want an hour", got)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// told is a store with that clock.
type told struct {
	store.Store
	time func() time.Time
}

func (s told) Time(context.Context) (time.Time, error) { return s.time(), nil }

// A machine whose clock is set while the service runs changes nothing about when overrides begin and end: by a wrong time the
// instance would delete those of all instances that it takes for over.
func TestOverridesGoByTheStoreWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	for _, set := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(told{time: time.Now}, &Options{MaxClockSkew: 30 * time.Second, Log: zap.NewNop()})
			c.measure(t.Context())
			c.wall = func() time.Time { return time.Now().Add(set) }
			c.measure(t.Context())
			if c.problem() == nil {
				t.Errorf("set by %s: the clock counts as right", set)
			}
			if off := time.Until(c.ofStore(c.now())); off != 0 {
				t.Errorf("set by %s: overrides begin and end by a time that is %s off", set, off)
			}
		})
	}
}

// distant is a store that takes two seconds to tell the time.
type distant struct {
	store.Store
	timeout time.Duration
}

func (d distant) Timeout() time.Duration { return d.timeout }

func (d distant) Time(ctx context.Context) (time.Time, error) {
	select {
	case <-time.After(2 * time.Second):
		return time.Now(), nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// Records of the future are corrected on the word of a store that may take its time, too.
func TestADistantClockJudges(t *testing.T) {
	t.Parallel()
	for timeout, judged := range map[time.Duration]bool{time.Second: false, 2500 * time.Millisecond: true} {
		synctest.Test(t, func(t *testing.T) {
			c := newClock(distant{timeout: timeout}, &Options{MaxClockSkew: 30 * time.Second, Log: zap.NewNop()})
			if err := c.judges(t.Context(), time.Now()); (err == nil) != judged {
				t.Errorf("with a timeout of %s: %v", timeout, err)
			}
		})
	}
}
