package decision_test

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
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// mixed returns requests for a few targets in no order, each target's own ones at
// its own pace, and how each comes out: its code.
func mixed(n int) (requests []*setpointv1.RecommendRequest, want []codes.Code) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		req := servertest.Queue(fmt.Sprintf("clusters/c%d/namespaces/n/targets/t%d", random.IntN(2), random.IntN(3)), 1+random.Int32N(9), random.Int32N(100))
		req.Explain = i%3 == 0
		req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(600 * (i % 2)))
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
	s := servertest.Start(t)
	results := s.Batch(t,
		servertest.Queue(servertest.Web, 3, 50),
		servertest.Queue("nowhere", 3, 50),
		servertest.Queue(servertest.Web+"2", 3, 70),
		servertest.With(servertest.Queue(servertest.Web+"3", 3, 50), func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 0 }),
		servertest.With(servertest.Queue(servertest.Web+"4", 3, 90), servertest.DryRun),
	)
	for i, want := range []int32{5, 0, 7, 0, 9} {
		if want == 0 {
			got := servertest.ProblemOf(results[i].GetError())
			servertest.WantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
			continue
		}
		if got := results[i].GetResponse().GetDesiredReplicas(); got != want {
			t.Errorf("result %d has %d replicas, want %d: %v", i, got, want, results[i])
		}
	}
	if got := servertest.ProblemOf(results[1].GetError()).Fields; len(got) != 1 || got[0] != "target" {
		t.Errorf("result 1 has violations of %q, want the target", got)
	}
	if got := servertest.ProblemOf(results[3].GetError()).Fields; len(got) != 1 || got[0] != "spec.maxReplicas" {
		t.Errorf("result 3 has violations of %q, want spec.maxReplicas", got)
	}
	s.Target(t, servertest.Web)
	s.Target(t, servertest.Web+"2")
	for _, name := range []string{servertest.Web + "3", servertest.Web + "4"} {
		s.Ask(t, http.MethodGet, "/v1/"+name, nil).Expect(t, http.StatusNotFound)
	}
}

func TestABatchOverRESTIsThatOverGRPC(t *testing.T) {
	t.Parallel()
	requests, _ := mixed(40)
	overGRPC := &setpointv1.BatchRecommendResponse{Results: servertest.Start(t).Batch(t, requests...)}
	overREST := &setpointv1.BatchRecommendResponse{}
	a := servertest.Start(t).Ask(t, http.MethodPost, "/v1/targets:batchRecommend", &setpointv1.BatchRecommendRequest{Requests: requests})
	a.Expect(t, http.StatusOK)
	a.Into(t, overREST)
	for _, resp := range []*setpointv1.BatchRecommendResponse{overREST, overGRPC} {
		for _, r := range resp.GetResults() {
			if r.GetResponse() != nil {
				r.GetResponse().RecommendationId = ""
			}
		}
	}
	servertest.SameMessage(t, overREST, overGRPC)
}

// A batch is what its requests are one after the other, also where each target
// comes up many times and every other race is lost.
func TestABatchEqualsTheSequenceOfItsRequests(t *testing.T) {
	t.Parallel()
	requests, want := mixed(120)
	alone := servertest.Start(t)
	var sequence []*setpointv1.BatchRecommendResult
	for i, req := range requests {
		resp, err := alone.Recommendations.Recommend(t.Context(), req)
		result := &setpointv1.BatchRecommendResult{Result: &setpointv1.BatchRecommendResult_Response{Response: resp}}
		p := servertest.RPCProblem(err)
		if p.Code != want[i] {
			t.Fatalf("request %d: got %v, want %v", i, p.Code, want[i])
		}
		if err != nil {
			result = nil
		}
		sequence = append(sequence, result)
	}
	for _, tt := range []struct {
		name string
		swap func(context.Context, store.Swap, servertest.SwapFunc) (store.SwapResult, error)
	}{
		{"without races", nil},
		{"with half of all races lost", servertest.Spuriously(2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) { su.Store.OnSwap, su.Options.MaxAttempts = tt.swap, 1000 })
			for i, got := range s.Batch(t, requests...) {
				if sequence[i] == nil {
					if code := servertest.ProblemOf(got.GetError()).Code; code != want[i] {
						t.Errorf("result %d is %v, want %v", i, code, want[i])
					}
					continue
				}
				servertest.SameMessage(t, servertest.WithoutID(got.GetResponse()), servertest.WithoutID(sequence[i].GetResponse()))
			}
			for _, cluster := range []string{"c0", "c1"} {
				for i := range 3 {
					name := fmt.Sprintf("clusters/%s/namespaces/n/targets/t%d", cluster, i)
					got, want := s.Target(t, name), alone.Target(t, name)
					if !proto.Equal(got.GetStatus(), want.GetStatus()) || servertest.Recommendations(got) != servertest.Recommendations(want) || len(s.Decisions(t, name)) != len(alone.Decisions(t, name)) {
						t.Errorf("%s was left otherwise than by the sequence:\n got %v\nwant %v", name, got, want)
					}
				}
			}
		})
	}
}

