package setpoint_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var (
	queue    = answertest.Queue
	problem  = answertest.Problem
	comeBack = answertest.ComeBack
)

func TestMain(m *testing.M) {
	// gRPC would print the errors that some tests cause.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	goleak.VerifyTestMain(m)
}

const web = "clusters/demo/namespaces/shop/targets/web"

// wantCode fails the test unless the error has that code.
func wantCode(tb testing.TB, err error, want codes.Code) {
	tb.Helper()
	if status.Code(err) != want {
		tb.Fatalf("got %v, want %s", err, want)
	}
}

// directory maps names of servers to where they listen.
type directory struct {
	mu    sync.Mutex
	dials map[string]func(context.Context) (net.Conn, error) // guarded by mu
}

func (d *directory) set(name string, dial func(context.Context) (net.Conn, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dials == nil {
		d.dials = make(map[string]func(context.Context) (net.Conn, error))
	}
	d.dials[name] = dial
}

func (d *directory) dial(ctx context.Context, name string) (net.Conn, error) {
	d.mu.Lock()
	dial := d.dials[name]
	d.mu.Unlock()
	if dial == nil {
		return nil, errors.New("nobody listens at " + name)
	}
	return dial(ctx)
}

// client returns a client of all those names, without TLS unless the options set it, closed
// with the test. Its delays are the longest ones.
func (d *directory) client(tb testing.TB, names []string, options ...setpoint.Option) *setpoint.Client {
	tb.Helper()
	options = append([]setpoint.Option{setpoint.WithDialOptions(grpc.WithContextDialer(d.dial))}, options...)
	target := strings.Join(names, ",")
	if len(names) == 1 {
		target = "passthrough:///" + target // no DNS
	}
	client, err := setpoint.New(target, options...)
	fatal.If(tb, err)
	client.SetRandom(func(most time.Duration) time.Duration { return most })
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// fake is a server whose answers the test chooses. It records its calls.
type fake struct {
	setpointv1.UnimplementedRecommendationServiceServer
	setpointv1.UnimplementedTargetServiceServer
	setpointv1.UnimplementedOverrideServiceServer

	recommend func(ctx context.Context, call *fakeCall) (*setpointv1.RecommendResponse, error)
	batch     func(ctx context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error)
	stream    func(stream setpointv1.RecommendationService_StreamRecommendServer) error
	write     func(attempt int) error
	watch     func(req *setpointv1.WatchDecisionsRequest, stream watchStream) error
	// strict enforces gRPC's default limit on pings.
	strict bool

	begun time.Time

	mu    sync.Mutex
	calls []*fakeCall // guarded by mu; of Recommend, DeleteTarget and WatchDecisions
}

// fakeCall is one attempt as seen by servers.
type fakeCall struct {
	number int // from 1, over all servers
	server string
	after  time.Duration // since the first server was started
	req    *setpointv1.RecommendRequest
}

type serverKey struct{}

func (f *fake) note(ctx context.Context, req *setpointv1.RecommendRequest) *fakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, _ := ctx.Value(serverKey{}).(string)
	call := &fakeCall{number: len(f.calls) + 1, server: name, after: time.Since(f.begun), req: req}
	f.calls = append(f.calls, call)
	return call
}

// times returns when the attempts arrived.
func (f *fake) times() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []time.Duration
	for _, call := range f.calls {
		all = append(all, call.after)
	}
	return all
}

func (f *fake) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return f.recommend(ctx, f.note(ctx, req))
}

func (f *fake) BatchRecommend(ctx context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
	return f.batch(ctx, req)
}

func (f *fake) StreamRecommend(stream setpointv1.RecommendationService_StreamRecommendServer) error {
	return f.stream(stream)
}

func (f *fake) DeleteTarget(ctx context.Context, _ *setpointv1.DeleteTargetRequest) (*setpointv1.DeleteTargetResponse, error) {
	return &setpointv1.DeleteTargetResponse{}, f.write(f.note(ctx, nil).number)
}

func (f *fake) CreateOverride(ctx context.Context, _ *setpointv1.CreateOverrideRequest) (*setpointv1.CreateOverrideResponse, error) {
	return &setpointv1.CreateOverrideResponse{}, f.write(f.note(ctx, nil).number)
}

func (f *fake) DeleteOverride(ctx context.Context, _ *setpointv1.DeleteOverrideRequest) (*setpointv1.DeleteOverrideResponse, error) {
	return &setpointv1.DeleteOverrideResponse{}, f.write(f.note(ctx, nil).number)
}

func (f *fake) WatchDecisions(req *setpointv1.WatchDecisionsRequest, stream watchStream) error {
	f.note(stream.Context(), nil)
	return f.watch(req, stream)
}

// serve serves the fake under each of the names, in memory, until the test ends, and returns a
// client of them. In a bubble it uses the bubble's time.
func (f *fake) serve(t testing.TB, names []string, options ...setpoint.Option) *setpoint.Client {
	t.Helper()
	f.begun = time.Now()
	var all directory
	for _, name := range names {
		listener := bufconn.Listen(1 << 20)
		allowed := keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true} // like the real server
		if f.strict {
			allowed = keepalive.EnforcementPolicy{}
		}
		server := grpc.NewServer(
			grpc.KeepaliveEnforcementPolicy(allowed),
			grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				return handle(context.WithValue(ctx, serverKey{}, name), req)
			}),
			grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
				return handle(srv, namedStream{stream, name})
			}))
		setpointv1.RegisterRecommendationServiceServer(server, f)
		setpointv1.RegisterTargetServiceServer(server, f)
		setpointv1.RegisterOverrideServiceServer(server, f)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		all.set(name, listener.DialContext)
	}
	return all.client(t, names, append([]setpoint.Option{setpoint.WithInsecure()}, options...)...)
}

// namedStream knows its server.
type namedStream struct {
	grpc.ServerStream
	name string
}

func (s namedStream) Context() context.Context {
	return context.WithValue(s.ServerStream.Context(), serverKey{}, s.name)
}

// connect waits until a call can be sent to any of n servers.
func connect(t testing.TB, client *setpoint.Client, f *fake, n int) {
	t.Helper()
	kept := f.recommend
	seen := map[string]bool{}
	f.recommend = func(_ context.Context, call *fakeCall) (*setpointv1.RecommendResponse, error) {
		seen[call.server] = true
		return &setpointv1.RecommendResponse{}, nil
	}
	for tries := 0; len(seen) < n; tries++ {
		if tries == 1000 {
			t.Fatalf("only %v can be reached", seen)
		}
		if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	f.recommend, f.calls, f.begun = kept, nil, time.Now()
}

var two = []string{"a:1", "b:1"}
