package setpoint_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/store/memory"
)

type watchStream = setpointv1.TargetService_WatchDecisionsServer

const everything = "clusters/-/namespaces/-/targets/-"

// watchScript is the servers' side of each stream in turn, repeating the last one. It records
// with which token, and whether with a start time, each began.
type watchScript struct {
	parts []func(watchStream) error
	mu    sync.Mutex
	began []string // guarded by mu
}

func (s *watchScript) play(req *setpointv1.WatchDecisionsRequest, stream watchStream) error {
	s.mu.Lock()
	s.began = append(s.began, fmt.Sprintf("%s %t", req.GetResumeToken(), req.GetStartTime() != nil))
	part := s.parts[min(len(s.began), len(s.parts))-1]
	s.mu.Unlock()
	return part(stream)
}

// sends sends a response with each of the tokens, and ends with an error.
func sends(err error, tokens ...string) func(watchStream) error {
	return func(stream watchStream) error {
		for _, token := range tokens {
			response := &setpointv1.WatchDecisionsResponse{ResumeToken: token}
			if err := stream.Send(response); err != nil {
				return err
			}
		}
		return err
	}
}

// stays sends responses and then nothing.
func stays(tokens ...string) func(watchStream) error {
	return func(stream watchStream) error {
		if err := sends(nil, tokens...)(stream); err != nil {
			return err
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}
}

// tokenRefused is a server's error for a token of another store.
func tokenRefused() error {
	return problem(codes.InvalidArgument, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "resumeToken"}}})
}

func TestAWatchGoesOnWhereItWas(t *testing.T) {
	gone := status.Error(codes.Unavailable, "gone")
	fullFor := func(d time.Duration) error {
		return problem(codes.ResourceExhausted, &errdetails.ErrorInfo{Reason: "LIMIT_EXCEEDED", Domain: "setpoint.dev"}, comeBack(d))
	}
	full := problem(codes.ResourceExhausted, &errdetails.ErrorInfo{Reason: "LIMIT_EXCEEDED", Domain: "setpoint.dev"})
	for _, tt := range []struct {
		name  string
		parts []func(watchStream) error
		// got are the tokens, "!" for missed decisions, and the final code.
		got, began string
		interrupts int
		after      time.Duration // of the last stream
	}{
		{
			"after breaks, with growing delays",
			[]func(watchStream) error{sends(gone, "a", "b"), sends(gone), sends(gone), sends(status.Error(codes.PermissionDenied, ""), "c")},
			"a b c PermissionDenied", " true,b true,b true,b true", 3, (100 + 200 + 400) * ms,
		},
		{
			"where the server just ends the stream",
			[]func(watchStream) error{sends(nil, "a"), sends(status.Error(codes.Internal, ""), "b")},
			"a b Internal", " true,a true", 1, 100 * ms,
		},
		{
			"where a proxy ends the stream of an instance that is gone",
			[]func(watchStream) error{
				sends(status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL"), "a"),
				sends(status.Error(codes.Internal, "server closed the stream without sending trailers"), "b"),
				sends(problem(codes.Internal, &errdetails.ErrorInfo{Reason: "UNEXPECTED", Domain: "setpoint.dev"})),
			},
			"a b Internal", " true,a true,b true", 2, 300 * ms,
		},
		{
			"where it hears nothing for long",
			[]func(watchStream) error{stays("a"), sends(status.Error(codes.Internal, ""), "b")},
			"a b Internal", " true,a true", 1, 45*time.Second + 100*ms,
		},
		{
			"where the first server is silent",
			[]func(watchStream) error{stays(), sends(status.Error(codes.Internal, ""), "b")},
			"b Internal", " true, true", 1, 4*time.Second + 100*ms,
		},
		{
			"without the token, where it is not known any more",
			[]func(watchStream) error{sends(gone, "a"), sends(tokenRefused()), sends(gone, "b", "c"), sends(status.Error(codes.Internal, ""))},
			"a b! c Internal", " true,a true, false,c false", 3, (100 + 200 + 400) * ms,
		},
		{
			"with credentials that may have been renewed",
			[]func(watchStream) error{sends(status.Error(codes.Unauthenticated, ""), "a"), sends(status.Error(codes.Unauthenticated, ""))},
			"a Unauthenticated", " true,a true", 1, 100 * ms,
		},
		{
			"where instances are full for a while",
			[]func(watchStream) error{sends(gone, "a"), sends(full), sends(status.Error(codes.Internal, ""))},
			"a Internal", " true,a true,a true", 2, 100*ms + 2*time.Second + 200*ms,
		},
		{
			"where they are full, and say for how long",
			[]func(watchStream) error{sends(gone, "a"), sends(fullFor(5 * time.Second)), sends(fullFor(time.Second)), sends(status.Error(codes.Internal, ""))},
			"a Internal", " true,a true,a true,a true", 3, 100*ms + 5*time.Second + 200*ms + 2*time.Second + 400*ms,
		},
		{
			"in minutes where they say days",
			[]func(watchStream) error{sends(fullFor(100 * time.Hour)), sends(gone, "a"), sends(problem(codes.Unavailable, comeBack(100*time.Hour))), sends(fullFor(100 * time.Hour)), sends(status.Error(codes.Internal, ""))},
			"a Internal", " true, true,a true,a true,a true", 4, 3*5*time.Minute + (100+200+400+800)*ms,
		},
		{
			"not where they are full from the start",
			[]func(watchStream) error{sends(full)},
			"ResourceExhausted", " true", 0, 0,
		},
		{
			"not for ever where nobody was ever there",
			[]func(watchStream) error{sends(gone)},
			"Unavailable", " true, true, true, true", 3, (100 + 200 + 400) * ms,
		},
		{
			"for ever where somebody was",
			append(append([]func(watchStream) error{sends(gone, "a")}, slices.Repeat([]func(watchStream) error{sends(gone)}, 20)...), sends(status.Error(codes.NotFound, ""))),
			"a NotFound", " true" + strings.Repeat(",a true", 21), 21, 700*ms + 800*ms + 1600*ms + 16*2*time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := &watchScript{parts: tt.parts}
				f := &fake{watch: script.play}
				client := f.serve(t, two)
				var got []string
				interrupts := 0
				req := &setpointv1.WatchDecisionsRequest{Parent: everything, StartTime: timestamppb.Now()}
				for r, err := range client.WatchDecisions(t.Context(), req, func(error) { interrupts++ }) {
					switch {
					case err != nil:
						got = append(got, status.Code(err).String())
					case r.GetMissedUncounted():
						got = append(got, r.GetResumeToken()+"!")
					default:
						got = append(got, r.GetResumeToken())
					}
				}
				if got := strings.Join(got, " "); got != tt.got {
					t.Errorf("got %s, want %s", got, tt.got)
				}
				if began := strings.Join(script.began, ","); began != tt.began {
					t.Errorf("streams began with %s, want %s", began, tt.began)
				}
				if times := f.times(); times[len(times)-1] != tt.after || interrupts != tt.interrupts {
					t.Errorf("streams came at %v, interrupted %d times; want the last at %v, %d times", times, interrupts, tt.after, tt.interrupts)
				}
				if req.GetResumeToken() != "" || req.GetStartTime() == nil {
					t.Errorf("the caller's request is %v now", req)
				}
			})
		})
	}
}

