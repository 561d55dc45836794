package setpoint_test

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const ms = time.Millisecond

// failing answers each attempt with the error.
func failing(err error) func(context.Context, *fakeCall) (*setpointv1.RecommendResponse, error) {
	return func(context.Context, *fakeCall) (*setpointv1.RecommendResponse, error) { return nil, err }
}

func wantTimes(tb testing.TB, f *fake, want ...time.Duration) {
	tb.Helper()
	if got := f.times(); !slices.Equal(got, want) {
		tb.Errorf("attempts came after %v, want %v", got, want)
	}
}

func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want []time.Duration
	}{
		{"what is unavailable is tried again, after delays that double", problem(codes.Unavailable), []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}},
		{"a target that others changed is tried again", problem(codes.Aborted), []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}},
		{"a server that ran out of its own time is tried again", problem(codes.DeadlineExceeded), []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}},
		{"a server that says when to come back is waited for", problem(codes.ResourceExhausted, comeBack(time.Second)), []time.Duration{0, 1100 * ms, 2300 * ms, 3700 * ms}},
		{"also one that is unavailable", problem(codes.Unavailable, comeBack(time.Second)), []time.Duration{0, 1100 * ms, 2300 * ms, 3700 * ms}},
		{"one that wants a negative delay is not", problem(codes.Unavailable, comeBack(-time.Second)), []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}},
		{"over a limit that waiting does not lift once is enough", problem(codes.ResourceExhausted), []time.Duration{0}},
		{"a bad request is sent once", problem(codes.InvalidArgument), []time.Duration{0}},
		{"even if it says when to come back", problem(codes.InvalidArgument, comeBack(time.Second)), []time.Duration{0}},
		{"no credentials", problem(codes.Unauthenticated), []time.Duration{0}},
		{"credentials for something else", problem(codes.PermissionDenied), []time.Duration{0}},
		{"nothing there", problem(codes.NotFound), []time.Duration{0}},
		{"too late", problem(codes.FailedPrecondition), []time.Duration{0}},
		{"the server's own fault", problem(codes.Internal), []time.Duration{0}},
		{"not known to the server", problem(codes.Unimplemented), []time.Duration{0}},
		{"cancelled by the server", problem(codes.Canceled), []time.Duration{0}},
		{"of no known kind", problem(codes.Unknown), []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{recommend: failing(tt.err)}
				_, err := f.serve(t, two).Recommend(t.Context(), queue(web, 3, 50))
				if err == nil || err.Error() != tt.err.Error() {
					t.Errorf("got %v, want the last attempt's error", err)
				}
				wantTimes(t, f, tt.want...)
			})
		})
	}
}

func TestDelaysGrowUpToTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{recommend: failing(problem(codes.Unavailable))}
		client := f.serve(t, two, setpoint.WithRetry(setpoint.Retry{MaxAttempts: 7, BaseDelay: 10 * ms, MaxDelay: 50 * ms}))
		_, err := client.Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, codes.Unavailable)
		wantTimes(t, f, 0, 10*ms, 30*ms, 70*ms, 120*ms, 170*ms, 220*ms)
	})
}

// Callers that fail together must not retry together.
func TestDelaysAreDrawnFromTheWholeRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{recommend: failing(problem(codes.Unavailable))}
		client := f.serve(t, two)
		var most []time.Duration
		client.SetRandom(func(d time.Duration) time.Duration {
			most = append(most, d)
			return d / time.Duration(len(most)+1)
		})
		_, err := client.Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, codes.Unavailable)
		if want := []time.Duration{100 * ms, 200 * ms, 400 * ms}; !slices.Equal(most, want) {
			t.Errorf("drawn up to %v, want %v", most, want)
		}
		wantTimes(t, f, 0, 50*ms, 50*ms+200*ms/3, 50*ms+200*ms/3+100*ms)
	})
}

func TestDelays(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		err     error
		want    []time.Duration
		took    time.Duration
	}{
		{"one beyond the deadline is not waited for", 250 * ms, problem(codes.Unavailable), []time.Duration{0, 100 * ms}, 100 * ms},
		{"not even if the server asks for it", time.Second, problem(codes.ResourceExhausted, comeBack(time.Minute)), []time.Duration{0}, 0},
		{"nor if it asks for ever", time.Second, problem(codes.ResourceExhausted, comeBack(math.MaxInt64)), []time.Duration{0}, 0},
		{"within the deadline they are", 350 * ms, problem(codes.Unavailable), []time.Duration{0, 100 * ms, 300 * ms}, 300 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{recommend: failing(tt.err)}
				client := f.serve(t, two)
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				_, err := client.Recommend(ctx, queue(web, 3, 50))
				if err == nil || err.Error() != tt.err.Error() {
					t.Errorf("got %v, want the error that there was", err)
				}
				if took := time.Since(f.begun); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				wantTimes(t, f, tt.want...)
			})
		})
	}
}

