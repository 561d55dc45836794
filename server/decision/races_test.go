package decision_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestRacingCallersAreEachRecordedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		swap func(context.Context, store.Swap, servertest.SwapFunc) (store.SwapResult, error)
	}{
		{"with each other only", nil},
		{"with half of all races lost", servertest.Spuriously(2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const callers, rounds = 32, 4
			s := servertest.Start(t, func(su *servertest.Setup) {
				su.Store.OnSwap = tt.swap
				su.Options.MaxAttempts = 10_000
				su.Options.AnswerLimit, su.Options.AnswerBytes = callers*rounds, 1<<20
			})
			var mu sync.Mutex
			answers := map[string]*setpointv1.RecommendResponse{} // by request id
			var running sync.WaitGroup
			for caller := range callers {
				running.Go(func() {
					for round := range rounds {
						// Lengths that differ, so that no two recommendations are the same by accident.
						req := servertest.With(servertest.Queue(servertest.Web, 3, int32(30+caller)), servertest.WithID(fmt.Sprint(caller, ".", round)))
						resp, err := s.Recommendations.Recommend(t.Context(), req)
						if err != nil {
							t.Errorf("caller %d: %v", caller, err)
							return
						}
						mu.Lock()
						answers[req.GetRequestId()] = resp
						mu.Unlock()
					}
				})
			}
			running.Wait()
			target := s.Target(t, servertest.Web)
			if got, want := servertest.Recommendations(target), callers*rounds; got != want {
				t.Errorf("%d recommendations are recorded, want %d", got, want)
			}
			ids := map[string]bool{}
			for _, resp := range answers {
				ids[resp.GetRecommendationId()] = true
			}
			if len(ids) != callers*rounds {
				t.Errorf("there are %d distinct answers, want %d", len(ids), callers*rounds)
			}
			for _, d := range s.Decisions(t, servertest.Web) {
				if first := answers[d.GetRequestId()]; first.GetRecommendationId() != d.GetRecommendationId() {
					t.Errorf("request %s was answered by %s and logged as %s", d.GetRequestId(), first.GetRecommendationId(), d.GetRecommendationId())
				}
			}
			// Retries get the recorded response, and change nothing.
			for id, first := range answers {
				sameBytes(t, s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID(id))), first)
			}
			servertest.SameMessage(t, s.Target(t, servertest.Web), target)
		})
	}
}

// Racing retries of one request are one request.
func TestRacingRetriesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxAttempts = 10_000
		su.Store.OnSwap = servertest.Spuriously(3)
	})
	answers := make([]*setpointv1.RecommendResponse, 32)
	var running sync.WaitGroup
	for i := range answers {
		running.Go(func() {
			var err error
			if answers[i], err = s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("a"))); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	running.Wait()
	for _, resp := range answers[1:] {
		sameBytes(t, resp, answers[0])
	}
	if got := servertest.Recommendations(s.Target(t, servertest.Web)); got != 1 {
		t.Errorf("%d recommendations are recorded, want 1", got)
	}
}

// Callers that recommend and report at once: no change becomes two events, and no
// event is lost.
func TestRacingReportsMakeOneEvent(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxAttempts = 10_000
		su.Store.OnSwap = servertest.Spuriously(3)
	})
	replicas := int32(1)
	for range 8 {
		id := s.Recommend(t, servertest.Queue(servertest.Web, replicas, 20*replicas)).GetRecommendationId()
		var running sync.WaitGroup
		var events atomic.Int32
		for range 8 {
			running.Go(func() {
				resp, err := s.Recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: id, Outcome: "APPLIED"})
				if err != nil {
					t.Error(err)
					return
				}
				events.Add(int32(len(resp.GetEvents())))
			})
		}
		running.Wait()
		if events.Load() != 1 {
			t.Errorf("%d reports of 8 had an event, want 1", events.Load())
		}
		replicas *= 2
		s.Clock.Advance(time.Second)
	}
	total := int32(0)
	for _, e := range s.Target(t, servertest.Web).GetHistory().GetScaleUps() {
		total += e.GetReplicaChange()
	}
	if total != replicas-1 {
		t.Errorf("the scale-ups sum up to %d, want %d", total, replicas-1)
	}
}

// After a lost race the decision is made again on the winner's record: the result is as
// if one had come after the other.
func TestALostRaceIsDecidedOnWhatTheWinnerLeft(t *testing.T) {
	t.Parallel()
	winner, loser := servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("winner")), servertest.With(servertest.Queue(servertest.Web, 5, 50), servertest.WithID("loser"))
	var between func()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
			if step := between; step != nil {
				between = nil
				step()
			}
			return compareAndSwap(ctx, swap)
		}
	})
	var won *setpointv1.RecommendResponse
	between = func() { won = s.Recommend(t, winner) }
	lost := s.Recommend(t, loser)

	serial := servertest.Start(t)
	wantWon, wantLost := serial.Recommend(t, winner), serial.Recommend(t, loser)
	servertest.SameMessage(t, servertest.WithoutID(won), servertest.WithoutID(wantWon))
	servertest.SameMessage(t, servertest.WithoutID(lost), servertest.WithoutID(wantLost))
	if got := s.Target(t, servertest.Web).GetHistory().GetScaleUps(); len(got) != 1 {
		t.Errorf("scale-ups are %v, want the winner's change, applied by sight", got)
	}
	if !proto.Equal(s.Target(t, servertest.Web).GetStatus(), serial.Target(t, servertest.Web).GetStatus()) {
		t.Error("the status is not that of the serial order")
	}
}
