package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store"
)

// batch recommends for many and fails the test on an error.
func (s *service) batch(tb testing.TB, requests ...*setpointv1.RecommendRequest) []*setpointv1.BatchRecommendResult {
	tb.Helper()
	resp, err := s.recommendations.BatchRecommend(tb.Context(), &setpointv1.BatchRecommendRequest{Requests: requests})
	if err != nil {
		tb.Fatalf("BatchRecommend: %v", err)
	}
	if len(resp.GetResults()) != len(requests) {
		tb.Fatalf("got %d results of %d requests", len(resp.GetResults()), len(requests))
	}
	return resp.GetResults()
}

// mixed returns requests for a few targets in no order, each target's own ones at
// its own pace, and how each comes out: its code.
func mixed(n int) (requests []*setpointv1.RecommendRequest, want []codes.Code) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		req := queue(fmt.Sprintf("clusters/c%d/namespaces/n/targets/t%d", random.IntN(2), random.IntN(3)), 1+random.Int32N(9), random.Int32N(100))
		req.Explain = i%3 == 0
		code := codes.OK
		switch random.IntN(8) {
		case 0:
			req.Spec.MaxReplicas, code = -1, codes.InvalidArgument
		case 1:
			req.Target, code = "nowhere", codes.InvalidArgument
		case 2:
			req.DryRun = true
		case 3:
			req.RequestId = fmt.Sprint("again", random.IntN(2))
		case 4:
			req.Scale, req.ScaleError = nil, &setpointv1.ScaleError{Message: "away"}
		}
		requests, want = append(requests, req), append(want, code)
	}
	return requests, want
}

func TestABatchIsAnsweredInOrderAndBadItemsFailAlone(t *testing.T) {
	t.Parallel()
	s := start(t)
	results := s.batch(t,
		queue(web, 3, 50),
		queue("nowhere", 3, 50),
		queue(web+"2", 3, 70),
		with(queue(web+"3", 3, 50), func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 0 }),
		with(queue(web+"4", 3, 90), dryRun),
	)
	for i, want := range []int32{5, 0, 7, 0, 9} {
		if want == 0 {
			got := problemOf(results[i].GetError())
			wantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
			continue
		}
		if got := results[i].GetResponse().GetDesiredReplicas(); got != want {
			t.Errorf("result %d has %d replicas, want %d: %v", i, got, want, results[i])
		}
	}
	if got := problemOf(results[1].GetError()).fields; len(got) != 1 || got[0] != "target" {
		t.Errorf("result 1 has violations of %q, want the target", got)
	}
	if got := problemOf(results[3].GetError()).fields; len(got) != 1 || got[0] != "spec.maxReplicas" {
		t.Errorf("result 3 has violations of %q, want spec.maxReplicas", got)
	}
	s.target(t, web)
	s.target(t, web+"2")
	for _, name := range []string{web + "3", web + "4"} {
		s.ask(t, http.MethodGet, "/v1/"+name, nil).expect(t, http.StatusNotFound)
	}
}

func TestABatchOverRESTIsThatOverGRPC(t *testing.T) {
	t.Parallel()
	requests, _ := mixed(40)
	overGRPC := &setpointv1.BatchRecommendResponse{Results: start(t).batch(t, requests...)}
	overREST := &setpointv1.BatchRecommendResponse{}
	a := start(t).ask(t, http.MethodPost, "/v1/targets:batchRecommend", &setpointv1.BatchRecommendRequest{Requests: requests})
	a.expect(t, http.StatusOK)
	a.into(t, overREST)
	for _, resp := range []*setpointv1.BatchRecommendResponse{overREST, overGRPC} {
		for _, r := range resp.GetResults() {
			if r.GetResponse() != nil {
				r.GetResponse().RecommendationId = ""
			}
		}
	}
	sameMessage(t, overREST, overGRPC)
}

