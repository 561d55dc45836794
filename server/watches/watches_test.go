package watches_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/protofields"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// watching is an open call of WatchDecisions.
type watching struct {
	tb     testing.TB
	stream grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse]
	cancel context.CancelFunc
	token  string
}

// watch opens a watch, and waits until it is there.
func watch(tb testing.TB, s *servertest.Service, req *setpointv1.WatchDecisionsRequest) *watching {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	stream, err := s.Targets.WatchDecisions(ctx, req)
	fatal.If(tb, err)
	w := &watching{tb, stream, cancel, ""}
	if first := w.next(); first.GetDecision() != nil {
		tb.Fatalf("the first response is %v, want a sign of life", first)
	}
	return w
}

func (w *watching) next() *setpointv1.WatchDecisionsResponse {
	w.tb.Helper()
	r, err := w.stream.Recv()
	if err != nil {
		w.tb.Fatalf("the stream ended: %v", err)
	}
	if r.GetResumeToken() == "" {
		w.tb.Fatalf("%v has no token", r)
	}
	w.token = r.GetResumeToken()
	return r
}

// decision returns the next decision.
func (w *watching) decision() *setpointv1.WatchDecisionsResponse {
	w.tb.Helper()
	for {
		if r := w.next(); r.GetDecision() != nil {
			return r
		}
	}
}

// want checks the targets, counts and outcomes of the next decisions.
func (w *watching) want(want ...string) {
	w.tb.Helper()
	for _, want := range want {
		r := w.decision()
		d := r.GetDecision()
		target := r.GetTarget()[strings.LastIndexByte(r.GetTarget(), '/')+1:]
		if got := fmt.Sprintf("%s %d→%d %s", target, d.GetCurrentReplicas(), d.GetDesiredReplicas(), d.GetOutcome()); got != want {
			w.tb.Errorf("got %s, want %s", got, want)
		}
		if r.GetMissedDecisions() > 0 || r.GetMissedUncounted() {
			w.tb.Errorf("%v were missed", r.GetMissedDecisions())
		}
	}
}

func (w *watching) wantEnd(code codes.Code) {
	w.tb.Helper()
	for {
		if _, err := w.stream.Recv(); err != nil {
			if status.Code(err) != code {
				w.tb.Errorf("the stream ended with %v, want %s", err, code)
			}
			return
		}
	}
}

func targetNamed(name string) string { return "clusters/demo/namespaces/shop/targets/" + name }

// decide recommends for a target of that name and two replicas: 20 entries change nothing.
func decide(tb testing.TB, s *servertest.Service, name string, entries int32) *setpointv1.RecommendResponse {
	tb.Helper()
	return s.Recommend(tb, servertest.Queue(targetNamed(name), 2, entries))
}

// logOnly is a log of an engine that keeps no feed.
type logOnly struct{ store.Log }

// A change comes when it is made, and again when it is known what became of it; what changes
// nothing comes once, and the order of a target is kept.
func TestWatchersSeeWhatIsDecided(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	all := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	one := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: targetNamed("b")})
	changes := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, ChangesOnly: true})
	changed := decide(t, s, "a", 60)
	s.Report(t, targetNamed("a"), changed.GetRecommendationId(), "APPLIED", "")
	decide(t, s, "b", 20)
	pending := fmt.Sprintf("a 2→%d PENDING", changed.GetDesiredReplicas())
	applied := strings.Replace(pending, "PENDING", "APPLIED", 1)
	all.want(pending, applied, "b 2→2 NONE")
	one.want("b 2→2 NONE")
	decide(t, s, "c", 60)
	changes.want(pending, applied, strings.Replace(pending, "a", "c", 1))
}

// The store has a report, but its reply is lost: the repeated one tells no watcher of the outcome, so they learn that they
// missed something.
func TestWatchersLearnOfAReportInDoubt(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
			result, err := compareAndSwap(ctx, swap)
			if lost.Load() {
				return store.SwapResult{}, store.ErrUnavailable
			}
			return result, err
		}
	})
	w := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	changed := decide(t, s, "a", 60)
	w.want(fmt.Sprintf("a 2→%d PENDING", changed.GetDesiredReplicas()))
	report := &setpointv1.ReportScaleRequest{Target: targetNamed("a"), RecommendationId: changed.GetRecommendationId(), Outcome: "APPLIED"}
	lost.Store(true)
	if _, err := s.Recommendations.ReportScale(t.Context(), report); status.Code(err) != codes.Unavailable {
		t.Fatalf("the reply is lost: %v", err)
	}
	lost.Store(false)
	if again, err := s.Recommendations.ReportScale(t.Context(), report); err != nil || again.GetOutcome() != "APPLIED" {
		t.Fatalf("repeated: %v, %v", again, err)
	}
	decide(t, s, "b", 20)
	if r := w.decision(); r.GetTarget() != targetNamed("b") || !r.GetMissedUncounted() {
		t.Errorf("next comes %v, and nothing says that an outcome is missing", r)
	}
}

