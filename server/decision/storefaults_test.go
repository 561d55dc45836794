package decision_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// call is one way of asking for or changing a target.
type call struct {
	name string
	// make makes the call; id is that of a pending recommendation of web.
	make func(ctx context.Context, s *servertest.Service, id string) error
}

func calls() []call {
	return []call{
		{"Recommend", func(ctx context.Context, s *servertest.Service, _ string) error {
			_, err := s.Recommendations.Recommend(ctx, servertest.Queue(servertest.Web, 3, 50))
			return err
		}},
		{"BatchRecommend", func(ctx context.Context, s *servertest.Service, _ string) error {
			resp, err := s.Recommendations.BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{servertest.Queue(servertest.Web, 3, 50)}})
			if err != nil {
				return err
			}
			return status.ErrorProto(resp.GetResults()[0].GetError())
		}},
		{"StreamRecommend", func(ctx context.Context, s *servertest.Service, _ string) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := s.Recommendations.StreamRecommend(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: servertest.Queue(servertest.Web, 3, 50)}); err != nil {
				return err
			}
			resp, err := stream.Recv()
			if err != nil {
				return err
			}
			return status.ErrorProto(resp.GetError())
		}},
		{"ReportScale", func(ctx context.Context, s *servertest.Service, id string) error {
			_, err := s.Recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: id, Outcome: "APPLIED"})
			return err
		}},
		{"GetTarget", func(ctx context.Context, s *servertest.Service, _ string) error {
			_, err := s.Targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: servertest.Web})
			return err
		}},
		{"ListDecisions", func(ctx context.Context, s *servertest.Service, _ string) error {
			_, err := s.Targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: servertest.Web})
			return err
		}},
	}
}

// writes reports whether the call swaps.
func (c call) writes() bool { return c.name != "GetTarget" && c.name != "ListDecisions" }

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
					var f servertest.Faults
					change := f.FailLoads(tt.err)
					if on == "swap" {
						change = f.FailSwaps(tt.err, false)
					}
					s := servertest.Start(t, change)
					id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
					before := s.Target(t, servertest.Web)
					f.On.Store(true)
					got := servertest.RPCProblem(c.make(t.Context(), s, id))
					f.On.Store(false)
					servertest.WantProblem(t, got, tt.code, tt.reason)
					if strings.Contains(got.Message, "secret") {
						t.Errorf("the driver's text is told to the caller: %s", got.Message)
					}
					servertest.SameMessage(t, s.Target(t, servertest.Web), before)
				})
			}
		}
	}
}

// A swap that happened although its answer got lost: the retry with the same
// request id finds out.
func TestARetryAfterAnAmbiguousSwapGetsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	var f servertest.Faults
	s := servertest.Start(t, f.FailSwaps(store.ErrUnavailable, true))
	req := servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("a"), servertest.Explained)
	f.On.Store(true)
	_, err := s.Recommendations.Recommend(t.Context(), req)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	f.On.Store(false)
	recorded := s.Target(t, servertest.Web)
	retried := s.Recommend(t, req)
	if got, want := retried.GetRecommendationId(), recorded.GetLastDecision().GetRecommendationId(); got != want {
		t.Errorf("the retry got %s, want the recorded %s", got, want)
	}
	if retried.GetDesiredReplicas() != 5 || retried.GetExplanation() == nil {
		t.Errorf("the retry got %v", retried)
	}
	servertest.SameMessage(t, s.Target(t, servertest.Web), recorded)
}

func TestARetryAfterASwapThatDidNotHappenIsDecided(t *testing.T) {
	t.Parallel()
	var f servertest.Faults
	s := servertest.Start(t, f.FailSwaps(store.ErrUnavailable, false))
	f.On.Store(true)
	_, err := s.Recommendations.Recommend(t.Context(), servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("a")))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	f.On.Store(false)
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("a")))
	if got := servertest.Recommendations(s.Target(t, servertest.Web)); got != 1 {
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
			s := servertest.Start(t, func(su *servertest.Setup) {
				su.Options.MaxAttempts = attempts
				su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
					if on.Load() {
						swaps.Add(1)
						swap.Old = "nobody's"
					}
					return compareAndSwap(ctx, swap)
				}
			})
			id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
			before := s.Target(t, servertest.Web)
			on.Store(true)
			got := servertest.RPCProblem(c.make(t.Context(), s, id))
			on.Store(false)
			servertest.WantProblem(t, got, codes.Aborted, "TARGET_CONTENDED")
			if got.Metadata["target"] != servertest.Web || got.Metadata["attempts"] != fmt.Sprint(attempts) || swaps.Load() != attempts {
				t.Errorf("metadata are %v after %d swaps, want %d attempts", got.Metadata, swaps.Load(), attempts)
			}
			servertest.SameMessage(t, s.Target(t, servertest.Web), before)
		})
	}
}

