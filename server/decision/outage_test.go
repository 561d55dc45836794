package decision_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// kept is a request of web whose recommendations are all kept for a while.
func kept(replicas, length int32) *setpointv1.RecommendRequest {
	return servertest.With(servertest.Queue(servertest.Web, replicas, length), func(r *setpointv1.RecommendRequest) {
		r.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(600))
	})
}

func TestWithoutHoldDownCallsAreRefusedWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		var f servertest.Faults
		s := servertest.Start(t, servertest.HoldingDown, f.FailSwaps(store.ErrUnavailable, false), func(su *servertest.Setup) { su.Options.HoldDown = held })
		change := s.Recommend(t, kept(2, 30))
		f.On.Store(true)
		_, reportErr := s.Recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{
			Target: servertest.Web, RecommendationId: change.GetRecommendationId(), Outcome: "APPLIED",
		})
		if held != (reportErr == nil) {
			t.Errorf("hold-down %v: a report: %v", held, reportErr)
		}
		resp, err := s.Recommendations.Recommend(t.Context(), kept(3, 50))
		item := s.Batch(t, kept(3, 50))[0]
		if held {
			if err != nil || resp.GetDesiredReplicas() != 5 || item.GetResponse().GetDesiredReplicas() != 5 {
				t.Errorf("with hold-down: %v, %v, %v", resp, err, item)
			}
		} else {
			servertest.WantProblem(t, servertest.RPCProblem(reportErr), codes.Unavailable, "STORE_UNAVAILABLE")
			servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
			servertest.WantProblem(t, servertest.ProblemOf(item.GetError()), codes.Unavailable, "STORE_UNAVAILABLE")
		}
		f.On.Store(false)
		s.Recommend(t, kept(3, 30))
	}
}

// away has the store fail, and gives another instance's hand.
func away(t *testing.T, change func(*servertest.Setup)) (*servertest.Service, *atomic.Bool) {
	t.Helper()
	var f servertest.Faults
	return servertest.Start(t, servertest.HoldingDown, f.FailSwaps(store.ErrUnavailable, false), f.FailLoads(store.ErrUnavailable), func(su *servertest.Setup) {
		if change != nil {
			change(su)
		}
	}), &f.On
}

// replicas are those that are recommended in a history, sorted.
func replicas(h record.Record) (all []int32) {
	for _, r := range h.Recommendations {
		all = append(all, r.Replicas)
	}
	slices.Sort(all)
	return all
}

// Histories that another instance wrote meanwhile and decisions made here are merged.
func TestWhatWasDecidedWithoutTheStoreIsMergedWithWhatOthersWrote(t *testing.T) {
	t.Parallel()
	s, on := away(t, nil)
	s.Recommend(t, kept(3, 30))
	on.Store(true)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 50))
	// The other instance goes on from what both knew.
	h := history(t, s, servertest.Web)
	at := servertest.T0.Add(500 * time.Millisecond)
	h.Recommendations = append(h.Recommendations, recommender.TimedRecommendation{Replicas: 9, At: at.UnixNano()})
	h.Updated = at
	s.Put(t, servertest.Web, record.Append(nil, &h))
	on.Store(false)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 70))
	if got, want := replicas(history(t, s, servertest.Web)), []int32{3, 3, 5, 7, 9}; !slices.Equal(got, want) {
		t.Errorf("recommended are %v, want %v", got, want)
	}
}

// A stop writes them first.
func TestAStopWritesWhatWasDecidedWithoutTheStore(t *testing.T) {
	t.Parallel()
	s, on := away(t, nil)
	s.Recommend(t, kept(3, 30))
	on.Store(true)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 50))
	on.Store(false)
	s.StopAndWait(t)
	if got, want := replicas(history(t, s, servertest.Web)), []int32{3, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("recommended are %v, want %v", got, want)
	}
}

