package shares_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/store"
)

// engine has some records, and counts how often they are counted.
type engine struct {
	store.Store
	used   store.Usage
	counts int
	// takes is how long a count takes, and timeout how long an attempt to reach the engine may.
	takes, timeout time.Duration
}

func (e *engine) Timeout() time.Duration { return e.timeout }

func (e *engine) Usage(ctx context.Context, _ string) (store.Usage, error) {
	e.counts++
	if e.takes > 0 {
		select {
		case <-time.After(e.takes):
		case <-ctx.Done():
		}
	}
	return e.used, ctx.Err()
}

// A caller that leaves does not spare its cluster, and those who call next, the count.
func TestACallerThatLeavesIsCounted(t *testing.T) {
	t.Parallel()
	e := &engine{used: store.Usage{Keys: 5}}
	options := shares.Options{ClusterTargets: 5, Clock: time.Now, Log: zap.NewNop()}
	s := shares.New(e, options, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{gone, t.Context()} {
		if err := s.Place(ctx, "red", store.Usage{Keys: 1}, options.For(nil)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a full cluster: %v", err)
		}
	}
}

// A store that may take its time is counted, too.
func TestADistantStoreIsCounted(t *testing.T) {
	t.Parallel()
	for timeout, counted := range map[time.Duration]bool{time.Second: false, 3 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			e := &engine{used: store.Usage{Keys: 5}, takes: 2 * time.Second, timeout: timeout}
			options := shares.Options{ClusterTargets: 5, Clock: time.Now, Log: zap.NewNop()}
			err := shares.New(e, options, nil).Place(t.Context(), "red", store.Usage{Keys: 1}, options.For(nil))
			if (status.Code(err) == codes.ResourceExhausted) != counted {
				t.Errorf("a full cluster, with a timeout of %s: %v", timeout, err)
			}
		})
	}
}

// Records that grow cause a count a minute while there is much room, and one in 5 s where they
// take it: so instances that do not know of each other fill it together, and not more.
func TestCountsOfGrowth(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bytes, used, each int64
		least, most       int
	}{
		"little of much room":    {1_000_000, 0, 10, 3, 4},
		"a part of it each time": {1_000_000, 0, 3000, 8, 10},
		"much of it":             {1_000_000, 0, 30_000, 25, 40},
		"little of little room":  {1_000_000, 999_000, 20, 25, 40},
		"no bound of bytes":      {0, 999_000, 1000, 0, 0},
	} {
		e := &engine{used: store.Usage{Keys: 5, Bytes: tt.used}}
		now := time.Unix(1_700_000_000, 0)
		options := shares.Options{ClusterTargets: 5, ClusterBytes: int(tt.bytes), Clock: func() time.Time { return now }, Log: zap.NewNop()}
		s := shares.New(e, options, func(limit.Reason) {})
		for range 180 {
			more := store.Usage{Bytes: tt.each}
			err := s.Place(t.Context(), "red", more, options.For(nil))
			s.Settle("red", more, err == nil)
			now = now.Add(time.Second)
		}
		if e.counts < tt.least || e.counts > tt.most {
			t.Errorf("%s: %d counts in three minutes, want %d to %d", name, e.counts, tt.least, tt.most)
		}
	}
}

// A record that grows is no target: only the bytes count, and what is being stored counts once.
func TestGrowthIsNoTarget(t *testing.T) {
	t.Parallel()
	e := &engine{used: store.Usage{Keys: 5, Bytes: 100}}
	options := shares.Options{ClusterTargets: 6, ClusterBytes: 1000, Clock: time.Now, Log: zap.NewNop()}
	s := shares.New(e, options, func(limit.Reason) {})
	for i, step := range []struct {
		more store.Usage
		code codes.Code
	}{
		{store.Usage{Bytes: 400}, codes.OK},
		{store.Usage{Keys: 1, Bytes: 1}, codes.OK},
		{store.Usage{Keys: 1, Bytes: 1}, codes.ResourceExhausted},
		{store.Usage{Bytes: 400}, codes.OK},
		{store.Usage{Bytes: 100}, codes.ResourceExhausted},
		{store.Usage{Bytes: 99}, codes.OK},
	} {
		err := s.Place(t.Context(), "red", step.more, options.For(nil))
		if status.Code(err) != step.code {
			t.Errorf("step %d: %v, want %s", i, err, step.code)
		}
		if err == nil {
			e.used.Keys, e.used.Bytes = e.used.Keys+step.more.Keys, e.used.Bytes+step.more.Bytes
			s.Settle("red", step.more, true)
		}
	}
}