// Decisions that came together are yielded one by one, unless the caller asked for them together.
func TestAWatchTakesDecisionsApart(t *testing.T) {
	for _, tt := range []struct {
		asked, sent int32
		want        string
	}{
		{0, 1000, "a: b: b:d1!3 b:d2 c:d3 d: Internal"},
		{1, 1, "a: b: c:d1+d2+d3!3 d: Internal"}, // which a server does not do
		{7, 7, "a: b: c:d1+d2+d3!3 d: Internal"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var sent int32
			play := func(req *setpointv1.WatchDecisionsRequest, stream watchStream) error {
				sent = req.GetMaxDecisions()
				together := &setpointv1.WatchDecisionsResponse{ResumeToken: "c", MissedDecisions: 3}
				for _, id := range []string{"d1", "d2", "d3"} {
					together.Decisions = append(together.Decisions, &setpointv1.WatchedDecision{Target: "of " + id, Decision: &setpointv1.Decision{RecommendationId: id}})
				}
				for _, r := range []*setpointv1.WatchDecisionsResponse{{ResumeToken: "a"}, {ResumeToken: "b"}, together, {ResumeToken: "d"}} {
					if err := stream.Send(r); err != nil {
						return err
					}
				}
				return status.Error(codes.Internal, "")
			}
			client := (&fake{watch: play}).serve(t, two)
			var got []string
			for r, err := range client.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: everything, MaxDecisions: tt.asked}, nil) {
				if err != nil {
					got = append(got, status.Code(err).String())
					continue
				}
				var ids []string
				for _, d := range r.GetDecisions() {
					ids = append(ids, d.GetDecision().GetRecommendationId())
				}
				if d := r.GetDecision(); d != nil {
					ids = append(ids, d.GetRecommendationId())
					if r.GetTarget() != "of "+d.GetRecommendationId() {
						t.Errorf("%s is about %s", d.GetRecommendationId(), r.GetTarget())
					}
				}
				one := r.GetResumeToken() + ":" + strings.Join(ids, "+")
				if n := r.GetMissedDecisions(); n > 0 {
					one += fmt.Sprint("!", n)
				}
				got = append(got, one)
			}
			if got := strings.Join(got, " "); got != tt.want || sent != tt.sent {
				t.Errorf("asked for %d: got %s of a request for %d, want %s of one for %d", tt.asked, got, sent, tt.want, tt.sent)
			}
		})
	}
}

