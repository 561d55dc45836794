package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/store"
)

// call is one way of asking for or changing a target.
type call struct {
	name string
	// make makes the call; id is that of a pending recommendation of web.
	make func(ctx context.Context, s *service, id string) error
}

func calls() []call {
	return []call{
		{"Recommend", func(ctx context.Context, s *service, _ string) error {
			_, err := s.recommendations.Recommend(ctx, queue(web, 3, 50))
			return err
		}},
		{"BatchRecommend", func(ctx context.Context, s *service, _ string) error {
			resp, err := s.recommendations.BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{queue(web, 3, 50)}})
			if err != nil {
				return err
			}
			return status.ErrorProto(resp.GetResults()[0].GetError())
		}},
		{"StreamRecommend", func(ctx context.Context, s *service, _ string) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := s.recommendations.StreamRecommend(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: queue(web, 3, 50)}); err != nil {
				return err
			}
			resp, err := stream.Recv()
			if err != nil {
				return err
			}
			return status.ErrorProto(resp.GetError())
		}},
		{"ReportScale", func(ctx context.Context, s *service, id string) error {
			_, err := s.recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: web, RecommendationId: id, Outcome: "APPLIED"})
			return err
		}},
		{"GetTarget", func(ctx context.Context, s *service, _ string) error {
			_, err := s.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: web})
			return err
		}},
		{"ListDecisions", func(ctx context.Context, s *service, _ string) error {
			_, err := s.targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: web})
			return err
		}},
	}
}

// writes reports whether the call swaps.
func (c call) writes() bool { return c.name != "GetTarget" && c.name != "ListDecisions" }

// faults are hooks of a faulty store that a test turns on.
type faults struct{ on atomic.Bool }

// failLoads fails loads while the faults are on.
func (f *faults) failLoads(err error) func(*setup) {
	return func(su *setup) {
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			if f.on.Load() {
				return store.Record{}, err
			}
			return load(ctx, key)
		}
	}
}

// failSwaps makes swaps fail while the faults are on; with happen they take effect
// nevertheless.
func (f *faults) failSwaps(err error, happen bool) func(*setup) {
	return func(su *setup) {
		su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
			if !f.on.Load() {
				return compareAndSwap(ctx, swap)
			}
			if happen {
				if _, err := compareAndSwap(ctx, swap); err != nil {
					return store.SwapResult{}, err
				}
			}
			return store.SwapResult{}, err
		}
	}
}

func TestAnUnreachableStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		for _, tt := range []struct {
			name   string
			err    error
			code   codes.Code
			reason string
		}{
			{"away", fmt.Errorf("dial tcp 10.1.2.3: secret: %w", store.ErrUnavailable), codes.Unavailable, "STORE_UNAVAILABLE"},
			{"closed", fmt.Errorf("secret: %w", store.ErrClosed), codes.Unavailable, "STORE_UNAVAILABLE"},
			{"too slow", fmt.Errorf("secret: %w", context.DeadlineExceeded), codes.Unavailable, "STORE_UNAVAILABLE"},
			{"broken", errors.New("secret"), codes.Internal, "UNSPECIFIED"},
		} {
			for _, on := range []string{"load", "swap"} {
				if on == "swap" && !c.writes() {
					continue
				}
				t.Run(c.name+" while the store is "+tt.name+" on "+on, func(t *testing.T) {
					t.Parallel()
					var f faults
					change := f.failLoads(tt.err)
					if on == "swap" {
						change = f.failSwaps(tt.err, false)
					}
					s := start(t, change)
					id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
					before := s.target(t, web)
					f.on.Store(true)
					got := rpcProblem(c.make(t.Context(), s, id))
					f.on.Store(false)
					wantProblem(t, got, tt.code, tt.reason)
					if strings.Contains(got.message, "secret") {
						t.Errorf("the driver's text is told to the caller: %s", got.message)
					}
					sameMessage(t, s.target(t, web), before)
				})
			}
		}
	}
}

func TestAnUnreachableStoreIs503OverREST(t *testing.T) {
	t.Parallel()
	var f faults
	s := start(t, f.failLoads(store.ErrUnavailable))
	f.on.Store(true)
	a := s.ask(t, http.MethodPost, recommendPath(web), webBody)
	a.expect(t, http.StatusServiceUnavailable)
	wantProblem(t, a.problem(t), codes.Unavailable, "STORE_UNAVAILABLE")
}