// A caller who leaves during a report makes nobody believe that something is missing.
func TestACallerWhoLeavesAReportTellsNoWatcher(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	var swaps atomic.Int64
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxAttempts = 1 << 20
		su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
			if stuck.Load() {
				swaps.Add(1)
				swap.Old = "nobody's"
			}
			return compareAndSwap(ctx, swap)
		}
	})
	w := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: targetNamed("b")})
	changed := decide(t, s, "a", 60)
	stuck.Store(true)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 1)
	go func() {
		_, err := s.Recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: targetNamed("a"), RecommendationId: changed.GetRecommendationId(), Outcome: "APPLIED"})
		left <- err
	}()
	servertest.Eventually(t, func() bool { return swaps.Load() > 0 })
	leave()
	if err := <-left; status.Code(err) != codes.Canceled {
		t.Fatalf("the caller has left: %v", err)
	}
	servertest.Eventually(t, func() bool { // the service has noticed it
		before := swaps.Load()
		time.Sleep(200 * time.Millisecond)
		return swaps.Load() == before
	})
	stuck.Store(false)
	s.Report(t, targetNamed("a"), changed.GetRecommendationId(), "APPLIED", "")
	decide(t, s, "b", 20)
	w.want("b 2→2 NONE")
}

// Who comes back with a token gets what came meanwhile, and nothing twice.
func TestWatchersResume(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	w := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	decide(t, s, "a", 20)
	decide(t, s, "b", 20)
	w.want("a 2→2 NONE")
	w.cancel()
	w.wantEnd(codes.Canceled)
	decide(t, s, "c", 20)
	again := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, ResumeToken: w.token})
	again.want("b 2→2 NONE", "c 2→2 NONE")
	decide(t, s, "d", 20)
	again.want("d 2→2 NONE")
	from := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, StartTime: timestamppb.New(servertest.T0.Add(-time.Hour))})
	from.want("a 2→2 NONE", "b 2→2 NONE", "c 2→2 NONE", "d 2→2 NONE")
	later := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, StartTime: timestamppb.New(time.Now().Add(time.Hour))})
	decide(t, s, "e", 20)
	from.want("e 2→2 NONE")
	later.want("e 2→2 NONE")
}

// While calls are refused for overload watchers wait for them, and lose nothing by it.
func TestWatchersGiveWayUnderOverload(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var waits atomic.Int64 // how many goroutines wait for a processor, all the time
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Limits.Shedding = limit.Shedding{
			Processors: 1, MinRunning: 1,
			Waited: func() time.Duration { return time.Duration(waits.Load()) * time.Since(began) },
		}
	})
	w := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	const n = 200
	for range n {
		s.Clock.Advance(servertest.Period)
		decide(t, s, "a", 20)
	}
	waits.Store(100)
	var calling sync.WaitGroup
	var refused atomic.Bool
	for range 8 { // enough that some run at once
		calling.Go(func() {
			for deadline := time.Now().Add(time.Minute); !refused.Load() && time.Now().Before(deadline); {
				_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(targetNamed("other"), 2, 20))
				if status.Code(err) == codes.ResourceExhausted {
					refused.Store(true)
				}
			}
		})
	}
	calling.Wait()
	if !refused.Load() {
		t.Fatal("no call was refused")
	}
	for got := 0; got < n; {
		r := w.decision()
		if r.GetTarget() == targetNamed("a") {
			got++
		}
		if r.GetMissedDecisions() > 0 || r.GetMissedUncounted() {
			t.Fatalf("%v were missed", r.GetMissedDecisions())
		}
	}
}

// A token counts for its parent, and only whole.
func TestForgedResumeTokens(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	w := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	page := strings.Repeat("A", 200)
	first := "A"
	if w.token[:1] == first {
		first = "B"
	}
	for name, req := range map[string]*setpointv1.WatchDecisionsRequest{
		"another parent": {Parent: targetNamed("a"), ResumeToken: w.token},
		"changed":        {Parent: servertest.Everything, ResumeToken: first + w.token[1:]},
		"cut":            {Parent: servertest.Everything, ResumeToken: w.token[:len(w.token)-4]},
		"made up":        {Parent: servertest.Everything, ResumeToken: page},
	} {
		stream, err := s.Targets.WatchDecisions(t.Context(), req)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "resumeToken") {
			t.Errorf("%s: %v, want INVALID_ARGUMENT of resumeToken", name, err)
		}
	}
}