// What a newer version wrote meanwhile stays as it is, and what was decided here is dropped.
func TestWhatWasDecidedWithoutTheStoreReplacesNothingUnreadable(t *testing.T) {
	t.Parallel()
	s, on := away(t, nil)
	s.Recommend(t, kept(3, 30))
	on.Store(true)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 50))
	newer := append([]byte{200}, s.Stored(t, servertest.Web)[1:]...)
	s.Put(t, servertest.Web, newer)
	on.Store(false)
	for range 2 {
		_, err := s.Recommendations.Recommend(t.Context(), kept(3, 70))
		servertest.WantProblem(t, servertest.RPCProblem(err), codes.Internal, "HISTORY_UNREADABLE")
	}
	if string(s.Stored(t, servertest.Web)) != string(newer) {
		t.Error("the record was changed")
	}
}

// Nor does a deletion that fails lose it.
func TestADeletionThatFailsKeepsWhatWasDecidedWithoutTheStore(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	s, on := away(t, func(su *servertest.Setup) {
		su.Store.OnOther = func() error {
			if fails.Load() {
				return store.ErrUnavailable
			}
			return nil
		}
	})
	s.Recommend(t, kept(3, 30))
	on.Store(true)
	fails.Store(true)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 50))
	_, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	fails.Store(false)
	on.Store(false)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 70))
	if got, want := replicas(history(t, s, servertest.Web)), []int32{3, 3, 5, 7}; !slices.Equal(got, want) {
		t.Errorf("recommended are %v, want %v", got, want)
	}
}

// lostLog takes nothing while the store is away.
type lostLog struct {
	store.Log
	away *atomic.Bool
}

func (l lostLog) AppendLog(ctx context.Context, entries []store.LogEntry) error {
	if l.away.Load() {
		return store.ErrUnavailable
	}
	return l.Log.AppendLog(ctx, entries)
}