// A swap that happened although its answer got lost: the retry with the same
// request id finds out.
func TestARetryAfterAnAmbiguousSwapGetsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	var f faults
	s := start(t, f.failSwaps(store.ErrUnavailable, true))
	req := with(queue(web, 3, 50), withID("a"), explained)
	f.on.Store(true)
	_, err := s.recommendations.Recommend(t.Context(), req)
	wantProblem(t, rpcProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	f.on.Store(false)
	recorded := s.target(t, web)
	retried := s.recommend(t, req)
	if got, want := retried.GetRecommendationId(), recorded.GetLastDecision().GetRecommendationId(); got != want {
		t.Errorf("the retry got %s, want the recorded %s", got, want)
	}
	if retried.GetDesiredReplicas() != 5 || retried.GetExplanation() == nil {
		t.Errorf("the retry got %v", retried)
	}
	sameMessage(t, s.target(t, web), recorded)
}

func TestARetryAfterASwapThatDidNotHappenIsDecided(t *testing.T) {
	t.Parallel()
	var f faults
	s := start(t, f.failSwaps(store.ErrUnavailable, false))
	f.on.Store(true)
	_, err := s.recommendations.Recommend(t.Context(), with(queue(web, 3, 50), withID("a")))
	wantProblem(t, rpcProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	f.on.Store(false)
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
	s.recommend(t, with(queue(web, 3, 50), withID("a")))
	if got := recommendations(s.target(t, web)); got != 1 {
		t.Errorf("%d recommendations are recorded, want 1", got)
	}
}

func TestATargetThatAlwaysChangesIsAborted(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		if !c.writes() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const attempts = 5
			var on atomic.Bool
			var swaps atomic.Int32
			s := start(t, func(su *setup) {
				su.options.MaxAttempts = attempts
				su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
					if on.Load() {
						swaps.Add(1)
						swap.Old = "nobody's"
					}
					return compareAndSwap(ctx, swap)
				}
			})
			id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
			before := s.target(t, web)
			on.Store(true)
			got := rpcProblem(c.make(t.Context(), s, id))
			on.Store(false)
			wantProblem(t, got, codes.Aborted, "TARGET_CONTENDED")
			if got.metadata["target"] != web || got.metadata["attempts"] != fmt.Sprint(attempts) || swaps.Load() != attempts {
				t.Errorf("metadata are %v after %d swaps, want %d attempts", got.metadata, swaps.Load(), attempts)
			}
			sameMessage(t, s.target(t, web), before)
		})
	}
}

func TestAContendedTargetIs409OverREST(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.options.MaxAttempts = 2
		su.store.swap = func(context.Context, store.Swap, swapFunc) (store.SwapResult, error) { return store.SwapResult{}, nil }
	})
	a := s.ask(t, http.MethodPost, recommendPath(web), webBody)
	a.expect(t, http.StatusConflict)
	wantProblem(t, a.problem(t), codes.Aborted, "TARGET_CONTENDED")
}

// put stores a value under a target as someone else might.
func (s *service) put(tb testing.TB, name string, value []byte) {
	tb.Helper()
	record, err := s.memory.Load(tb.Context(), keyOf(name))
	if err == nil {
		_, err = s.memory.CompareAndSwap(tb.Context(), store.Swap{Key: keyOf(name), Old: record.Version, Value: value})
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func TestAnUnreadableHistoryIsReportedAndKept(t *testing.T) {
	t.Parallel()
	good := encoding.AppendHistory(nil, &recommender.History{Seen: true, Updated: t0})
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	newer := append([]byte(nil), good...)
	newer[0] = 200
	for _, tt := range []struct {
		name  string
		value []byte
		text  string
	}{
		{"damaged", flipped, "damaged"},
		{"cut off", good[:len(good)-1], "damaged"},
		{"empty", nil, "damaged"},
		{"of a newer version", newer, "newer version"},
	} {
		for _, c := range calls() {
			t.Run(c.name+" of one that is "+tt.name, func(t *testing.T) {
				t.Parallel()
				s := start(t)
				s.put(t, web, tt.value)
				got := rpcProblem(c.make(t.Context(), s, strings.Repeat("0", 31)+"1"))
				wantProblem(t, got, codes.Internal, "HISTORY_UNREADABLE")
				if got.metadata["target"] != web || !strings.Contains(got.message, tt.text) {
					t.Errorf("got %q of %v, want it to say %q of the target", got.message, got.metadata, tt.text)
				}
				if string(s.stored(t, web)) != string(tt.value) {
					t.Error("the value was changed")
				}
			})
		}
	}
}

func TestATargetWithAnUnreadableHistoryIsListedAndCanBeDeleted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.put(t, web, []byte("rubbish"))
	s.recommend(t, queue(web+"2", 3, 30))
	list := s.ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets", nil).expect(t, http.StatusOK)
	if got := names(list); len(got) != 2 || got[0] != web {
		t.Errorf("listed are %v, want both", got)
	}
	s.ask(t, http.MethodDelete, "/v1/"+web, nil).expect(t, http.StatusOK)
	s.recommend(t, queue(web, 3, 30))
}

func TestTheCallersDeadlineEndsACallThatWaitsForTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var on atomic.Bool
			s := start(t, func(su *setup) {
				su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
					if on.Load() {
						<-ctx.Done()
						return store.Record{}, fmt.Errorf("load: %w", ctx.Err())
					}
					return load(ctx, key)
				}
			})
			id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
			before := s.stored(t, web)
			on.Store(true) // for good: the server may come to the call when its caller has gone
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err := c.make(ctx, s, id)
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("got %v, want DEADLINE_EXCEEDED", err)
			}
			if after := s.stored(t, web); !bytes.Equal(after, before) {
				t.Errorf("%x is stored, was %x", after, before)
			}
		})
	}
}

