package server_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// counted counts the loads and swaps of a store.
type counted struct{ loads, swaps atomic.Int64 }

func (c *counted) hook(su *setup) {
	su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
		c.loads.Add(1)
		return load(ctx, key)
	}
	su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
		c.swaps.Add(1)
		return compareAndSwap(ctx, swap)
	}
}

// expect fails the test unless so many loads and swaps came since the last time.
func (c *counted) expect(t *testing.T, what string, loads, swaps int64) {
	t.Helper()
	if l, s := c.loads.Swap(0), c.swaps.Swap(0); l != loads || s != swaps {
		t.Errorf("%s: %d loads and %d swaps, want %d and %d", what, l, s, loads, swaps)
	}
}

// remembering is a service that remembers records, on the engine given or one of its
// own, with its operations counted.
func remembering(t *testing.T, engine *memory.Store) (*service, *counted) {
	t.Helper()
	c := new(counted)
	s := start(t, func(su *setup) {
		if engine != nil {
			su.store.Store, su.log = engine, engine
		}
		su.options.CacheBytes = 1 << 20
		c.hook(su)
	})
	if engine != nil {
		s.memory = engine
	}
	return s, c
}

func TestSteadyStateIsOneSwap(t *testing.T) {
	t.Parallel()
	s, count := remembering(t, nil)
	s.recommend(t, queue(web, 3, 30))
	count.expect(t, "the first decision", 1, 1)
	for range 5 {
		s.clock.Advance(period)
		s.recommend(t, queue(web, 3, 30))
	}
	count.expect(t, "five more", 0, 5)
	s.batch(t, queue(web, 3, 30), queue(web, 3, 30))
	count.expect(t, "two in a batch", 0, 2)
}

// What is remembered is right only if a swap says so: another instance may have
// answered meanwhile, or deleted the target.
func TestWhatIsRememberedIsConfirmed(t *testing.T) {
	t.Parallel()
	// The window keeps recommendations apart.
	held := func(length int32) *setpointv1.RecommendRequest {
		req := queue(web, 3, length)
		req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(300))
		return req
	}
	withID := func(id string, length int32) *setpointv1.RecommendRequest {
		req := held(length)
		req.RequestId = id
		return req
	}
	for _, tc := range []struct {
		name string
		// check is made after a has decided with request id "1" and b with "2".
		check func(t *testing.T, a, b *service, count *counted)
	}{
		{"a decision is made again on what stands there", func(t *testing.T, a, _ *service, count *counted) {
			a.recommend(t, held(30))
			count.expect(t, "a decision after another instance's", 0, 2)
			if n := len(a.target(t, web).GetHistory().GetRecommendations()); n != 4 { // and that of first sight
				t.Errorf("%d recommendations are kept, want 4", n)
			}
		}},
		{"a request id that another instance answered is found", func(t *testing.T, a, b *service, count *counted) {
			want := b.recommend(t, withID("2", 30))
			got := a.recommend(t, withID("2", 90))
			if got.GetRecommendationId() != want.GetRecommendationId() {
				t.Errorf("answered anew: %s, want %s", got.GetRecommendationId(), want.GetRecommendationId())
			}
			count.expect(t, "an answer of another instance", 0, 1)
		}},
		{"an answer that is remembered is looked up", func(t *testing.T, a, _ *service, count *counted) {
			a.recommend(t, withID("1", 90))
			count.expect(t, "an answer given before", 1, 0)
		}},
		{"an answer of a target that was deleted is not given", func(t *testing.T, a, b *service, _ *counted) {
			before := a.recommend(t, withID("1", 30))
			if _, err := b.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: web}); err != nil {
				t.Fatal(err)
			}
			if after := a.recommend(t, withID("1", 30)); after.GetRecommendationId() == before.GetRecommendationId() {
				t.Error("the answer is that of before")
			}
			if n := len(a.target(t, web).GetHistory().GetRecommendations()); n != 2 { // this one and that of first sight
				t.Errorf("%d recommendations are kept, want 2", n)
			}
		}},
		{"a dry run asks the store", func(t *testing.T, a, _ *service, count *counted) {
			req := queue(web, 3, 30)
			req.DryRun = true
			a.recommend(t, req)
			count.expect(t, "a dry run", 1, 0)
		}},
		{"an evaluation time before what is remembered is refused by what is stored", func(t *testing.T, a, b *service, count *counted) {
			if _, err := b.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: web}); err != nil {
				t.Fatal(err)
			}
			req := queue(web, 3, 30)
			req.EvaluationTime = timestampOf(t0.Add(-period))
			if _, err := a.recommendations.Recommend(t.Context(), req); err != nil {
				t.Errorf("refused although the target is gone: %v", err)
			}
			count.expect(t, "a decision on a target that is gone", 1, 1)
		}},
		{"in a batch, too", func(t *testing.T, a, b *service, count *counted) {
			want := b.recommend(t, withID("2", 30))
			dry := queue(web, 3, 30)
			dry.DryRun = true
			results := a.batch(t, withID("1", 30), withID("2", 30), dry, held(30))
			count.expect(t, "a batch", 1, 1)
			for i, r := range results {
				if r.GetError() != nil {
					t.Errorf("item %d: %v", i, r.GetError())
				}
			}
			if got := results[1].GetResponse().GetRecommendationId(); got != want.GetRecommendationId() {
				t.Errorf("answered anew: %s, want %s", got, want.GetRecommendationId())
			}
			if n := len(a.target(t, web).GetHistory().GetRecommendations()); n != 4 {
				t.Errorf("%d recommendations are kept, want 4", n)
			}
		}},
		{"a report of another instance's is found", func(t *testing.T, a, b *service, _ *counted) {
			change := a.recommend(t, queue(web, 3, 50))
			report := &setpointv1.ReportScaleRequest{Target: web, RecommendationId: change.GetRecommendationId(), Outcome: "APPLIED"}
			if _, err := b.recommendations.ReportScale(t.Context(), report); err != nil {
				t.Fatal(err)
			}
			a.recommend(t, queue(web, 5, 50))
			if n := len(a.target(t, web).GetHistory().GetScaleUps()); n != 1 {
				t.Errorf("%d scale-ups are kept, want 1", n)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			engine := memory.New(memory.Options{})
			a, count := remembering(t, engine)
			b, _ := remembering(t, engine)
			a.recommend(t, withID("1", 30))
			b.clock.Advance(period)
			b.recommend(t, withID("2", 30))
			a.clock.Advance(2 * period)
			count.expect(t, "before", 1, 1)
			tc.check(t, a, b, count)
		})
	}
}

// Cached records do not replace an unreachable store, unless HoldDown is set.
func TestRememberedRecordsDoNotHideAnOutage(t *testing.T) {
	t.Parallel()
	s, _ := remembering(t, nil)
	s.recommend(t, queue(web, 3, 30))
	if err := s.memory.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 30)); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}