// What was decided and reported without the store is in the log once the store is back, once each.
func TestTheLogHasWhatWasDecidedWithoutTheStore(t *testing.T) {
	t.Parallel()
	var f servertest.Faults
	s := servertest.Start(t, servertest.HoldingDown, f.FailSwaps(store.ErrUnavailable, false), f.FailLoads(store.ErrUnavailable), func(su *servertest.Setup) {
		su.Log = lostLog{su.Log, &f.On}
	})
	s.Recommend(t, kept(3, 30))
	f.On.Store(true)
	s.Clock.Advance(time.Second)
	up := s.Recommend(t, kept(3, 50))
	s.Report(t, servertest.Web, up.GetRecommendationId(), "APPLIED", "")
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(5, 50))
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(5, 70))
	f.On.Store(false)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(7, 70))
	if got, want := logged(t, s), []string{"3-3 NONE", "3-5 APPLIED", "5-5 NONE", "5-7 APPLIED", "7-7 NONE"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// A change that one instance decided without the store, and another one's next decision shows to be made, is in the log.
func TestTheLogHasChangesThatAnotherInstanceSaw(t *testing.T) {
	t.Parallel()
	var f servertest.Faults
	engine := memory.New(memory.Options{})
	share := func(su *servertest.Setup) { su.Store.Store, su.Log = engine, engine }
	s := servertest.Start(t, servertest.HoldingDown, share, f.FailSwaps(store.ErrUnavailable, false), f.FailLoads(store.ErrUnavailable))
	other := servertest.Start(t, share)
	s.Recommend(t, kept(3, 30))
	logged(t, s) // waits until it is: else the other instance may see it missing, and log it, too
	f.On.Store(true)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 50))
	other.Clock.Advance(2 * time.Second)
	other.Recommend(t, kept(5, 70))
	f.On.Store(false)
	s.Clock.Advance(2 * time.Second)
	s.Recommend(t, kept(7, 70))
	if got, want := logged(t, s), []string{"3-3 NONE", "3-5 APPLIED", "5-7 APPLIED", "7-7 NONE"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// logged are the decisions in the log, sorted.
func logged(t *testing.T, s *servertest.Service) (got []string) {
	t.Helper()
	for _, d := range s.Decisions(t, servertest.Web) {
		got = append(got, fmt.Sprintf("%d-%d %s", d.GetCurrentReplicas(), d.GetDesiredReplicas(), d.GetOutcome()))
	}
	slices.Sort(got)
	return got
}

// A target that another instance deleted during an outage stays deleted.
func TestADeletedTargetDoesNotComeBackAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// meanwhile is what others do while this instance can't reach the store.
		meanwhile func(t *testing.T, su *servertest.Setup, s *servertest.Service)
		want      []int32
	}{
		{"deleted", func(t *testing.T, su *servertest.Setup, _ *servertest.Service) {
			if existed, err := su.Store.Delete(t.Context(), servertest.KeyOf(servertest.Web)); err != nil || !existed {
				t.Fatal(existed, err)
			}
		}, []int32{3, 7}},
		{"deleted and made again", func(t *testing.T, su *servertest.Setup, s *servertest.Service) {
			_, _ = su.Store.Delete(t.Context(), servertest.KeyOf(servertest.Web))
			s.Put(t, servertest.Web, encoding.AppendHistory(nil, &recommender.History{
				Seen: true, Initialized: true, Since: time.Now().Add(time.Second).UnixNano(), Updated: servertest.T0,
				Recommendations: []recommender.TimedRecommendation{{Replicas: 4, At: servertest.T0.UnixNano()}},
			}))
		}, []int32{4, 7}},
		{"said to be deleted, by a deletion that failed", func(t *testing.T, su *servertest.Setup, s *servertest.Service) {
			before := s.Stored(t, servertest.Web)
			_, _ = su.Store.Delete(t.Context(), servertest.KeyOf(servertest.Web))
			s.Put(t, servertest.Web, before)
		}, []int32{3, 3, 5, 7}},
		{"lost, not deleted", func(t *testing.T, _ *servertest.Setup, s *servertest.Service) {
			if _, err := s.Memory.Delete(t.Context(), servertest.KeyOf(servertest.Web)); err != nil {
				t.Fatal(err)
			}
		}, []int32{3, 3, 5, 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var made *servertest.Setup
			s, on := away(t, func(su *servertest.Setup) { made = su })
			s.Recommend(t, kept(3, 30))
			on.Store(true)
			s.Recommend(t, kept(3, 50))
			tt.meanwhile(t, made, s)
			on.Store(false)
			s.Clock.Advance(time.Second)
			s.Recommend(t, kept(3, 70))
			if got := replicas(history(t, s, servertest.Web)); !slices.Equal(got, tt.want) {
				t.Errorf("recommended are %v, want %v", got, tt.want)
			}
		})
	}
}

// A swap happened, its answer was lost, and meanwhile another decision was made without
// the store. Made again, it keeps its instant: one recommendation is recorded once, and
// one change is one event. No request has an id.
func TestADecisionMadeAgainKeepsTheInstantOfTheDoubtfulSwap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		ask  func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse
	}{
		{"Recommend", func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
			return s.Recommend(t, req)
		}},
		{"BatchRecommend", func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
			return s.Batch(t, req)[0].GetResponse()
		}},
		{"Recommend at an instant", func(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
			return s.Recommend(t, servertest.With(req, servertest.EvaluatedAt(servertest.T0.Add(time.Second))))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var on, lost atomic.Bool
			var between func()
			s := servertest.Start(t, servertest.HoldingDown, func(su *servertest.Setup) {
				su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
					if on.Load() {
						return store.Record{}, store.ErrUnavailable
					}
					return load(ctx, key)
				}
				su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
					switch {
					case !on.Load():
						return compareAndSwap(ctx, swap)
					case lost.CompareAndSwap(false, true):
						if result, err := compareAndSwap(ctx, swap); err != nil || !result.Swapped {
							t.Errorf("the swap did not happen: %v, %v", result, err)
						}
						between()
					}
					return store.SwapResult{}, store.ErrUnavailable
				}
			})
			s.Recommend(t, kept(3, 30))
			s.Clock.Advance(time.Second)
			between = func() {
				s.Clock.Advance(time.Second)
				s.Recommend(t, kept(3, 70))
			}
			on.Store(true)
			doubtful := tt.ask(t, s, kept(3, 50))
			on.Store(false)
			if got := doubtful.GetEvaluationTime().AsTime(); doubtful.GetDesiredReplicas() != 5 || !got.Equal(servertest.T0.Add(time.Second)) {
				t.Errorf("answered is %d for %s", doubtful.GetDesiredReplicas(), got)
			}
			s.Clock.Advance(time.Second)
			s.Recommend(t, kept(5, 50)) // the change was applied, as is seen here
			h := history(t, s, servertest.Web)
			if got, want := replicas(h), []int32{3, 3, 5, 5, 7}; !slices.Equal(got, want) {
				t.Errorf("recommended are %v, want %v", got, want)
			}
			if len(h.ScaleUps) != 1 || h.ScaleUps[0].At != servertest.T0.Add(time.Second).UnixNano() {
				t.Errorf("scale-ups are %v, want one of %s", h.ScaleUps, servertest.T0.Add(time.Second))
			}
			if !h.Updated.Equal(servertest.T0.Add(3 * time.Second)) {
				t.Errorf("the newest record is of %s", h.Updated)
			}
		})
	}
}