// A call without a deadline gets the server's. Its expiry is the server's fault, not
// the caller's.
func TestTheRequestTimeoutBoundsCallsWithoutADeadline(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var on atomic.Bool
			s := start(t, func(su *setup) {
				su.options.RequestTimeout = 20 * time.Millisecond
				su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
					if on.Load() {
						<-ctx.Done()
						return store.Record{}, fmt.Errorf("load: %w", ctx.Err())
					}
					return load(ctx, key)
				}
			})
			on.Store(true)
			err := c.make(t.Context(), s, "x")
			// Reports are looked up by id before anything is loaded.
			if c.name == "ReportScale" {
				err = c.make(t.Context(), s, strings.Repeat("0", 31)+"1")
			}
			if status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want UNAVAILABLE", err)
			}
		})
	}
}

func TestADeadlineThatIsOverIsGatewayTimeoutOverREST(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.store.load = func(ctx context.Context, _ store.Key, _ loadFunc) (store.Record, error) {
			<-ctx.Done()
			return store.Record{}, ctx.Err()
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+recommendPath(web), strings.NewReader(webBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Grpc-Timeout", "10m") // milliseconds
	a, err := s.send(req)
	if err != nil {
		t.Fatal(err)
	}
	a.expect(t, http.StatusGatewayTimeout)
	if a.body["code"] != float64(codes.DeadlineExceeded) {
		t.Errorf("got %s", a.raw)
	}
}

// Once a decision is made it is written even if the caller hangs up meanwhile.
func TestADecisionIsWrittenThoughTheCallerHangsUp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Recommend", "BatchRecommend", "StreamRecommend"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			swapping, release, swapped := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			loading := make(chan context.Context, 16)
			s := start(t, func(su *setup) {
				su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
					loading <- ctx
					return load(ctx, key)
				}
				su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
					close(swapping)
					<-release
					result, err := compareAndSwap(ctx, swap)
					swapped <- err
					return result, err
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			for _, c := range calls() {
				if c.name == name {
					go func() { done <- c.make(ctx, s, "") }()
				}
			}
			<-swapping
			cancel()
			if err := <-done; status.Code(err) != codes.Canceled {
				t.Errorf("got %v, want the call cancelled", err)
			}
			<-(<-loading).Done() // the server knows, too
			close(release)
			if err := <-swapped; err != nil {
				t.Errorf("the swap ended with %v", err)
			}
			if got := recommendations(s.target(t, web)); got != 1 {
				t.Errorf("%d recommendations are recorded, want 1", got)
			}
		})
	}
}

// A caller that hung up before a decision was made leaves nothing behind.
func TestNothingIsBegunForACallerThatHungUp(t *testing.T) {
	t.Parallel()
	loading, loaded := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	first.Store(true)
	s := start(t, func(su *setup) {
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			if first.CompareAndSwap(true, false) {
				defer close(loaded)
				close(loading)
				<-ctx.Done()
				return load(context.WithoutCancel(ctx), key)
			}
			return load(ctx, key)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.recommendations.Recommend(ctx, queue(web, 3, 50))
		done <- err
	}()
	<-loading
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("the call that was given up got %v", err)
	}
	<-loaded
	s.stopAndWait(t)
	if got := s.stored(t, web); got != nil {
		t.Errorf("something is recorded: %d bytes", len(got))
	}
}

// The log is best effort: it is never in the way of an answer.
func TestALogThatFailsDoesNotFailAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.log = brokenLog{} })
	id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
	s.report(t, web, id, "APPLIED", "")
	s.recommend(t, queue(web, 5, 50))
	_, err := s.targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: web})
	wantProblem(t, rpcProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	if _, err := s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: web}); err != nil {
		t.Errorf("DeleteTarget: %v", err)
	}
}

type brokenLog struct{}

func (brokenLog) AppendLog(context.Context, []store.LogEntry) error { return store.ErrUnavailable }

func (brokenLog) ReadLog(context.Context, store.Key, string, int) ([][]byte, string, error) {
	return nil, "", store.ErrUnavailable
}

