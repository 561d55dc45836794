//go:build linux

package languages

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// watch opens a watch, and returns the first response.
func watch(t *testing.T, c client, request *setpointv1.WatchDecisionsRequest) (*setpointv1.WatchDecisionsResponse, *failure) {
	t.Helper()
	result := c.do(t, map[string]any{"op": "watch", "request": object(t, request)})
	if result.Error != nil {
		return nil, result.Error
	}
	return into(t, result, &setpointv1.WatchDecisionsResponse{}), nil
}

// next returns responses until so many decisions came.
func next(t *testing.T, c client, decisions int) (all []*setpointv1.WatchDecisionsResponse) {
	t.Helper()
	result := c.do(t, map[string]any{"op": "next", "count": decisions})
	if result.Error != nil {
		t.Fatal(result.Error)
	}
	for _, one := range result.Results {
		all = append(all, into(t, one, &setpointv1.WatchDecisionsResponse{}))
	}
	return all
}

// namespaceOf stands for all targets of a test.
func namespaceOf(t *testing.T) string {
	return target(t, "-")
}

// A watch outlives the service's instances: they are stopped and killed, and every decision comes
// once. Those of one target that different instances made come in the order in which these wrote
// them.
func TestWatchesLoseAndDoubleNothing(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	each(t, func(t *testing.T, l language) {
		instances := service.StartAll(t, 2, "--redis="+redis.URL())
		both := []string{at(l, instances[0]), at(l, instances[1])}
		policy := retry{MaxAttempts: 60, MaxDelay: 1, AttemptTimeout: 5}
		watcher := open(t, l, config{Target: strings.Join(both, ","), Insecure: true, Retry: policy})
		if first, err := watch(t, watcher, &setpointv1.WatchDecisionsRequest{Parent: namespaceOf(t)}); err != nil || first.GetDecision() != nil {
			t.Fatalf("the first response is %v, %v", first, err)
		}
		caller := open(t, l, config{Target: strings.Join(both, ","), Insecure: true, Timeout: 60, Retry: policy})
		web := target(t, "web")
		var want, got []string
		check := func() {
			t.Helper()
			for _, r := range next(t, watcher, len(want)-len(got)) {
				if r.GetMissedDecisions() > 0 || r.GetMissedUncounted() {
					t.Errorf("%d decisions were missed, uncounted %v", r.GetMissedDecisions(), r.GetMissedUncounted())
				}
				if r.GetDecision() != nil {
					got = append(got, r.GetDecision().GetRecommendationId())
				}
			}
		}
		const last = 24 // it is waited for alone: what comes twice of those before comes in its place
		for i := range last + 1 {
			switch i {
			case 4:
				instances[0].Stop()
			case 8:
				instances[0].Restart()
			case 12:
				instances[1].Kill()
			case 16:
				instances[1].Restart()
			case 20:
				instances[0].Kill()
			}
			answer, err := recommend(t, caller, queue(web, 3, 30)) // which changes nothing: it is told once
			wantCode(t, err, "OK")
			want = append(want, answer.GetRecommendationId())
			if i%4 == 3 || i == last {
				// Before the next is killed: what it has not written yet would be lost to all.
				check()
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the watch had\n%v\nwant\n%v", got, want)
		}
		if err := watcher.do(t, map[string]any{"op": "unwatch"}).Error; err != nil {
			t.Error(err)
		}
	})
}

// script is a service whose streams do what a function says; n counts them from 1. A token like
// "1+2" is that of a response with several decisions.
type script struct {
	setpointv1.UnimplementedTargetServiceServer
	play func(n int, request *setpointv1.WatchDecisionsRequest, send func(token string, decision bool) error, ctx context.Context) error

	mu       sync.Mutex
	requests []*setpointv1.WatchDecisionsRequest // guarded by mu
}

func (s *script) WatchDecisions(r *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
	s.mu.Lock()
	s.requests = append(s.requests, proto.CloneOf(r))
	n := len(s.requests)
	s.mu.Unlock()
	return s.play(n, r, func(token string, decision bool) error {
		response := &setpointv1.WatchDecisionsResponse{ResumeToken: token}
		switch ids := strings.Split(token, "+"); {
		case len(ids) > 1:
			for _, id := range ids {
				response.Decisions = append(response.Decisions, &setpointv1.WatchedDecision{
					Target: "clusters/c/namespaces/n/targets/" + id, Decision: &setpointv1.Decision{RecommendationId: id},
				})
			}
		case decision:
			response.Target, response.Decision = "clusters/c/namespaces/n/targets/"+token, &setpointv1.Decision{RecommendationId: token}
		}
		return stream.Send(response)
	}, stream.Context())
}

// GetTarget fails as a service does that is away.
func (s *script) GetTarget(context.Context, *setpointv1.GetTargetRequest) (*setpointv1.GetTargetResponse, error) {
	return nil, problem(codes.Unavailable)
}

// seen are the requests so far.
func (s *script) seen() []*setpointv1.WatchDecisionsRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*setpointv1.WatchDecisionsRequest(nil), s.requests...)
}