func TestAnUnreadableHistoryIsReportedAndKept(t *testing.T) {
	t.Parallel()
	good := encoding.AppendHistory(nil, &recommender.History{Seen: true, Updated: servertest.T0})
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	newer := append([]byte(nil), good...)
	newer[0] = 200
	// With a field of a newer version, and the checksum that it has then.
	longer := append(append([]byte(nil), good[:len(good)-4]...), 5, 5, 5)
	longer = binary.LittleEndian.AppendUint32(longer, crc32.Checksum(longer, crc32.MakeTable(crc32.Castagnoli)))
	for _, tt := range []struct {
		name  string
		value []byte
		text  string
	}{
		{"damaged", flipped, "damaged"},
		{"cut off", good[:len(good)-1], "damaged"},
		{"empty", nil, "damaged"},
		{"of a newer version", newer, "was written by a newer version; upgrade this instance"},
		{"of a newer version, with more in it", longer, "a newer version wrote it, or it is damaged; upgrade this instance, or delete the target"},
	} {
		for _, c := range calls() {
			t.Run(c.name+" of one that is "+tt.name, func(t *testing.T) {
				t.Parallel()
				s := servertest.Start(t)
				s.Put(t, servertest.Web, tt.value)
				got := servertest.RPCProblem(c.make(t.Context(), s, strings.Repeat("0", 31)+"1"))
				servertest.WantProblem(t, got, codes.Internal, "HISTORY_UNREADABLE")
				if got.Metadata["target"] != servertest.Web || !strings.Contains(got.Message, tt.text) {
					t.Errorf("got %q of %v, want it to say %q of the target", got.Message, got.Metadata, tt.text)
				}
				if string(s.Stored(t, servertest.Web)) != string(tt.value) {
					t.Error("the value was changed")
				}
			})
		}
	}
}

func TestATargetWithAnUnreadableHistoryIsListedAndCanBeDeleted(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Put(t, servertest.Web, []byte("rubbish"))
	s.Recommend(t, servertest.Queue(servertest.Web+"2", 3, 30))
	list := s.Ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets", nil).Expect(t, http.StatusOK)
	if got := servertest.At(list, "targets").([]any); len(got) != 2 || servertest.At(got, 0, "name") != servertest.Web {
		t.Errorf("listed are %v, want both", got)
	}
	s.Ask(t, http.MethodDelete, "/v1/"+servertest.Web, nil).Expect(t, http.StatusOK)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
}

func TestTheCallersDeadlineEndsACallThatWaitsForTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var on atomic.Bool
			s := servertest.Start(t, func(su *servertest.Setup) {
				su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
					if on.Load() {
						<-ctx.Done()
						return store.Record{}, fmt.Errorf("load: %w", ctx.Err())
					}
					return load(ctx, key)
				}
			})
			id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
			before := s.Stored(t, servertest.Web)
			on.Store(true) // for good: the server may come to the call when its caller has gone
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err := c.make(ctx, s, id)
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("got %v, want DEADLINE_EXCEEDED", err)
			}
			if after := s.Stored(t, servertest.Web); !bytes.Equal(after, before) {
				t.Errorf("%x is stored, was %x", after, before)
			}
		})
	}
}

// A call without a deadline gets the server's. Its expiry, in the store or before anything is read, is the server's fault,
// not the caller's.
func TestTheRequestTimeoutBoundsCallsWithoutADeadline(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) { requestTimeoutBounds(t, c, 20*time.Millisecond) })
		t.Run(c.name+" before it is read", func(t *testing.T) { requestTimeoutBounds(t, c, time.Nanosecond) })
	}
}

func requestTimeoutBounds(t *testing.T, c call, timeout time.Duration) {
	t.Parallel()
	var on atomic.Bool
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.RequestTimeout = timeout
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
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
}

// Once a decision is made it is written even if the caller hangs up meanwhile.
func TestADecisionIsWrittenThoughTheCallerHangsUp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Recommend", "BatchRecommend", "StreamRecommend"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			swapping, release, swapped := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			loading := make(chan context.Context, 16)
			s := servertest.Start(t, func(su *servertest.Setup) {
				su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
					loading <- ctx
					return load(ctx, key)
				}
				su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
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
			if got := servertest.Recommendations(s.Target(t, servertest.Web)); got != 1 {
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
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
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
		_, err := s.Recommendations.Recommend(ctx, servertest.Queue(servertest.Web, 3, 50))
		done <- err
	}()
	<-loading
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("the call that was given up got %v", err)
	}
	<-loaded
	s.StopAndWait(t)
	if got := s.Stored(t, servertest.Web); got != nil {
		t.Errorf("something is recorded: %d bytes", len(got))
	}
}

