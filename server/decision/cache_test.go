package decision_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// counted counts the loads and swaps of a store.
type counted struct{ loads, swaps atomic.Int64 }

func (c *counted) hook(su *servertest.Setup) {
	su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
		c.loads.Add(1)
		return load(ctx, key)
	}
	su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
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
func remembering(t *testing.T, engine *memory.Store) (*servertest.Service, *counted) {
	t.Helper()
	c := new(counted)
	s := servertest.Start(t, func(su *servertest.Setup) {
		if engine != nil {
			su.Store.Store, su.Log = engine, engine
		}
		su.Options.CacheBytes = 1 << 20
		c.hook(su)
	})
	if engine != nil {
		s.Memory = engine
	}
	return s, c
}

func TestSteadyStateIsOneSwap(t *testing.T) {
	t.Parallel()
	s, count := remembering(t, nil)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	count.expect(t, "the first decision", 1, 1)
	for range 5 {
		s.Clock.Advance(servertest.Period)
		s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	}
	count.expect(t, "five more", 0, 5)
	s.Batch(t, servertest.Queue(servertest.Web, 3, 30), servertest.Queue(servertest.Web, 3, 30))
	count.expect(t, "two in a batch", 0, 2)
}

// What is remembered is right only if a swap says so: another instance may have
// answered meanwhile, or deleted the target.
func TestWhatIsRememberedIsConfirmed(t *testing.T) {
	t.Parallel()
	// The window keeps recommendations apart.
	held := func(length int32) *setpointv1.RecommendRequest {
		req := servertest.Queue(servertest.Web, 3, length)
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
		check func(t *testing.T, a, b *servertest.Service, count *counted)
	}{
		{"a decision is made again on what stands there", func(t *testing.T, a, _ *servertest.Service, count *counted) {
			a.Recommend(t, held(30))
			count.expect(t, "a decision after another instance's", 0, 2)
			if n := len(a.Target(t, servertest.Web).GetHistory().GetRecommendations()); n != 4 { // and that of first sight
				t.Errorf("%d recommendations are kept, want 4", n)
			}
		}},
		{"a request id that another instance answered is found", func(t *testing.T, a, b *servertest.Service, count *counted) {
			want := b.Recommend(t, withID("2", 30))
			got := a.Recommend(t, withID("2", 90))
			if got.GetRecommendationId() != want.GetRecommendationId() {
				t.Errorf("answered anew: %s, want %s", got.GetRecommendationId(), want.GetRecommendationId())
			}
			count.expect(t, "an answer of another instance", 0, 1)
		}},
		{"an answer that is remembered is looked up", func(t *testing.T, a, _ *servertest.Service, count *counted) {
			a.Recommend(t, withID("1", 90))
			count.expect(t, "an answer given before", 1, 0)
		}},
		{"an answer of a target that was deleted is not given", func(t *testing.T, a, b *servertest.Service, _ *counted) {
			before := a.Recommend(t, withID("1", 30))
			if _, err := b.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
				t.Fatal(err)
			}
			if after := a.Recommend(t, withID("1", 30)); after.GetRecommendationId() == before.GetRecommendationId() {
				t.Error("the answer is that of before")
			}
			if n := len(a.Target(t, servertest.Web).GetHistory().GetRecommendations()); n != 2 { // this one and that of first sight
				t.Errorf("%d recommendations are kept, want 2", n)
			}
		}},
		{"a dry run asks the store", func(t *testing.T, a, _ *servertest.Service, count *counted) {
			req := servertest.Queue(servertest.Web, 3, 30)
			req.DryRun = true
			a.Recommend(t, req)
			count.expect(t, "a dry run", 1, 0)
		}},
		{"an evaluation time before what is remembered is refused by what is stored", func(t *testing.T, a, b *servertest.Service, count *counted) {
			if _, err := b.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
				t.Fatal(err)
			}
			req := servertest.Queue(servertest.Web, 3, 30)
			req.EvaluationTime = timestamppb.New(servertest.T0.Add(-servertest.Period))
			if _, err := a.Recommendations.Recommend(t.Context(), req); err != nil {
				t.Errorf("refused although the target is gone: %v", err)
			}
			count.expect(t, "a decision on a target that is gone", 1, 1)
		}},
		{"in a batch, too", func(t *testing.T, a, b *servertest.Service, count *counted) {
			want := b.Recommend(t, withID("2", 30))
			dry := servertest.Queue(servertest.Web, 3, 30)
			dry.DryRun = true
			results := a.Batch(t, withID("1", 30), withID("2", 30), dry, held(30))
			count.expect(t, "a batch", 1, 1)
			for i, r := range results {
				if r.GetError() != nil {
					t.Errorf("item %d: %v", i, r.GetError())
				}
			}
			if got := results[1].GetResponse().GetRecommendationId(); got != want.GetRecommendationId() {
				t.Errorf("answered anew: %s, want %s", got, want.GetRecommendationId())
			}
			if n := len(a.Target(t, servertest.Web).GetHistory().GetRecommendations()); n != 4 {
				t.Errorf("%d recommendations are kept, want 4", n)
			}
		}},
		{"a report of another instance's is found", func(t *testing.T, a, b *servertest.Service, _ *counted) {
			change := a.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
			report := &setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: change.GetRecommendationId(), Outcome: "APPLIED"}
			if _, err := b.Recommendations.ReportScale(t.Context(), report); err != nil {
				t.Fatal(err)
			}
			a.Recommend(t, servertest.Queue(servertest.Web, 5, 50))
			if n := len(a.Target(t, servertest.Web).GetHistory().GetScaleUps()); n != 1 {
				t.Errorf("%d scale-ups are kept, want 1", n)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			engine := memory.New(memory.Options{})
			a, count := remembering(t, engine)
			b, _ := remembering(t, engine)
			a.Recommend(t, withID("1", 30))
			b.Clock.Advance(servertest.Period)
			b.Recommend(t, withID("2", 30))
			a.Clock.Advance(2 * servertest.Period)
			count.expect(t, "before", 1, 1)
			tc.check(t, a, b, count)
		})
	}
}