func TestACallerThatLeavesIsNotTriedFor(t *testing.T) {
	for name, leave := range map[string]func(context.CancelFunc, *setpoint.Client){
		"its call":   func(cancel context.CancelFunc, _ *setpoint.Client) { cancel() },
		"its client": func(_ context.CancelFunc, client *setpoint.Client) { _ = client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				away := problem(codes.Unavailable, comeBack(time.Second))
				f := &fake{recommend: failing(away), batch: func(context.Context, *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
					return &setpointv1.BatchRecommendResponse{Results: []*setpointv1.BatchRecommendResult{{
						Result: &setpointv1.BatchRecommendResult_Error{Error: status.Convert(away).Proto()},
					}}}, nil
				}}
				client := f.serve(t, two)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(500*ms, func() { leave(cancel, client) })
				var alone sync.WaitGroup
				alone.Go(func() {
					if _, err := client.Recommend(ctx, queue(web, 3, 50)); err == nil {
						t.Error("got an answer")
					}
				})
				if err := client.BatchRecommend(ctx, []*setpointv1.RecommendRequest{queue(web, 3, 50)})[0].Err; err == nil {
					t.Error("got an answer in a batch")
				}
				alone.Wait()
				if took := time.Since(f.begun); took != 500*ms {
					t.Errorf("it took %v, want until the caller left", took)
				}
				wantTimes(t, f, 0)
			})
		})
	}
}

func TestAttemptsOfOneCallHaveOneRequestID(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*setpointv1.RecommendRequest)
		want   func(id string) bool
	}{
		{"without one it gets one", func(*setpointv1.RecommendRequest) {}, func(id string) bool { return len(id) == 36 }},
		{"the caller's own stays", func(r *setpointv1.RecommendRequest) { r.RequestId = "mine" }, func(id string) bool { return id == "mine" }},
		{"a dry run needs none", func(r *setpointv1.RecommendRequest) { r.DryRun = true }, func(id string) bool { return id == "" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{recommend: failing(problem(codes.Unavailable))}
				client := f.serve(t, two)
				req := queue(web, 3, 50)
				tt.change(req)
				before := proto.CloneOf(req)
				for range 2 {
					_, err := client.Recommend(t.Context(), req)
					wantCode(t, err, codes.Unavailable)
				}
				ids := map[string]int{}
				for _, call := range f.calls {
					ids[call.req.GetRequestId()]++
					if !tt.want(call.req.GetRequestId()) {
						t.Errorf("the id is %q", call.req.GetRequestId())
					}
					if call.req.RequestId = req.GetRequestId(); !proto.Equal(call.req, req) {
						t.Errorf("sent %v, want %v", call.req, req)
					}
				}
				for id, n := range ids {
					if n%4 != 0 {
						t.Errorf("%d attempts have the id %q", n, id)
					}
				}
				if req.GetRequestId() == "" && !req.GetDryRun() && len(ids) != 2 {
					t.Errorf("two calls have the ids %v", ids)
				}
				if !proto.Equal(req, before) {
					t.Errorf("the caller's request became %v", req)
				}
			})
		})
	}
}

// A retry must not use the next connection in turn, because other calls may have moved the turn
// back to the failed one.
func TestAttemptsGoToDifferentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		three := []string{"a:1", "b:1", "c:1"}
		f := &fake{recommend: failing(problem(codes.Unavailable))}
		client := f.serve(t, three, setpoint.WithRetry(setpoint.Retry{MaxAttempts: 3, BudgetReserve: 10000}))
		connect(t, client, f, 3)
		client.SetRandom(rand.N[time.Duration])
		var asking sync.WaitGroup
		for range 100 {
			asking.Go(func() {
				if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); status.Code(err) != codes.Unavailable {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		servers := map[string]map[string]bool{}
		for _, call := range f.calls {
			id := call.req.GetRequestId()
			if servers[id] == nil {
				servers[id] = map[string]bool{}
			}
			servers[id][call.server] = true
		}
		for id, used := range servers {
			if len(used) != 3 {
				t.Errorf("the attempts of call %s went to %v", id, used)
			}
		}
	})
}

func TestCallsAreSpreadOverAllAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		client := f.serve(t, []string{"a:1", "b:1", "c:1"})
		connect(t, client, f, 3)
		f.recommend = func(context.Context, *fakeCall) (*setpointv1.RecommendResponse, error) {
			return &setpointv1.RecommendResponse{}, nil
		}
		for range 30 {
			if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
				t.Fatal(err)
			}
		}
		servers := map[string]int{}
		for _, call := range f.calls {
			servers[call.server]++
		}
		if servers["a:1"] != 10 || servers["b:1"] != 10 || servers["c:1"] != 10 {
			t.Errorf("calls went to %v", servers)
		}
	})
}

// silentOn leaves attempts on some servers unanswered and answers those on others.
func silentOn(silent func(call *fakeCall) bool) func(context.Context, *fakeCall) (*setpointv1.RecommendResponse, error) {
	return func(ctx context.Context, call *fakeCall) (*setpointv1.RecommendResponse, error) {
		if silent(call) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &setpointv1.RecommendResponse{DesiredReplicas: int32(call.number)}, nil
	}
}

func TestAnAttemptThatIsSilentIsTriedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{recommend: silentOn(func(call *fakeCall) bool { return call.number == 1 })}
		client := f.serve(t, two)
		connect(t, client, f, 2)
		answer, err := client.Recommend(t.Context(), queue(web, 3, 50))
		if err != nil || answer.GetDesiredReplicas() != 2 {
			t.Fatalf("got %v, %v, want the second attempt's answer", answer, err)
		}
		wantTimes(t, f, 0, 4100*ms)
		if f.calls[0].server == f.calls[1].server {
			t.Error("both attempts went to one server")
		}
	})
}

// What a server said is not lost because the last attempt heard nothing, whatever the kind of call.
func TestACallThatRunsOutOfTimeTellsWhatItWasTold(t *testing.T) {
	const late, told = "context deadline exceeded", "; an earlier attempt: as the test wants it"
	streamed := func(ctx context.Context, client *setpoint.Client) error {
		_, err := client.Stream(0).Recommend(ctx, queue(web, 3, 50))
		return err
	}
	watched := func(ctx context.Context, client *setpoint.Client) (last error) {
		for _, err := range client.WatchDecisions(ctx, &setpointv1.WatchDecisionsRequest{Parent: everything}, nil) {
			last = err
		}
		return last
	}
	batched := func(ctx context.Context, client *setpoint.Client) error {
		return client.BatchRecommend(ctx, []*setpointv1.RecommendRequest{queue(web, 3, 50)})[0].Err
	}
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		// fails is the attempt that fails; the others hang. On a stream that does not fail the first request does.
		fails int64
		call  func(context.Context, *setpoint.Client) error
		want  string
	}{
		{"one request", time.Hour, 2, func(ctx context.Context, client *setpoint.Client) error {
			_, err := client.Recommend(ctx, queue(web, 3, 50))
			return err
		}, late + told},
		{"a batch", 3 * time.Second, 1, batched, late + told},
		{"a request that failed on a stream", 3 * time.Second, 0, streamed, late + told},
		{"a batch that was told nothing", 3 * time.Second, 0, batched, late},
		{"a stream until the caller leaves", 3 * time.Second, 1, streamed, late + told},
		{"a stream that is silent", time.Hour, 1, streamed, "the server did not answer in time on a stream" + told},
		{"a watch until the caller leaves", 3 * time.Second, 1, watched, late + told},
		{"a watch that is silent", time.Hour, 2, watched, "the server gave no sign of life in time on a watch" + told},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64 // two servers' handlers overlap
				attempt := func(ctx context.Context) error {
					if n.Add(1) == tt.fails {
						return problem(codes.Unavailable)
					}
					<-ctx.Done()
					return ctx.Err()
				}
				f := &fake{
					recommend: func(ctx context.Context, _ *fakeCall) (*setpointv1.RecommendResponse, error) {
						return nil, attempt(ctx)
					},
					batch: func(ctx context.Context, _ *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
						one := &setpointv1.BatchRecommendResult{Result: &setpointv1.BatchRecommendResult_Error{Error: status.Convert(attempt(ctx)).Proto()}}
						return &setpointv1.BatchRecommendResponse{Results: []*setpointv1.BatchRecommendResult{one}}, ctx.Err()
					},
					stream: func(stream recommendStream) error {
						if tt.fails == 0 {
							asked, err := received(stream, 1)
							if err != nil {
								return err
							}
							failed := &setpointv1.StreamRecommendResponse_Error{Error: status.Convert(problem(codes.Aborted)).Proto()}
							if err := stream.Send(&setpointv1.StreamRecommendResponse{Id: asked[0].GetId(), Result: failed}); err != nil {
								return err
							}
						}
						return attempt(stream.Context())
					},
					watch: func(_ *setpointv1.WatchDecisionsRequest, stream watchStream) error { return attempt(stream.Context()) },
				}
				client := f.serve(t, two, setpoint.WithTimeout(0))
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				got := status.Convert(tt.call(ctx, client)).Message()
				// The server's timer may come first.
				if got = strings.Replace(got, "stream terminated by RST_STREAM with error code: CANCEL", late, 1); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []setpoint.Option
		own     time.Duration
		want    time.Duration
	}{
		{"a call without a deadline ends after ten seconds", nil, 0, 10 * time.Second},
		{"or after what the option says", []setpoint.Option{setpoint.WithTimeout(time.Minute)}, 0, time.Minute},
		{"a deadline of its own wins", nil, time.Second, time.Second},
		{"also a later one", nil, time.Hour, time.Hour},
		{"without a timeout nothing bounds it but that", []setpoint.Option{setpoint.WithTimeout(0)}, time.Hour, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{recommend: silentOn(func(*fakeCall) bool { return true })}
				client := f.serve(t, two, append(tt.options, setpoint.WithRetry(setpoint.Retry{AttemptTimeout: -1}))...)
				ctx := t.Context()
				if tt.own > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.own)
					defer cancel()
				}
				_, err := client.Recommend(ctx, queue(web, 3, 50))
				wantCode(t, err, codes.DeadlineExceeded)
				if took := time.Since(f.begun); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
				wantTimes(t, f, 0)
			})
		})
	}
}

