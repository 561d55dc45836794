package setpoint_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

// batches is a fake that answers each request of a batch with its replicas, or with the error
// from fail. It records the requests of each call.
func batches(calls *[]string, fail func(call int, target string) error) *fake {
	return &fake{batch: func(_ context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
		var names []string
		response := &setpointv1.BatchRecommendResponse{}
		for _, r := range req.GetRequests() {
			names = append(names, fmt.Sprintf("%s%d", r.GetTarget(), r.GetScale().GetSpecReplicas()))
			result := &setpointv1.BatchRecommendResult{}
			if err := fail(len(*calls)+1, names[len(names)-1]); err != nil {
				result.Result = &setpointv1.BatchRecommendResult_Error{Error: status.Convert(err).Proto()}
			} else {
				result.Result = &setpointv1.BatchRecommendResult_Response{Response: &setpointv1.RecommendResponse{
					DesiredReplicas: r.GetScale().GetSpecReplicas(), RecommendationId: r.GetRequestId(),
				}}
			}
			response.Results = append(response.Results, result)
		}
		*calls = append(*calls, strings.Join(names, " "))
		return response, nil
	}}
}

func TestBatches(t *testing.T) {
	away, contended := problem(codes.Unavailable), problem(codes.Aborted)
	bad := problem(codes.InvalidArgument)
	for _, tt := range []struct {
		name     string
		requests string
		options  []setpoint.Option
		fail     func(call int, request string) error
		calls    string
		results  string
	}{
		{"in one call if they fit", "a1 b2 c3", nil, nil, "a1 b2 c3", "OK OK OK"},
		{"none without requests", "", nil, nil, "", ""},
		{"in several calls, in order, if they are too many", "a1 b2 c3 a4 b5", []setpoint.Option{setpoint.WithMaxBatch(2)}, nil, "a1 b2, c3 a4, b5", "OK OK OK OK OK"},
		{"or too large", "a1 b2 c3 a4 b5", []setpoint.Option{setpoint.WithMaxMessageBytes(420, 1<<20)}, nil, "a1 b2, c3 a4, b5", "OK OK OK OK OK"},
		{
			"a bad one fails alone, once", "a1 b2 c3", nil,
			func(_ int, request string) error { return map[string]error{"b2": bad}[request] },
			"a1 b2 c3", "OK InvalidArgument OK",
		},
		{
			"what may pass is sent again, alone", "a1 b2 c3", nil,
			func(call int, request string) error {
				return map[string]error{"1b2": contended}[fmt.Sprint(call, request)]
			},
			"a1 b2 c3, b2", "OK OK OK",
		},
		{
			"in order", "a1 b2 a3", nil,
			func(call int, request string) error {
				return map[string]error{"1a1": away, "1a3": away, "2a3": away}[fmt.Sprint(call, request)]
			},
			"a1 b2 a3, a1 a3, a3", "OK OK OK",
		},
		{
			"but not if a later one of its target was answered", "a1 a2 b3", nil,
			func(call int, request string) error {
				return map[string]error{"1a1": away, "1b3": away}[fmt.Sprint(call, request)]
			},
			"a1 a2 b3, b3", "Unavailable OK OK",
		},
		{
			"no more often than a call", "a1 b2", nil,
			func(_ int, request string) error { return map[string]error{"a1": away}[request] },
			"a1 b2, a1, a1, a1", "Unavailable OK",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []string
				if tt.fail == nil {
					tt.fail = func(int, string) error { return nil }
				}
				client := batches(&calls, tt.fail).serve(t, two, tt.options...)
				var requests []*setpointv1.RecommendRequest
				for _, name := range strings.Fields(tt.requests) {
					requests = append(requests, queue(name[:1], int32(name[1]-'0'), 50))
				}
				ids := map[string]bool{}
				var results []string
				for i, result := range client.BatchRecommend(t.Context(), requests) {
					results = append(results, status.Code(result.Err).String())
					if result.Err != nil {
						continue
					}
					if got := result.Response.GetDesiredReplicas(); got != requests[i].GetScale().GetSpecReplicas() {
						t.Errorf("result %d is that of request %d", i, got)
					}
					if id := result.Response.GetRecommendationId(); id == "" || ids[id] {
						t.Errorf("result %d has the request id %q", i, id)
					} else {
						ids[id] = true
					}
				}
				if got := strings.Join(results, " "); got != tt.results {
					t.Errorf("results are %s, want %s", got, tt.results)
				}
				if got := strings.Join(calls, ", "); got != tt.calls {
					t.Errorf("calls are %s, want %s", got, tt.calls)
				}
			})
		})
	}
}

func TestABatchThatCannotBeSentFailsAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		f := &fake{batch: func(context.Context, *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
			attempts++
			return nil, problem(codes.Unavailable)
		}}
		client := f.serve(t, two)
		for _, result := range client.BatchRecommend(t.Context(), []*setpointv1.RecommendRequest{queue("a", 1, 50), queue("b", 1, 50)}) {
			wantCode(t, result.Err, codes.Unavailable)
		}
		// Retries of the call and of its requests do not multiply.
		if attempts != 4 || time.Since(f.begun) != 700*ms {
			t.Errorf("%d attempts took %v", attempts, time.Since(f.begun))
		}
	})
}

func TestABatchWithTooFewResultsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{batch: func(context.Context, *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
			return &setpointv1.BatchRecommendResponse{Results: []*setpointv1.BatchRecommendResult{{}}}, nil
		}}
		client := f.serve(t, two)
		for n := range 3 {
			requests := []*setpointv1.RecommendRequest{queue("a", 1, 50), queue("b", 1, 50)}[:n]
			for _, result := range client.BatchRecommend(t.Context(), requests) {
				wantCode(t, result.Err, codes.Internal)
			}
		}
	})
}

// If one answer occurs twice, it is unknown which target it belongs to. For the same target it
// is a repeated answer.
func TestABatchThatIsMixedUp(t *testing.T) {
	t.Parallel()
	f := &fake{batch: func(_ context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
		response := &setpointv1.BatchRecommendResponse{}
		for _, id := range []string{"1", "2", "1", "3", "3", "", ""} {
			response.Results = append(response.Results, &setpointv1.BatchRecommendResult{Result: &setpointv1.BatchRecommendResult_Response{
				Response: &setpointv1.RecommendResponse{RecommendationId: id},
			}})
		}
		return response, nil
	}}
	var requests []*setpointv1.RecommendRequest
	for _, target := range []string{"a", "b", "c", "d", "d", "e", "f"} {
		requests = append(requests, queue(target, 1, 10))
	}
	synctest.Test(t, func(t *testing.T) {
		client := f.serve(t, two)
		var codesOf []string
		for _, r := range client.BatchRecommend(t.Context(), requests) {
			codesOf = append(codesOf, status.Code(r.Err).String())
		}
		if got, want := strings.Join(codesOf, " "), "Internal OK Internal OK OK OK OK"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Two answers are swapped, which their request ids reveal.
func TestABatchWhoseAnswersAreSwapped(t *testing.T) {
	t.Parallel()
	f := &fake{batch: func(_ context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
		response := &setpointv1.BatchRecommendResponse{}
		for i, r := range req.GetRequests() {
			answer := &setpointv1.RecommendResponse{RecommendationId: fmt.Sprint(i), RequestId: new(r.GetRequestId())}
			if r.GetRequestId() == "" {
				answer.RequestId = nil
			}
			response.Results = append(response.Results, &setpointv1.BatchRecommendResult{Result: &setpointv1.BatchRecommendResult_Response{Response: answer}})
		}
		results := response.GetResults()
		results[1], results[2] = results[2], results[1]
		return response, nil
	}}
	for _, tt := range []struct {
		name   string
		change func(*setpointv1.RecommendRequest)
		want   string
	}{
		{"with ids of the client's", func(*setpointv1.RecommendRequest) {}, "OK Internal Internal OK"},
		{"with ids of the caller's", func(r *setpointv1.RecommendRequest) { r.RequestId = "of " + r.GetTarget() }, "OK Internal Internal OK"},
		{"without ids, of dry runs", func(r *setpointv1.RecommendRequest) { r.DryRun = true }, "OK OK OK OK"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests []*setpointv1.RecommendRequest
				for _, target := range []string{"a", "b", "c", "d"} {
					r := queue(target, 1, 10)
					tt.change(r)
					requests = append(requests, r)
				}
				var codesOf []string
				for _, r := range f.serve(t, two).BatchRecommend(t.Context(), requests) {
					codesOf = append(codesOf, status.Code(r.Err).String())
				}
				if got := strings.Join(codesOf, " "); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}