// A target that was deleted here is not known any more when the store becomes
// unreachable: neither from an earlier swap, nor from one whose reply arrives after the
// deletion, nor from decisions made without the store meanwhile. The engine does not keep
// deletions.
func TestADeletedTargetIsNotRememberedInAnOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// during is what happens while the target is deleted, or what deletes it.
		during func(t *testing.T, su *servertest.Setup, s *servertest.Service, away *atomic.Bool, del func())
		known  bool
	}{
		{"decided before", func(_ *testing.T, _ *servertest.Setup, _ *servertest.Service, _ *atomic.Bool, del func()) { del() }, false},
		{"deleted while a swap is answered", func(t *testing.T, su *servertest.Setup, s *servertest.Service, _ *atomic.Bool, del func()) {
			var once atomic.Bool
			between := su.Store.OnSwap
			su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
				result, err := between(ctx, swap, compareAndSwap)
				if once.CompareAndSwap(false, true) {
					del()
				}
				return result, err
			}
			s.Recommend(t, kept(3, 50))
		}, false},
		{"decided without the store while it is deleted", func(t *testing.T, su *servertest.Setup, s *servertest.Service, away *atomic.Bool, del func()) {
			su.Store.OnOther = func() error {
				away.Store(true)
				defer away.Store(false)
				s.Recommend(t, kept(3, 50))
				return nil
			}
			del()
			su.Store.OnOther = nil
		}, false},
		{"the delete fails", func(t *testing.T, su *servertest.Setup, s *servertest.Service, _ *atomic.Bool, _ func()) {
			su.Store.OnOther = func() error { return store.ErrUnavailable }
			if _, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err == nil {
				t.Error("the target was deleted")
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var made *servertest.Setup
			s, on := away(t, func(su *servertest.Setup) {
				made = su
				su.Engine = struct{ store.Engine }{su.Store}
			})
			s.Recommend(t, kept(3, 30))
			s.Clock.Advance(time.Second)
			tt.during(t, made, s, on, func() {
				if _, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
					t.Error(err)
				}
			})
			on.Store(true)
			_, err := s.Recommendations.Recommend(t.Context(), kept(3, 50))
			if known := err == nil; known != tt.known {
				t.Errorf("in an outage after it the target is known: %v, want %v (%v)", known, tt.known, err)
			}
			on.Store(false)
			s.Clock.Advance(time.Second)
			s.Recommend(t, kept(3, 70))
			if got := replicas(history(t, s, servertest.Web)); !tt.known && !slices.Equal(got, []int32{3, 7}) {
				t.Errorf("recommended are %v, want those of a new target", got)
			}
		})
	}
}