// serve starts it for clients of a language, and returns where it is.
func (s *script) serve(t *testing.T, l language) string {
	t.Helper()
	return serve(t, l, func(server *grpc.Server) { setpointv1.RegisterTargetServiceServer(server, s) }, setpointv1.RegisterTargetServiceHandler)
}

// serve starts a service for clients of a language, and returns where it is.
func serve(t *testing.T, l language, register func(*grpc.Server), handle func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error) string {
	t.Helper()
	listen := func() net.Listener {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		fatal.If(t, err)
		return listener
	}
	listener := listen()
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	if !l.rest {
		return listener.Addr().String()
	}
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	mux := runtime.NewServeMux()
	fatal.If(t, handle(t.Context(), mux, conn))
	front, web := listen(), &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(front) }()
	t.Cleanup(func() { _ = web.Close() })
	return "http://" + front.Addr().String()
}

// What a watch does when its streams end.
func TestWatchesComeBack(t *testing.T) {
	refused := problem(codes.InvalidArgument, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "resumeToken"}}})
	full := problem(codes.ResourceExhausted, &errdetails.ErrorInfo{Domain: "setpoint.dev", Reason: "LIMIT_EXCEEDED"})
	type sends = func(string, bool) error
	decide := func(send sends, tokens ...string) error {
		for _, token := range tokens {
			if err := send(token, true); err != nil {
				return err
			}
		}
		return nil
	}
	for _, tt := range []struct {
		name  string
		retry retry
		play  func(n int, request *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error
		// opens is the code of the first response, count how many decisions are read then.
		opens string
		count int
		// want are tokens that come, "missed" before one that says so, and asked those of the
		// requests, "from" for one with a start time.
		want, asked string
	}{
		{
			name: "a stream that breaks is followed by one with its token", retry: fast, opens: "OK", count: 3, want: "1 2 3", asked: "from 0,from 2",
			play: func(n int, _ *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error {
				if n == 1 {
					_ = send("0", false)
					_ = decide(send, "1", "2")
					return problem(codes.Unavailable)
				}
				_ = send("2", false)
				_ = decide(send, "3")
				<-ctx.Done()
				return nil
			},
		},
		{
			name: "a stream that a proxy resets is followed by another", retry: fast, opens: "OK", count: 4, want: "1 2 3 4", asked: "from 0,from 1,from 2,from 3",
			play: func(n int, _ *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error {
				_ = send(fmt.Sprint(n-1), false)
				_ = decide(send, fmt.Sprint(n))
				if n == 4 {
					<-ctx.Done()
				}
				return status.Error([]codes.Code{codes.Canceled, codes.Unknown, codes.Internal, codes.OK}[n-1], "stream terminated by RST_STREAM")
			},
		},
		{
			name: "a stream that ends is followed by another", retry: fast, opens: "OK", count: 2, want: "1 2", asked: "from 0,from 1",
			play: func(n int, _ *setpointv1.WatchDecisionsRequest, send func(string, bool) error, _ context.Context) error {
				_ = send(fmt.Sprint(n-1), false)
				return decide(send, fmt.Sprint(n))
			},
		},
		{
			name: "a token that nobody knows begins anew, and is told", retry: fast, opens: "OK", count: 2, want: "1 missed 8", asked: "from 0,from 1, ",
			play: func(n int, request *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error {
				switch {
				case n == 1:
					_ = send("0", false)
					_ = decide(send, "1")
					return problem(codes.Unavailable)
				case request.GetResumeToken() != "":
					return refused
				}
				_ = decide(send, "8")
				<-ctx.Done()
				return nil
			},
		},
		{
			name: "as many watchers as there may be", retry: retry{BaseDelay: .001, MaxDelay: .05}, opens: "OK", count: 2, want: "1 2", asked: "from 0,from 1,from 1,from 1",
			play: func(n int, _ *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error {
				switch n {
				case 1:
					_ = send("0", false)
					_ = decide(send, "1")
					return problem(codes.Unavailable)
				case 2, 3:
					return full
				}
				_ = decide(send, "2")
				<-ctx.Done()
				return nil
			},
		},
		{
			name: "a service that says nothing", retry: retry{BaseDelay: .001, MaxDelay: .001, AttemptTimeout: .5}, opens: "OK", count: 1, want: "1", asked: "from 0,from 0",
			play: func(n int, _ *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error {
				if n > 1 {
					_ = send("0", false)
					_ = decide(send, "1")
				}
				<-ctx.Done()
				return nil
			},
		},
		{
			name: "what never answers is given up", retry: retry{MaxAttempts: 3, BaseDelay: .001, MaxDelay: .001}, opens: "UNAVAILABLE", asked: "from 0,from 0,from 0",
			play: func(int, *setpointv1.WatchDecisionsRequest, func(string, bool) error, context.Context) error {
				return problem(codes.Unavailable)
			},
		},
		{
			name: "what does not pass ends it", retry: fast, opens: "PERMISSION_DENIED", asked: "from 0",
			play: func(int, *setpointv1.WatchDecisionsRequest, func(string, bool) error, context.Context) error {
				return problem(codes.PermissionDenied)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, l language) {
				s := &script{play: tt.play}
				c := open(t, l, config{Target: s.serve(t, l), Insecure: true, Retry: tt.retry})
				_, err := watch(t, c, &setpointv1.WatchDecisionsRequest{
					Parent: "clusters/-/namespaces/-/targets/-", ResumeToken: "0", StartTime: timestamppb.New(time.Unix(1, 0)),
				})
				wantCode(t, err, tt.opens)
				var got, asked []string
				if tt.count > 0 {
					for _, r := range next(t, c, tt.count) {
						if r.GetMissedUncounted() {
							got = append(got, "missed")
						}
						if r.GetDecision() != nil {
							got = append(got, r.GetResumeToken())
						}
					}
				}
				if tt.opens == "OK" {
					c.do(t, map[string]any{"op": "unwatch"})
				}
				for _, r := range s.seen() {
					from := ""
					if r.GetStartTime() != nil {
						from = "from"
					}
					asked = append(asked, from+" "+r.GetResumeToken())
				}
				if strings.Join(got, " ") != tt.want {
					t.Errorf("the watch had %q, want %q", strings.Join(got, " "), tt.want)
				}
				if strings.Join(asked, ",") != tt.asked {
					t.Errorf("it asked from %q, want %q", strings.Join(asked, ","), tt.asked)
				}
			})
		})
	}
}

// Whoever closes a client ends its watches: those on connections that others have replaced since, and those between
// two streams.
func TestClosingEndsWatches(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(context.Context) error
		// fail is how many calls fail before, a second apart: then a client may begin another connection.
		fail int
	}{
		{"on a stream", func(ctx context.Context) error { <-ctx.Done(); return nil }, 0},
		{"on an earlier connection", func(ctx context.Context) error { <-ctx.Done(); return nil }, 2},
		{"in a delay", func(context.Context) error { return problem(codes.Unavailable, comeBack(60*24*time.Hour)) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, l language) {
				s := &script{play: func(_ int, _ *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error {
					_ = send("0", false)
					return tt.then(ctx)
				}}
				c := open(t, l, config{Target: s.serve(t, l), Insecure: true, Retry: retry{MaxAttempts: 1}})
				_, err := watch(t, c, &setpointv1.WatchDecisionsRequest{Parent: "clusters/-/namespaces/-/targets/-"})
				wantCode(t, err, "OK")
				for range tt.fail {
					wantCode(t, c.do(t, map[string]any{"op": "get", "name": "clusters/c/namespaces/n/targets/t"}).Error, "UNAVAILABLE")
					time.Sleep(1100 * time.Millisecond)
				}
				began := time.Now()
				end := c.do(t, map[string]any{"op": "closeAmidWatch", "after": 0.7}).Error
				if wantCode(t, end, "CANCELLED"); strings.Contains(end.Message, "the caller") {
					t.Errorf("it ended with %v", end)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := len(s.seen()); n != 1 {
					t.Errorf("%d streams were opened", n)
				}
			})
		})
	}
}

// A watch asks for several decisions in a response, and hands them out one by one; it goes on
// after all of them.
func TestWatchesTakeDecisionsApart(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		s := &script{}
		s.play = func(n int, request *setpointv1.WatchDecisionsRequest, send func(string, bool) error, ctx context.Context) error {
			switch n {
			case 1:
				_ = send("0", false)
				_ = send("1+2+3", true)
				return problem(codes.Unavailable)
			case 2:
				_ = send("4", true)
				_ = send("5+6", true)
			}
			<-ctx.Done()
			return nil
		}
		c := open(t, l, config{Target: s.serve(t, l), Insecure: true, Retry: fast})
		_, err := watch(t, c, &setpointv1.WatchDecisionsRequest{Parent: "clusters/-/namespaces/-/targets/-"})
		wantCode(t, err, "OK")
		var got []string
		for _, r := range next(t, c, 6) {
			if d := r.GetDecision(); d != nil {
				got = append(got, d.GetRecommendationId()+":"+r.GetResumeToken())
				if want := "clusters/c/namespaces/n/targets/" + d.GetRecommendationId(); r.GetTarget() != want {
					t.Errorf("%s is about %s", d.GetRecommendationId(), r.GetTarget())
				}
			}
		}
		c.do(t, map[string]any{"op": "unwatch"})
		if got, want := strings.Join(got, " "), "1:0 2:0 3:1+2+3 4:4 5:4 6:5+6"; got != want {
			t.Errorf("the watch had %q, want %q", got, want)
		}
		var asked []string
		for _, r := range s.seen() {
			asked = append(asked, fmt.Sprint(r.GetMaxDecisions(), " ", r.GetResumeToken()))
		}
		if got, want := strings.Join(asked, ","), "1000 ,1000 1+2+3"; got != want {
			t.Errorf("it asked for %q, want %q", got, want)
		}
	})
}