// A batch is what its requests are one after the other, also where each target
// comes up many times and every other race is lost.
func TestABatchEqualsTheSequenceOfItsRequests(t *testing.T) {
	t.Parallel()
	requests, want := mixed(120)
	alone := start(t)
	var sequence []*setpointv1.BatchRecommendResult
	for i, req := range requests {
		resp, err := alone.recommendations.Recommend(t.Context(), req)
		result := &setpointv1.BatchRecommendResult{Result: &setpointv1.BatchRecommendResult_Response{Response: resp}}
		p := rpcProblem(err)
		if p.code != want[i] {
			t.Fatalf("request %d: got %v, want %v", i, p.code, want[i])
		}
		if err != nil {
			result = nil
		}
		sequence = append(sequence, result)
	}
	for _, tt := range []struct {
		name string
		swap func(context.Context, store.Swap, swapFunc) (store.SwapResult, error)
	}{
		{"without races", nil},
		{"with half of all races lost", spuriously(2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(su *setup) { su.store.swap, su.options.MaxAttempts = tt.swap, 1000 })
			for i, got := range s.batch(t, requests...) {
				if sequence[i] == nil {
					if code := problemOf(got.GetError()).code; code != want[i] {
						t.Errorf("result %d is %v, want %v", i, code, want[i])
					}
					continue
				}
				sameMessage(t, withoutID(got.GetResponse()), withoutID(sequence[i].GetResponse()))
			}
			for _, cluster := range []string{"c0", "c1"} {
				for i := range 3 {
					name := fmt.Sprintf("clusters/%s/namespaces/n/targets/t%d", cluster, i)
					got, want := s.target(t, name), alone.target(t, name)
					if !proto.Equal(got.GetStatus(), want.GetStatus()) || recommendations(got) != recommendations(want) || len(s.decisions(t, name)) != len(alone.decisions(t, name)) {
						t.Errorf("%s was left otherwise than by the sequence:\n got %v\nwant %v", name, got, want)
					}
				}
			}
		})
	}
}

func TestRetriesWithinABatchGetTheRecordedAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	req := with(queue(web, 3, 50), withID("a"), explained)
	results := s.batch(t, req, queue(web, 3, 70), req)
	sameBytes(t, results[2].GetResponse(), results[0].GetResponse())
	if got := recommendations(s.target(t, web)); got != 2 {
		t.Errorf("%d recommendations are recorded, want 2", got)
	}
}

func TestAContendedTargetFailsAloneInABatch(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.options.MaxAttempts = 3
		su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
			if swap.Key.Target == "web" {
				swap.Old = "nobody's"
			}
			return compareAndSwap(ctx, swap)
		}
	})
	results := s.batch(t, queue(web, 3, 50), queue(web+"2", 3, 50), queue(web, 3, 60), queue(web+"2", 3, 60))
	for i, want := range []int32{0, 5, 0, 6} {
		if want == 0 {
			wantProblem(t, problemOf(results[i].GetError()), codes.Aborted, "TARGET_CONTENDED")
		} else if got := results[i].GetResponse().GetDesiredReplicas(); got != want {
			t.Errorf("result %d has %d replicas, want %d", i, got, want)
		}
	}
}

func TestAnUnreadableHistoryFailsAloneInABatch(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.put(t, web, []byte("rubbish"))
	results := s.batch(t, queue(web, 3, 50), queue(web+"2", 3, 50), queue(web, 3, 60))
	for _, i := range []int{0, 2} {
		wantProblem(t, problemOf(results[i].GetError()), codes.Internal, "HISTORY_UNREADABLE")
	}
	if got := results[1].GetResponse().GetDesiredReplicas(); got != 5 {
		t.Errorf("result 1 has %d replicas, want 5", got)
	}
}

func TestABatchWithoutRequestsHasNoResults(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.batch(t)
	body := s.ask(t, http.MethodPost, "/v1/targets:batchRecommend", "{}").expect(t, http.StatusOK)
	if got, ok := body["results"].([]any); !ok || len(got) != 0 {
		t.Errorf("results are %v, want an empty list", body["results"])
	}
}

func TestAStoreThatFailsMidBatchLosesNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	swaps := 0
	s := start(t, func(su *setup) {
		su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if swaps++; swaps == 2 {
				return store.SwapResult{}, store.ErrUnavailable
			}
			return compareAndSwap(ctx, swap)
		}
	})
	requests := []*setpointv1.RecommendRequest{with(queue(web, 3, 50), withID("a")), with(queue(web, 3, 60), withID("b")), with(queue(web, 3, 70), withID("c"))}
	first := s.batch(t, requests...)
	if first[0].GetResponse().GetDesiredReplicas() != 5 {
		t.Errorf("what was recorded is not answered: %v", first[0])
	}
	for _, i := range []int{1, 2} {
		wantProblem(t, problemOf(first[i].GetError()), codes.Unavailable, "STORE_UNAVAILABLE")
	}
	again := s.batch(t, requests...)
	sameBytes(t, again[0].GetResponse(), first[0].GetResponse())
	if got := recommendations(s.target(t, web)); got != 3 {
		t.Errorf("%d recommendations are recorded, want 3", got)
	}
}

// Batches that race on the same targets are recorded in full.
func TestRacingBatchesAreRecordedInFull(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxAttempts = 10_000 })
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for _, r := range s.batch(t, queue(web, 3, 50), queue(web+"2", 3, 50), queue(web, 3, 60)) {
				if r.GetError() != nil {
					t.Error(r.GetError())
				}
			}
		})
	}
	running.Wait()
	for name, want := range map[string]int{web: 16, web + "2": 8} {
		if got := recommendations(s.target(t, name)); got != want {
			t.Errorf("%s has %d recommendations, want %d", name, got, want)
		}
	}
}