// Retries must not multiply the load of a failing service.
func TestTheBudgetBoundsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{recommend: failing(problem(codes.Unavailable))}
		client := f.serve(t, two, setpoint.WithRetry(setpoint.Retry{BudgetReserve: 10, BudgetRatio: 0.5}))
		attempts := func(calls int) int {
			before := len(f.times())
			for range calls {
				_, err := client.Recommend(t.Context(), queue(web, 3, 50))
				wantCode(t, err, codes.Unavailable)
			}
			return len(f.times()) - before
		}
		// Each of the first calls makes three retries, until the reserve of ten and the calls'
		// deposits are used up; then every second call makes one.
		if got := attempts(20); got != 20+10+9 {
			t.Errorf("20 calls made %d attempts, want 39", got)
		}
		if got := attempts(100); got != 150 {
			t.Errorf("100 more calls made %d attempts, want 150", got)
		}
	})
}

func TestADeletion(t *testing.T) {
	for _, tt := range []struct {
		name     string
		outcomes []error
		want     codes.Code
	}{
		{"of what was deleted by an attempt whose answer was lost went well", []error{problem(codes.Unavailable), problem(codes.NotFound)}, codes.OK},
		{"of what is not there says so", []error{problem(codes.NotFound)}, codes.NotFound},
		{"that is tried again goes well", []error{problem(codes.Unavailable), nil}, codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{write: func(attempt int) error { return tt.outcomes[attempt-1] }}
				client := f.serve(t, two)
				wantCode(t, client.DeleteTarget(t.Context(), web), tt.want)
				f.calls = nil
				_, err := setpointv1.NewOverrideServiceClient(client.Conn()).DeleteOverride(t.Context(), &setpointv1.DeleteOverrideRequest{})
				wantCode(t, err, tt.want)
				if got := len(f.times()); got != len(tt.outcomes) {
					t.Errorf("%d attempts, want %d", got, len(tt.outcomes))
				}
			})
		})
	}
}

// With an id all attempts create one override, and without one each would create another.
func TestACreationIsTriedAgainByItsID(t *testing.T) {
	for id, want := range map[string]int{"": 1, "migration": 4} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{write: func(int) error { return problem(codes.Unavailable) }}
				_, err := setpointv1.NewOverrideServiceClient(f.serve(t, two).Conn()).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{OverrideId: id})
				wantCode(t, err, codes.Unavailable)
				if got := len(f.times()); got != want {
					t.Errorf("%d attempts, want %d", got, want)
				}
			})
		})
	}
}