// A store that lost data, as one that starts from a snapshot, gets a history back from the instance that knows what it answered
// since: else the window would have forgotten it, and the next step down would come at once.
func TestAHistoryThatWentBackIsRestored(t *testing.T) {
	t.Parallel()
	asked := func(id string, length int32) *setpointv1.RecommendRequest { // 10 a replica
		req := servertest.Queue(servertest.Web, 5, length)
		req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(60))
		req.RequestId = id
		return req
	}
	held := func(t *testing.T, r *setpointv1.RecommendResponse) {
		t.Helper()
		if r.GetDesiredReplicas() != 5 {
			t.Errorf("%d replicas, want the 5 of the window", r.GetDesiredReplicas())
		}
	}
	for name, check := range map[string]func(t *testing.T, a, b *servertest.Service, last *setpointv1.RecommendResponse){
		"by little": func(t *testing.T, a, _ *servertest.Service, _ *setpointv1.RecommendResponse) { // others may have gone on from it
			a.Recommend(t, asked("3", 20))
			if n := len(a.Target(t, servertest.Web).GetHistory().GetRecommendations()); n != 3 { // with that of first sight
				t.Errorf("%d recommendations are kept, want 3", n)
			}
		},
		"alone": func(t *testing.T, a, _ *servertest.Service, _ *setpointv1.RecommendResponse) {
			held(t, a.Recommend(t, asked("3", 20)))
			held(t, a.Recommend(t, asked("4", 20)))
		},
		"in a batch": func(t *testing.T, a, _ *servertest.Service, _ *setpointv1.RecommendResponse) {
			for _, r := range a.Batch(t, asked("3", 20), asked("4", 20)) {
				held(t, r.GetResponse())
			}
		},
		"for a retry": func(t *testing.T, a, _ *servertest.Service, last *setpointv1.RecommendResponse) {
			if got := a.Recommend(t, asked("2", 20)); got.GetRecommendationId() != last.GetRecommendationId() {
				t.Errorf("a retry got %s, want %s", got.GetRecommendationId(), last.GetRecommendationId())
			}
		},
		"on top of another instance's": func(t *testing.T, a, b *servertest.Service, _ *setpointv1.RecommendResponse) {
			b.Clock.Advance(servertest.Period) // behind a
			b.Recommend(t, asked("b", 49))
			held(t, a.Recommend(t, asked("3", 20)))
			if n := len(a.Target(t, servertest.Web).GetHistory().GetRecommendations()); n < 4 {
				t.Errorf("%d recommendations are kept, want b's among them", n)
			}
		},
		"not a deleted one's": func(t *testing.T, a, b *servertest.Service, _ *setpointv1.RecommendResponse) {
			if _, err := b.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
				t.Fatal(err)
			}
			b.Clock.Advance(servertest.Period)
			b.Recommend(t, asked("b", 20))
			a.Recommend(t, asked("3", 20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := memory.New(memory.Options{})
			a, metrics := servertest.Measured(t, func(su *servertest.Setup) {
				su.Store.Store, su.Log, su.Options.CacheBytes = engine, engine, 1<<20
			})
			a.Memory = engine
			b, _ := remembering(t, engine)
			a.Recommend(t, asked("1", 50))
			old := a.Stored(t, servertest.Web)
			if a.Clock.Advance(servertest.Period); name != "by little" {
				a.Clock.Advance(2 * time.Minute)
			}
			last := a.Recommend(t, asked("2", 50))
			a.Clock.Advance(servertest.Period)
			a.Put(t, servertest.Web, old)
			want := map[bool]float64{true: 0, false: 1}[name == "not a deleted one's"]
			check(t, a, b, last)
			if n := servertest.Read(t, metrics)["histories_went_back_total"]; n != want {
				t.Errorf("%v histories are counted, want %v", n, want)
			}
		})
	}
}

// Cached records do not replace an unreachable store, unless HoldDown is set.
func TestRememberedRecordsDoNotHideAnOutage(t *testing.T) {
	t.Parallel()
	s, _ := remembering(t, nil)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	fatal.If(t, s.Memory.Close())
	if _, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 30)); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}