// late hands out what a stream received only after a while, as a process does that was paused.
type late struct {
	grpc.ClientStream
	after time.Duration
}

func (l late) RecvMsg(m any) error {
	err := l.ClientStream.RecvMsg(m)
	if r, ok := m.(*setpointv1.WatchDecisionsResponse); ok && len(r.GetDecisions()) > 0 {
		time.Sleep(l.after)
	}
	return err
}

// Decisions that arrive as the watch gives up its stream are not lost: the next one begins after them.
func TestAWatchTakesWhatItReceivedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := &watchScript{parts: []func(watchStream) error{func(stream watchStream) error {
			together := &setpointv1.WatchDecisionsResponse{ResumeToken: "b"}
			for _, id := range []string{"d1", "d2"} {
				together.Decisions = append(together.Decisions, &setpointv1.WatchedDecision{Decision: &setpointv1.Decision{RecommendationId: id}})
			}
			if err := stream.Send(&setpointv1.WatchDecisionsResponse{ResumeToken: "a"}); err != nil {
				return err
			}
			if err := stream.Send(together); err != nil {
				return err
			}
			<-stream.Context().Done()
			return nil
		}, sends(status.Error(codes.Internal, ""))}}
		client := (&fake{watch: script.play}).serve(t, two, setpoint.WithDialOptions(grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := open(ctx, desc, cc, method, options...)
				return late{stream, time.Minute}, err
			})))
		var got []string
		for r, err := range client.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: everything}, nil) {
			if err != nil {
				got = append(got, status.Code(err).String())
			} else if d := r.GetDecision(); d != nil {
				got = append(got, d.GetRecommendationId())
			}
		}
		if want := []string{"d1", "d2", "Internal"}; !slices.Equal(got, want) || strings.Join(script.began, ",") != " false,b false" {
			t.Errorf("got %v of streams that began with %q, want %v", got, script.began, want)
		}
	})
}

// A slow caller is no silent server: the watch waits for it.
func TestAWatchWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := &watchScript{parts: []func(watchStream) error{stays("a", "b")}}
		client := (&fake{watch: script.play}).serve(t, two)
		n := 0
		for _, err := range client.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: everything}, nil) {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			if n++; n == 2 {
				break
			}
		}
		if len(script.began) != 1 {
			t.Errorf("%d streams were opened, want one", len(script.began))
		}
	})
}

func TestAWatchEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		part func(watchStream) error
		end  func(cancel context.CancelFunc, client *setpoint.Client)
		want codes.Code
	}{
		"with its context":            {stays("a"), func(cancel context.CancelFunc, _ *setpoint.Client) { cancel() }, codes.Canceled},
		"with its deadline":           {stays("a"), func(context.CancelFunc, *setpoint.Client) {}, codes.DeadlineExceeded},
		"with its client":             {stays("a"), func(_ context.CancelFunc, client *setpoint.Client) { _ = client.Close() }, codes.Canceled},
		"with its context in a delay": {sends(problem(codes.Unavailable, comeBack(time.Hour)), "a"), func(cancel context.CancelFunc, _ *setpoint.Client) { cancel() }, codes.Canceled},
		"with its client in a delay":  {sends(problem(codes.Unavailable, comeBack(time.Hour)), "a"), func(_ context.CancelFunc, client *setpoint.Client) { _ = client.Close() }, codes.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// What a stream failed with that another one followed is over.
				script := &watchScript{parts: []func(watchStream) error{sends(problem(codes.Unavailable)), tt.part}}
				client := (&fake{watch: script.play}).serve(t, two)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				time.AfterFunc(20*time.Second, func() { tt.end(cancel, client) })
				var ends []error
				for _, err := range client.WatchDecisions(ctx, &setpointv1.WatchDecisionsRequest{Parent: everything}, nil) {
					if err != nil {
						ends = append(ends, err)
					}
				}
				if len(ends) != 1 || status.Code(ends[0]) != tt.want || strings.Contains(ends[0].Error(), "earlier") {
					t.Errorf("it ended with %v, want %s once", ends, tt.want)
				}
			})
		})
	}
}

// followed is a watch of a real service, pulled response by response.
type followed struct {
	tb   testing.TB
	next func() (*setpointv1.WatchDecisionsResponse, error, bool)
	// missed and uncounted are the missed decisions so far.
	missed    int
	uncounted bool
}