func TestListsAndDeletesFailWithTheStore(t *testing.T) {
	t.Parallel()
	var f faults
	s := start(t, f.failLoads(store.ErrUnavailable), func(su *setup) {
		su.store.other = func() error {
			if f.on.Load() {
				return store.ErrUnavailable
			}
			return nil
		}
	})
	s.recommend(t, queue(web, 3, 30))
	f.on.Store(true)
	_, err := s.targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"})
	wantProblem(t, rpcProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	_, err = s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: web})
	wantProblem(t, rpcProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	f.on.Store(false)
	s.target(t, web)
}

// A target may be forgotten between its listing and its loading.
func TestATargetThatGoesWhileItIsListedIsLeftOut(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			if key.Target == "gone" {
				return store.Record{}, nil
			}
			return load(ctx, key)
		}
	})
	s.recommend(t, queue("clusters/demo/namespaces/shop/targets/gone", 3, 30))
	s.recommend(t, queue(web, 3, 30))
	list := s.ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets", nil).expect(t, http.StatusOK)
	if got := names(list); len(got) != 1 || got[0] != web {
		t.Errorf("listed are %v, want %s", got, web)
	}
}

// stuckLog takes entries only once it is released, however long that is.
type stuckLog struct {
	store.Log
	released <-chan struct{}
}

// newStuckLog returns what to wrap a log with, and what releases it, which the test's end
// does too.
func newStuckLog(t *testing.T) (wrap func(store.Log) store.Log, release func()) {
	t.Helper()
	released := make(chan struct{})
	return func(l store.Log) store.Log { return stuckLog{l, released} }, sync.OnceFunc(func() { close(released) })
}

func (l stuckLog) AppendLog(ctx context.Context, entries []store.LogEntry) error {
	<-l.released
	return l.Log.AppendLog(context.WithoutCancel(ctx), entries)
}

// Decisions that wait to be logged must not come back after their target is gone.
func TestADeleteWaitsForTheLog(t *testing.T) {
	t.Parallel()
	stuck, release := newStuckLog(t)
	s := start(t, func(su *setup) { su.log = stuck(su.log) })
	t.Cleanup(release) // before the server stops
	s.recommend(t, queue(web, 3, 30))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.targets.DeleteTarget(ctx, &setpointv1.DeleteTargetRequest{Name: web}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("while the log is stuck: got %v, want DEADLINE_EXCEEDED", err)
	}
	s.target(t, web)
	release()
	s.ask(t, http.MethodDelete, "/v1/"+web, nil).expect(t, http.StatusOK)
	s.stopAndWait(t)
	if values, _, err := s.memory.ReadLog(t.Context(), keyOf(web), "", 10); err != nil || len(values) != 0 {
		t.Errorf("%d decisions came back, %v", len(values), err)
	}
}

// However many decisions wait to be logged, responses do not wait with them; the excess
// is dropped.
func TestALogThatIsStuckHoldsUpNoAnswers(t *testing.T) {
	t.Parallel()
	stuck, release := newStuckLog(t)
	core, logs := observer.New(zap.WarnLevel)
	s := start(t, func(su *setup) {
		su.log = stuck(su.log)
		su.options.Log = zap.New(core)
		su.options.LoggedRepeats = 1 << 30
	})
	t.Cleanup(release) // before the server stops
	var requests []*setpointv1.RecommendRequest
	for i := range 1000 {
		requests = append(requests, queue(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i), 3, 30))
	}
	// A reader of the log waits for writes in progress, as long as the caller allows.
	s.batch(t, requests[0])
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: requests[0].GetTarget()})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("ListDecisions: got %v, want DEADLINE_EXCEEDED", err)
	}
	for range 10 { // more than may wait
		for _, result := range s.batch(t, requests...) {
			if result.GetError() != nil {
				t.Fatal(result.GetError())
			}
		}
	}
	if logs.FilterMessage("decision log too slow, entries dropped").Len() == 0 {
		t.Error("no entry was dropped, or the log does not say so")
	}
	// Nobody waits behind so many.
	if _, err := s.targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: requests[0].GetTarget()}); err != nil {
		t.Errorf("ListDecisions: %v", err)
	}
}

// What an error's details say must be JSON over REST whatever the message.
func TestErrorsOfTheStoreAreJSONOverREST(t *testing.T) {
	t.Parallel()
	var f faults
	s := start(t, f.failLoads(errors.New("\xff\x00 not text")))
	f.on.Store(true)
	a := s.ask(t, http.MethodGet, "/v1/"+web, nil)
	a.expect(t, http.StatusInternalServerError)
	if !json.Valid(a.raw) {
		t.Errorf("got %q, which is no JSON", a.raw)
	}
}