// JSON can't spell such a start. Over gRPC one far ahead wrapped around to the past, and sent all decisions.
func TestAStartThatIsNoInstantIsRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, start := range []*timestamppb.Timestamp{{Seconds: 1 << 62}, {Seconds: -1 << 62}, {Nanos: -1}} {
		stream, err := s.Targets.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, StartTime: start})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "startTime") {
			t.Errorf("%v: %v, want INVALID_ARGUMENT of startTime", start, err)
		}
	}
}

// Watchers hear something now and then, are bounded, and end when the server stops.
func TestWatchersAreBoundedAndEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.WatchHeartbeat, su.Options.MaxWatchers = 10*time.Millisecond, 2 })
	w := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	other := watch(t, s, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	before := w.token
	if r := w.next(); r.GetDecision() != nil || r.GetTarget() != "" || r.GetResumeToken() == before {
		t.Errorf("a sign of life is %v", r)
	}
	stream, err := s.Targets.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "watchers") {
		t.Errorf("one too many: %v", err)
	}
	if a := s.Ask(t, http.MethodGet, "/v1/"+servertest.Everything+"/decisions:watch", ""); a.Header.Get("Retry-After") == "" {
		t.Errorf("one too many over REST is not told when to come back: %+v", a)
	}
	other.cancel()
	other.wantEnd(codes.Canceled)
	s.Stop()
	w.wantEnd(codes.Unavailable)
}

// A caller has so many watches at once; others have theirs, and a place that is given back is free.
func TestWatchesOfACallerAreBounded(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t, func(su *servertest.Setup) { su.Options.MaxWatchersPerCaller = 1 })
	open := func(token string) (context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(servertest.As(t.Context(), token))
		t.Cleanup(cancel)
		stream, err := s.Targets.WatchDecisions(ctx, &setpointv1.WatchDecisionsRequest{Parent: "clusters/demo/namespaces/-/targets/-"})
		if err == nil {
			_, err = stream.Recv()
		}
		return cancel, err
	}
	first, err := open(servertest.ReaderToken)
	fatal.If(t, err)
	if _, err := open(servertest.AdminToken); err != nil {
		t.Errorf("another caller: %v", err)
	}
	_, err = open(servertest.ReaderToken)
	told := false
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			d := info.GetRetryDelay().AsDuration()
			told = d >= 2*time.Second && d <= 8*time.Second
		}
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "of one caller") || !told {
		t.Errorf("one too many: %v, with %v", err, status.Convert(err).Details())
	}
	first()
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err = open(servertest.ReaderToken); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the first ended: %v", err)
		}
	}
}

// Without a feed the call says so.
func TestWithoutAFeedNothingIsWatched(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Log = logOnly{su.Log} })
	stream, err := s.Targets.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "--watch-buffer") {
		t.Errorf("%v", err)
	}
}

// Over REST the answer is a line of JSON for each response, as they come.
func TestWatchOverREST(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/v1/"+servertest.Everything+"/decisions:watch?changesOnly=true", nil)
	fatal.If(t, err)
	resp, err := s.HTTP.Do(req)
	fatal.If(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%s, %v", resp.Status, resp.Header)
	}
	lines := bufio.NewReader(resp.Body)
	line := func() (r struct {
		Result struct {
			Target, ResumeToken string
			Decision            struct{ Outcome string }
		}
		Error *struct{ Code int }
	}) {
		t.Helper()
		text, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return r
	}
	if first := line(); first.Result.ResumeToken == "" || first.Result.Target != "" {
		t.Errorf("the first line is %+v", first)
	}
	decide(t, s, "a", 60)
	if got := line(); got.Result.Target != targetNamed("a") || got.Result.Decision.Outcome != "PENDING" {
		t.Errorf("got %+v", got)
	}
	s.Stop()
	if got := line(); got.Error == nil || got.Error.Code != int(codes.Unavailable) {
		t.Errorf("at the end: %+v", got)
	}
}