// A proxy that loses the server may end an answer in the middle, or leave out its status.
func TestACallThatIsCutOffIsTriedAgain(t *testing.T) {
	t.Parallel()
	message, err := proto.Marshal(&setpointv1.RecommendResponse{DesiredReplicas: 5})
	fatal.If(t, err)
	framed := append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
	for name, first := range map[string][]byte{"in the middle": framed[:len(framed)-1], "in its head": framed[:3], "without a status": framed} {
		var attempts atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			if attempts.Add(1) == 1 {
				_, _ = w.Write(first)
				return
			}
			_, _ = w.Write(framed)
			w.Header().Set("Grpc-Status", "0")
		}))
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		client, err := setpoint.New(server.Listener.Addr().String(), setpoint.WithRetry(setpoint.Retry{BaseDelay: 1, MaxDelay: 1}))
		fatal.If(t, err)
		answer, err := client.Recommend(t.Context(), queue(web, 3, 50))
		if err != nil || answer.GetDesiredReplicas() != 5 || attempts.Load() != 2 {
			t.Errorf("%s: got %v, %v after %d attempts", name, answer, err, attempts.Load())
		}
		_ = client.Close()
		server.Close()
	}
}

// gRPC has no words of its own for an answer without a status, as of a web server or a proxy that drops trailers.
func TestAnErrorWithoutAMessageSaysWhatToCheck(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	client, err := setpoint.New(server.Listener.Addr().String(), setpoint.WithRetry(setpoint.Retry{MaxAttempts: 1}))
	fatal.If(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, repeatable := client.Recommend(t.Context(), queue(web, 3, 50))
	_, other := setpointv1.NewTargetServiceClient(client.Conn()).SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{})
	batch := client.BatchRecommend(t.Context(), []*setpointv1.RecommendRequest{queue(web, 3, 50)})
	var watch error
	for _, watch = range client.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: web}, nil) {
	}
	for name, err := range map[string]error{"a call": repeatable, "a call that is sent once": other, "a batch": batch[0].Err, "a watch": watch} {
		if wantCode(t, err, codes.Unknown); !strings.Contains(err.Error(), "without a message; is the address that of Setpoint's gRPC") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOneAttemptMeansNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{recommend: failing(problem(codes.Unavailable))}
		_, err := f.serve(t, two, setpoint.WithRetry(setpoint.Retry{MaxAttempts: 1})).Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, codes.Unavailable)
		wantTimes(t, f, 0)
	})
}

// Methods of other services may not be idempotent.
func TestOtherMethodsAreNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := (&directory{}).client(t, two, setpoint.WithInsecure())
		begun := time.Now()
		_, err := healthv1.NewHealthClient(client.Conn()).Check(t.Context(), &healthv1.HealthCheckRequest{})
		wantCode(t, err, codes.Unavailable)
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAServiceThatCannotBeReachedIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nowhere directory
		client := nowhere.client(t, two, setpoint.WithInsecure())
		begun := time.Now()
		_, err := client.Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, codes.Unavailable)
		if took := time.Since(begun); took != 700*ms {
			t.Errorf("it took %v, want no longer than the delays", took)
		}
	})
}

// A copy of a request that omits a field would change the decision.
func TestCopiesOfRequestsAreComplete(t *testing.T) {
	req := queue(web, 3, 50)
	message := req.ProtoReflect()
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		switch field := fields.Get(i); {
		case message.Has(field):
		case field.IsList():
			message.Mutable(field).List().AppendMutable()
		case field.Message() != nil:
			message.Mutable(field)
		case field.Kind().String() == "string":
			message.Set(field, message.NewField(field))
		}
	}
	req.RequestId, req.TargetUid, req.ClusterUid, req.DryRun, req.Explain, req.Generation, req.Fleet, req.RestartAfterPause = "r", "u", "c", true, true, new(int64(4)), "f", true
	message.SetUnknown([]byte{0xf8, 0x7f, 1})
	copied := &setpointv1.RecommendRequest{}
	setpoint.CopyFields(copied, req)
	if !proto.Equal(copied, req) {
		t.Errorf("got %v, want %v", copied, req)
	}
	for i := range fields.Len() {
		if !message.Has(fields.Get(i)) {
			t.Errorf("the test leaves out %s", fields.Get(i).Name())
		}
	}
}