// A decision that reads the store's clock in an outage, to decide whether a record is from
// the future, delays only that target.
func TestASlowStoreHoldsUpNoOtherTargetInAnOutage(t *testing.T) {
	t.Parallel()
	// Callers: the check of the store, at most once at a time, and the decision.
	asked, release := make(chan struct{}, 2), make(chan struct{})
	var slow atomic.Bool
	s, on := away(t, func(su *servertest.Setup) {
		now := su.Options.Clock
		su.Options.AllowEvaluationTime, su.Options.MaxClockSkew = false, time.Minute
		su.Store.OnTime = func() time.Time {
			if slow.Load() {
				select {
				case asked <- struct{}{}:
				default:
				}
				<-release // whatever the context says
			}
			return now()
		}
	})
	const other = "clusters/demo/namespaces/shop/targets/other"
	otherRequest := func() *setpointv1.RecommendRequest { return servertest.Queue(other, 3, 50) }
	s.Recommend(t, otherRequest())
	s.Clock.Advance(time.Hour)
	s.Recommend(t, kept(3, 30))
	on.Store(true)
	s.Recommend(t, kept(3, 30)) // the next one is decided without the store from the first
	s.Clock.Advance(-time.Hour) // now web's record is from the future
	slow.Store(true)
	answered := make(chan error, 1)
	go func() {
		_, err := s.Recommendations.Recommend(context.WithoutCancel(t.Context()), kept(3, 50))
		answered <- err
	}()
	<-asked
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := s.Recommendations.Recommend(ctx, otherRequest()); err != nil {
		t.Errorf("another target while the store is asked for its time: %v", err)
	}
	select {
	case err := <-answered:
		t.Errorf("the target that asks the store did not wait for it: %v", err)
	default:
	}
	slow.Store(false)
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	on.Store(false) // a stop waits for the store
}

// Decisions of one target that are made at once without the store build each on the last.
func TestDecisionsWithoutTheStoreBuildOnEachOther(t *testing.T) {
	t.Parallel()
	s, on := away(t, nil)
	s.Recommend(t, kept(3, 30))
	on.Store(true)
	s.Clock.Advance(time.Second)
	const calls = 8
	errs := make(chan error, calls)
	for i := range calls {
		go func() {
			_, err := s.Recommendations.Recommend(context.WithoutCancel(t.Context()), kept(3, int32(40+10*i)))
			errs <- err
		}()
	}
	for range calls {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	on.Store(false)
	s.Clock.Advance(time.Second)
	s.Recommend(t, kept(3, 30))
	if got, want := len(history(t, s, servertest.Web).Recommendations), 2+calls+1; got != want {
		t.Errorf("%d recommendations are recorded, want %d", got, want)
	}
}

// Requests of a batch for one target, too: each decides on what the one before it left, while
// the store is away and in the batch during which it goes.
func TestABatchForOneTargetWithoutTheStoreBuildsOnItself(t *testing.T) {
	t.Parallel()
	for _, goes := range []bool{false, true} {
		s, on := away(t, nil)
		s.Recommend(t, kept(3, 30))
		on.Store(!goes)
		if goes {
			s.Batch(t, kept(3, 40), kept(3, 45))
			on.Store(true)
		}
		for i := range 3 {
			s.Clock.Advance(time.Second)
			for n, item := range s.Batch(t, kept(3, int32(50+20*i)), kept(3, int32(60+20*i))) {
				if got, want := item.GetResponse().GetDesiredReplicas(), int32(5+2*i+n); got != want {
					t.Errorf("batch %d, request %d: %d replicas, want %d: %v", i, n, got, want, item.GetError())
				}
			}
		}
		on.Store(false)
		s.Clock.Advance(time.Second)
		s.Recommend(t, kept(3, 110))
		want := []int32{3, 3, 5, 6, 7, 8, 9, 10, 11}
		if goes {
			want = []int32{3, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11}
		}
		if got := replicas(history(t, s, servertest.Web)); !slices.Equal(got, want) {
			t.Errorf("recommended are %v, want %v", got, want)
		}
	}
}