func TestRetriesWithinABatchGetTheRecordedAnswer(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("a"), servertest.Explained)
	results := s.Batch(t, req, servertest.Queue(servertest.Web, 3, 70), req)
	sameBytes(t, results[2].GetResponse(), results[0].GetResponse())
	if got := servertest.Recommendations(s.Target(t, servertest.Web)); got != 2 {
		t.Errorf("%d recommendations are recorded, want 2", got)
	}
}

func TestAContendedTargetFailsAloneInABatch(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxAttempts = 3
		su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
			if swap.Key.Target == "web" {
				swap.Old = "nobody's"
			}
			return compareAndSwap(ctx, swap)
		}
	})
	results := s.Batch(t, servertest.Queue(servertest.Web, 3, 50), servertest.Queue(servertest.Web+"2", 3, 50), servertest.Queue(servertest.Web, 3, 60), servertest.Queue(servertest.Web+"2", 3, 60))
	for i, want := range []int32{0, 5, 0, 6} {
		if want == 0 {
			servertest.WantProblem(t, servertest.ProblemOf(results[i].GetError()), codes.Aborted, "TARGET_CONTENDED")
		} else if got := results[i].GetResponse().GetDesiredReplicas(); got != want {
			t.Errorf("result %d has %d replicas, want %d", i, got, want)
		}
	}
}

func TestAnUnreadableHistoryFailsAloneInABatch(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Put(t, servertest.Web, []byte("rubbish"))
	results := s.Batch(t, servertest.Queue(servertest.Web, 3, 50), servertest.Queue(servertest.Web+"2", 3, 50), servertest.Queue(servertest.Web, 3, 60))
	for _, i := range []int{0, 2} {
		servertest.WantProblem(t, servertest.ProblemOf(results[i].GetError()), codes.Internal, "HISTORY_UNREADABLE")
	}
	if got := results[1].GetResponse().GetDesiredReplicas(); got != 5 {
		t.Errorf("result 1 has %d replicas, want 5", got)
	}
}

func TestABatchWithoutRequestsHasNoResults(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Batch(t)
	body := s.Ask(t, http.MethodPost, "/v1/targets:batchRecommend", "{}").Expect(t, http.StatusOK)
	if got, ok := body["results"].([]any); !ok || len(got) != 0 {
		t.Errorf("results are %v, want an empty list", body["results"])
	}
}

func TestAStoreThatFailsMidBatchLosesNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	swaps := 0
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if swaps++; swaps == 2 {
				return store.SwapResult{}, store.ErrUnavailable
			}
			return compareAndSwap(ctx, swap)
		}
	})
	requests := []*setpointv1.RecommendRequest{servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("a")), servertest.With(servertest.Queue(servertest.Web, 3, 60), servertest.WithID("b")), servertest.With(servertest.Queue(servertest.Web, 3, 70), servertest.WithID("c"))}
	first := s.Batch(t, requests...)
	if first[0].GetResponse().GetDesiredReplicas() != 5 {
		t.Errorf("what was recorded is not answered: %v", first[0])
	}
	for _, i := range []int{1, 2} {
		servertest.WantProblem(t, servertest.ProblemOf(first[i].GetError()), codes.Unavailable, "STORE_UNAVAILABLE")
	}
	again := s.Batch(t, requests...)
	sameBytes(t, again[0].GetResponse(), first[0].GetResponse())
	if got := servertest.Recommendations(s.Target(t, servertest.Web)); got != 3 {
		t.Errorf("%d recommendations are recorded, want 3", got)
	}
}

// Batches that race on the same targets are recorded in full.
func TestRacingBatchesAreRecordedInFull(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxAttempts = 10_000 })
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for _, r := range s.Batch(t, servertest.Queue(servertest.Web, 3, 50), servertest.Queue(servertest.Web+"2", 3, 50), servertest.Queue(servertest.Web, 3, 60)) {
				if r.GetError() != nil {
					t.Error(r.GetError())
				}
			}
		})
	}
	running.Wait()
	for name, want := range map[string]int{servertest.Web: 16, servertest.Web + "2": 8} {
		if got := servertest.Recommendations(s.Target(t, name)); got != want {
			t.Errorf("%s has %d recommendations, want %d", name, got, want)
		}
	}
}