func follow(tb testing.TB, client *setpoint.Client) *followed {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	next, stop := iter.Pull2(client.WatchDecisions(ctx, &setpointv1.WatchDecisionsRequest{Parent: everything}, nil))
	tb.Cleanup(cancel)
	tb.Cleanup(stop)
	w := &followed{tb: tb, next: next}
	w.response() // it is there
	return w
}

func (w *followed) response() *setpointv1.WatchDecisionsResponse {
	w.tb.Helper()
	r, err, ok := w.next()
	if err != nil || !ok {
		w.tb.Fatalf("the watch ended: %v", err)
	}
	w.missed += int(r.GetMissedDecisions())
	w.uncounted = w.uncounted || r.GetMissedUncounted()
	return r
}

// decision returns the target and count of the next decision.
func (w *followed) decision() string {
	w.tb.Helper()
	for {
		if r := w.response(); r.GetDecision() != nil {
			return fmt.Sprint(r.GetTarget(), " ", r.GetDecision().GetDesiredReplicas())
		}
	}
}

// A watch of servers that are killed, drained and restarted gets every decision, once.
func TestAWatchOutlivesServers(t *testing.T) {
	t.Parallel()
	const cycles, each = 6, 10
	f := startFleet(t, 2)
	client := f.client(patient, reconnecting, setpoint.WithTimeout(2*time.Minute))
	w := follow(t, client)
	var asking sync.WaitGroup
	var want []string
	for i := range cycles {
		name := f.names[i%len(f.names)]
		var mine []string
		for n := range each {
			mine = append(mine, fmt.Sprintf("%s-%d-%d", web, i, n))
		}
		asking.Go(func() { // while the servers come and go
			for _, target := range mine {
				if _, err := client.Recommend(t.Context(), queue(target, 5, 50)); err != nil {
					t.Error(err)
				}
			}
		})
		if i%2 == 0 {
			f.kill(name)
		} else {
			f.drain(name)
		}
		f.start(name)
		var got []string
		for range mine {
			got = append(got, w.decision())
		}
		asking.Wait()
		slices.Sort(got) // two servers write at the same time
		for n, target := range mine {
			want = append(want, target)
			if got[n] != target+" 5" {
				t.Errorf("decision %d of cycle %d is %s, want %s 5", n, i, got[n], target)
			}
		}
	}
	if w.missed > 0 || w.uncounted {
		t.Errorf("after %d decisions %d were missed, uncounted %t", len(want), w.missed, w.uncounted)
	}
}

// A watcher that was away for longer than the feed's buffer learns how many decisions it
// missed.
func TestAWatchTellsWhatTheFeedHoldsNoLonger(t *testing.T) {
	t.Parallel()
	const kept, made = 10, 100
	f := startFleet(t, 2, func(f *fleet) { f.store = newShared(memory.Options{FeedLength: kept}) })
	watcher := f.directory.client(t, f.names[:1], setpoint.WithInsecure(), patient, reconnecting)
	w := follow(t, watcher)
	if _, err := watcher.Recommend(t.Context(), queue(web, 5, 50)); err != nil {
		t.Fatal(err)
	}
	w.decision()
	f.drain(f.names[0])
	asker := f.directory.client(t, f.names[1:], setpoint.WithInsecure(), setpoint.WithTimeout(2*time.Minute))
	for i := range made {
		if _, err := asker.Recommend(t.Context(), queue(fmt.Sprint(web, i), 5, 50)); err != nil {
			t.Fatal(err)
		}
	}
	f.drain(f.names[1]) // which writes what waits
	f.start(f.names[0])
	for i := made - kept; i < made; i++ {
		if got, want := w.decision(), fmt.Sprint(web, i, " 5"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if w.missed != made-kept || w.uncounted {
		t.Errorf("%d were missed, uncounted %t; want %d", w.missed, w.uncounted, made-kept)
	}
}

// A service with another store knows no earlier tokens.
func TestAWatchBeginsAnewWhereTheStoreIsLost(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1)
	client := f.client(patient, reconnecting, setpoint.WithTimeout(2*time.Minute))
	w := follow(t, client)
	if w.uncounted {
		t.Error("it missed decisions before it began")
	}
	f.drain(f.names[0])
	f.store = newShared(memory.Options{})
	f.start(f.names[0])
	for !w.uncounted {
		w.response() // fails after a timeout
	}
	if _, err := client.Recommend(t.Context(), queue(web, 5, 50)); err != nil {
		t.Fatal(err)
	}
	if got := w.decision(); got != web+" 5" {
		t.Errorf("got %s", got)
	}
}
