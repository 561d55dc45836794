package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store"
)

// spuriously loses races without a winner: in one swap of n another caller writes
// first, either the same value, or a deletion and creation.
func spuriously(n int) func(context.Context, store.Swap, swapFunc) (store.SwapResult, error) {
	return func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
		if rand.IntN(n) == 0 && swap.Old != "" {
			// A version that never existed, so that the store returns the current
			// record.
			swap.Old = "nobody's"
		}
		return compareAndSwap(ctx, swap)
	}
}

func TestRacingCallersAreEachRecordedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		swap func(context.Context, store.Swap, swapFunc) (store.SwapResult, error)
	}{
		{"with each other only", nil},
		{"with half of all races lost", spuriously(2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const callers, rounds = 32, 4
			s := start(t, func(su *setup) {
				su.store.swap = tt.swap
				su.options.MaxAttempts = 10_000
				su.options.AnswerLimit, su.options.AnswerBytes = callers*rounds, 1<<20
			})
			var mu sync.Mutex
			answers := map[string]*setpointv1.RecommendResponse{} // by request id
			var running sync.WaitGroup
			for caller := range callers {
				running.Go(func() {
					for round := range rounds {
						// Lengths that differ, so that no two recommendations are the same by accident.
						req := with(queue(web, 3, int32(30+caller)), withID(fmt.Sprint(caller, ".", round)))
						resp, err := s.recommendations.Recommend(t.Context(), req)
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
			target := s.target(t, web)
			if got, want := recommendations(target), callers*rounds; got != want {
				t.Errorf("%d recommendations are recorded, want %d", got, want)
			}
			ids := map[string]bool{}
			for _, resp := range answers {
				ids[resp.GetRecommendationId()] = true
			}
			if len(ids) != callers*rounds {
				t.Errorf("there are %d distinct answers, want %d", len(ids), callers*rounds)
			}
			for _, d := range s.decisions(t, web) {
				if first := answers[d.GetRequestId()]; first.GetRecommendationId() != d.GetRecommendationId() {
					t.Errorf("request %s was answered by %s and logged as %s", d.GetRequestId(), first.GetRecommendationId(), d.GetRecommendationId())
				}
			}
			// Retries get the recorded response, and change nothing.
			for id, first := range answers {
				sameBytes(t, s.recommend(t, with(queue(web, 3, 30), withID(id))), first)
			}
			sameMessage(t, s.target(t, web), target)
		})
	}
}

// Racing retries of one request are one request.
func TestRacingRetriesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.options.MaxAttempts = 10_000
		su.store.swap = spuriously(3)
	})
	answers := make([]*setpointv1.RecommendResponse, 32)
	var running sync.WaitGroup
	for i := range answers {
		running.Go(func() {
			var err error
			if answers[i], err = s.recommendations.Recommend(t.Context(), with(queue(web, 3, 50), withID("a"))); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	running.Wait()
	for _, resp := range answers[1:] {
		sameBytes(t, resp, answers[0])
	}
	if got := recommendations(s.target(t, web)); got != 1 {
		t.Errorf("%d recommendations are recorded, want 1", got)
	}
}

// Callers that recommend and report at once: no change becomes two events, and no
// event is lost.
func TestRacingReportsMakeOneEvent(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.options.MaxAttempts = 10_000
		su.store.swap = spuriously(3)
	})
	replicas := int32(1)
	for range 8 {
		id := s.recommend(t, queue(web, replicas, 20*replicas)).GetRecommendationId()
		var running sync.WaitGroup
		var events atomic.Int32
		for range 8 {
			running.Go(func() {
				resp, err := s.recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: web, RecommendationId: id, Outcome: "APPLIED"})
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
		s.clock.Advance(time.Second)
	}
	total := int32(0)
	for _, e := range s.target(t, web).GetHistory().GetScaleUps() {
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
	winner, loser := with(queue(web, 3, 50), withID("winner")), with(queue(web, 5, 50), withID("loser"))
	var between func()
	s := start(t, func(su *setup) {
		su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
			if step := between; step != nil {
				between = nil
				step()
			}
			return compareAndSwap(ctx, swap)
		}
	})
	var won *setpointv1.RecommendResponse
	between = func() { won = s.recommend(t, winner) }
	lost := s.recommend(t, loser)

	serial := start(t)
	wantWon, wantLost := serial.recommend(t, winner), serial.recommend(t, loser)
	sameMessage(t, withoutID(won), withoutID(wantWon))
	sameMessage(t, withoutID(lost), withoutID(wantLost))
	if got := s.target(t, web).GetHistory().GetScaleUps(); len(got) != 1 {
		t.Errorf("scale-ups are %v, want the winner's change, applied by sight", got)
	}
	if !proto.Equal(s.target(t, web).GetStatus(), serial.target(t, web).GetStatus()) {
		t.Error("the status is not that of the serial order")
	}
}