// The log is best effort: it is never in the way of an answer.
func TestALogThatFailsDoesNotFailAnswers(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Log = brokenLog{} })
	id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
	s.Report(t, servertest.Web, id, "APPLIED", "")
	s.Recommend(t, servertest.Queue(servertest.Web, 5, 50))
	_, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: servertest.Web})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	if _, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
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
	var f servertest.Faults
	s := servertest.Start(t, f.FailLoads(store.ErrUnavailable), func(su *servertest.Setup) {
		su.Store.OnOther = func() error {
			if f.On.Load() {
				return store.ErrUnavailable
			}
			return nil
		}
	})
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	f.On.Store(true)
	_, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	_, err = s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "STORE_UNAVAILABLE")
	f.On.Store(false)
	s.Target(t, servertest.Web)
}

// A target may be forgotten between its listing and its loading.
func TestATargetThatGoesWhileItIsListedIsLeftOut(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
			if key.Target == "gone" {
				return store.Record{}, nil
			}
			return load(ctx, key)
		}
	})
	s.Recommend(t, servertest.Queue("clusters/demo/namespaces/shop/targets/gone", 3, 30))
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	list := s.Ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets", nil).Expect(t, http.StatusOK)
	if got := servertest.At(list, "targets").([]any); len(got) != 1 || servertest.At(got, 0, "name") != servertest.Web {
		t.Errorf("listed are %v, want %s", got, servertest.Web)
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
	s := servertest.Start(t, func(su *servertest.Setup) { su.Log = stuck(su.Log) })
	t.Cleanup(release) // before the server stops
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Targets.DeleteTarget(ctx, &setpointv1.DeleteTargetRequest{Name: servertest.Web}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("while the log is stuck: got %v, want DEADLINE_EXCEEDED", err)
	}
	s.Target(t, servertest.Web)
	release()
	s.Ask(t, http.MethodDelete, "/v1/"+servertest.Web, nil).Expect(t, http.StatusOK)
	s.StopAndWait(t)
	if values, _, err := s.Memory.ReadLog(t.Context(), servertest.KeyOf(servertest.Web), "", 10); err != nil || len(values) != 0 {
		t.Errorf("%d decisions came back, %v", len(values), err)
	}
}

// However many decisions wait to be logged, responses do not wait with them; the excess
// is dropped.
func TestALogThatIsStuckHoldsUpNoAnswers(t *testing.T) {
	t.Parallel()
	stuck, release := newStuckLog(t)
	core, logs := observer.New(zap.WarnLevel)
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Log = stuck(su.Log)
		su.Options.Log = zap.New(core)
		su.Options.LoggedRepeats = 1 << 30
	})
	t.Cleanup(release) // before the server stops
	var requests []*setpointv1.RecommendRequest
	for i := range 1000 {
		requests = append(requests, servertest.Queue(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i), 3, 30))
	}
	// A reader of the log waits for writes in progress, as long as the caller allows.
	s.Batch(t, requests[0])
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: requests[0].GetTarget()})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("ListDecisions: got %v, want DEADLINE_EXCEEDED", err)
	}
	for range 10 { // more than may wait
		for _, result := range s.Batch(t, requests...) {
			if result.GetError() != nil {
				t.Fatal(result.GetError())
			}
		}
	}
	if logs.FilterMessage("decision log too slow, entries dropped").Len() == 0 {
		t.Error("no entry was dropped, or the log does not say so")
	}
	// Nobody waits behind so many.
	if _, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: requests[0].GetTarget()}); err != nil {
		t.Errorf("ListDecisions: %v", err)
	}
}

// The line about a failed batch says which targets it was about.
func TestAFailedBatchIsLoggedWithItsTargets(t *testing.T) {
	t.Parallel()
	var f servertest.Faults
	core, logs := observer.New(zap.ErrorLevel)
	s := servertest.Start(t, f.FailLoads(store.ErrUnavailable), func(su *servertest.Setup) { su.Options.Log = zap.New(core) })
	f.On.Store(true)
	s.Batch(t, servertest.Queue("clusters/c/namespaces/n/targets/a", 3, 30), servertest.Queue("clusters/c/namespaces/n/targets/b", 3, 30), servertest.Queue("clusters/c/namespaces/n/targets/c", 3, 30))
	lines := logs.FilterMessage("store failed").FilterField(zap.String("operation", "load_batch")).All()
	if len(lines) == 0 {
		t.Fatalf("no line about the batch among %v", logs.All())
	}
	if got := lines[0].ContextMap(); !strings.HasPrefix(fmt.Sprint(got["target"]), "clusters/c/namespaces/n/targets/") || got["otherTargets"] != int64(2) {
		t.Errorf("the line has %v", got)
	}
}