// A watcher sees what the policy of the moment lets it see; a token counts for who was given it,
// and a watch ends with the last right.
func TestWatchersSeeWhatTheyMay(t *testing.T) {
	t.Parallel()
	y := servertest.NewTenancy(t, servertest.Tenants, servertest.TwoTenants)
	open := func(token, resume string) *watching {
		t.Helper()
		stream, err := y.Targets.WatchDecisions(servertest.As(t.Context(), token), &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, ResumeToken: resume})
		fatal.If(t, err)
		return &watching{t, stream, nil, ""}
	}
	red, blue := open("sp_red", ""), open("sp_blue", "")
	red.next()
	blue.next()
	y.Fill(t, "clusters/blue-1/namespaces/shop/targets/a", "clusters/red/namespaces/shop/targets/b", "clusters/blue-1/namespaces/other/targets/c")
	if r := red.decision(); r.GetTarget() != "clusters/red/namespaces/shop/targets/b" || r.GetMissedDecisions() > 0 || r.GetMissedUncounted() {
		t.Errorf("red sees %v", r)
	}
	if r := blue.decision(); r.GetTarget() != "clusters/blue-1/namespaces/shop/targets/a" {
		t.Errorf("blue sees %v", r)
	}
	open("sp_blue", red.token).wantEnd(codes.InvalidArgument)

	y.Reload(t, servertest.Tenants, strings.ReplaceAll(servertest.TwoTenants, "clusters: [red]", "clusters: [red], namespaces: [other]"))
	y.Fill(t, "clusters/red/namespaces/shop/targets/d", "clusters/red/namespaces/other/targets/e")
	if r := red.decision(); r.GetTarget() != "clusters/red/namespaces/other/targets/e" {
		t.Errorf("red, which may see less now, sees %v", r)
	}
	y.Reload(t, servertest.Tenants, strings.ReplaceAll(servertest.TwoTenants, "token:red", "token:nobody"))
	y.Fill(t, "clusters/red/namespaces/other/targets/f")
	red.wantEnd(codes.PermissionDenied)
}

// REST writes a response as it comes only if its fields are in their order.
func TestFieldsOfAResponseAreInOrder(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	decide(t, s, "a", 20)
	decide(t, s, "b", 20)
	for _, most := range []int32{1, 40} {
		stream, err := s.Conn.NewStream(t.Context(), &setpointv1.TargetService_ServiceDesc.Streams[0],
			setpointv1.TargetService_WatchDecisions_FullMethodName, grpc.ForceCodecV2(servertest.RawCodec{}))
		fatal.If(t, err)
		request := servertest.Encoded(t, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, MaxDecisions: most, StartTime: timestamppb.New(time.Unix(1, 0))})
		fatal.If(t, stream.SendMsg(&request))
		fatal.If(t, stream.CloseSend())
		for decisions := 0; decisions == 0; {
			var response []byte
			fatal.If(t, stream.RecvMsg(&response))
			var invalid error
			last := protowire.Number(0)
			for f := range protofields.Of(response, &invalid) {
				if f.Number < last {
					t.Errorf("of at most %d: field %d after %d", most, f.Number, last)
				}
				if last = f.Number; last == 2 || last == 6 {
					decisions++
				}
			}
			fatal.If(t, invalid)
		}
	}
}

// Who asks for it gets decisions together, with one place to go on from; nothing is lost or comes
// twice where it goes on.
func TestWatchersTakeManyDecisionsAtOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	const n = 300
	req := &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, MaxDecisions: 40}
	w := watch(t, s, req)
	for i := range n {
		s.Clock.Advance(time.Second)
		decide(t, s, fmt.Sprint("t", i), 20)
	}
	next, together := 0, 0
	for next < n {
		r := w.next()
		if r.GetTarget() != "" || r.GetDecision() != nil || r.GetMissedDecisions() > 0 || r.GetMissedUncounted() || len(r.GetDecisions()) > 40 {
			t.Fatalf("%v", r)
		}
		together = max(together, len(r.GetDecisions()))
		for _, d := range r.GetDecisions() {
			if d.GetTarget() != targetNamed(fmt.Sprint("t", next)) || d.GetDecision().GetOutcome() != "NONE" {
				t.Fatalf("got %v, want t%d", d, next)
			}
			next++
		}
		if len(r.GetDecisions()) > 0 && next < n && next > n/2 {
			w.cancel()
			w.wantEnd(codes.Canceled)
			req.ResumeToken = w.token
			w = watch(t, s, req)
		}
	}
	if together < 2 {
		t.Error("each decision came by itself")
	}
	stream, err := s.Targets.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, MaxDecisions: 1001})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("more than may be: %v", err)
	}
}
