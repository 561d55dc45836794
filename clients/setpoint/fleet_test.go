package setpoint_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// fleet is real servers on one store, like instances on one Redis. They listen on loopback,
// each time on another port; their names stay.
type fleet struct {
	directory
	tb      testing.TB
	options server.Options
	tls     *tls.Config // nil: without
	store   *shared

	names   []string
	running map[string]*instance
}

// shared is a store with one secret for all instances, as Redis has.
type shared struct {
	*memory.Store

	mu     sync.Mutex
	secret []byte // guarded by mu
}

func newShared(options memory.Options) *shared { return &shared{Store: memory.New(options)} }

// Secret implements store.Secrets: the first proposal wins.
func (s *shared) Secret(_ context.Context, _ string, proposal []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secret == nil {
		s.secret = bytes.Clone(proposal)
	}
	return s.secret, nil
}

type instance struct {
	listener *severed
	stop     context.CancelFunc
	served   chan error
	// killed reports that its listener was closed under it.
	killed bool

	mu   sync.Mutex
	gone bool // guarded by mu
}

// dial connects to the instance if it still exists: its old port may belong to a server of
// another test, which must not get this one's requests.
func (i *instance) dial(ctx context.Context) (net.Conn, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.gone {
		return nil, errors.New("nobody listens")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", i.listener.Addr().String())
}

func (i *instance) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gone = true
}

// severed is a listener whose connections can be cut, like those of a killed process.
type severed struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func (s *severed) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, conn)
	}
	return conn, err
}

func (s *severed) sever() {
	_ = s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// startFleet starts n servers, which stop with the test.
func startFleet(tb testing.TB, n int, changes ...func(*fleet)) *fleet {
	tb.Helper()
	f := &fleet{tb: tb, options: server.DefaultOptions(), store: newShared(memory.Options{}), running: make(map[string]*instance)}
	// A test's machine may be busy, or stall for seconds.
	f.options.DrainTimeout, f.options.RequestTimeout = 2*time.Minute, 2*time.Minute
	f.options.Limits.Shedding.Off = true
	for _, change := range changes {
		change(f)
	}
	for i := range n {
		f.names = append(f.names, fmt.Sprintf("i%d.test:9090", i))
		f.start(f.names[i])
	}
	tb.Cleanup(func() {
		for name := range f.running {
			f.drain(name)
		}
	})
	return f
}

func (f *fleet) start(name string) {
	f.tb.Helper()
	s, err := server.New(f.store, f.store, f.options)
	fatal.If(f.tb, err)
	i := &instance{listener: &severed{Listener: listen(f.tb)}, served: make(chan error, 1)}
	var ctx context.Context
	ctx, i.stop = context.WithCancel(context.Background())
	var listener net.Listener = i.listener
	if f.tls != nil {
		listener = tls.NewListener(listener, f.tls)
	}
	rest := listen(f.tb)
	go func() { i.served <- s.Serve(ctx, listener, rest) }()
	f.set(name, i.dial)
	f.running[name] = i
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	fatal.If(tb, err)
	return l
}

// kill cuts all connections at once and accepts no more.
func (f *fleet) kill(name string) {
	i := f.running[name]
	i.killed = true
	i.leave()
	i.listener.sever()
	f.drain(name)
}

// drain stops a server as SIGTERM does.
func (f *fleet) drain(name string) {
	i := f.running[name]
	i.leave()
	i.stop()
	if err := <-i.served; err != nil && !i.killed {
		f.tb.Errorf("Serve: %v", err)
	}
	delete(f.running, name)
}

// client returns a client of all servers, with random delays as in production.
func (f *fleet) client(options ...setpoint.Option) *setpoint.Client {
	f.tb.Helper()
	if f.tls == nil {
		options = append(options, setpoint.WithInsecure())
	}
	return f.directory.client(f.tb, f.names, options...)
}

// recorded returns the number of recommendations in the target's history.
func (f *fleet) recorded(client *setpoint.Client, target string) int {
	f.tb.Helper()
	got, err := client.GetTarget(f.tb.Context(), target)
	fatal.If(f.tb, err)
	// One stands for the count before the first.
	return len(got.GetHistory().GetRecommendations()) - 1
}

// patient is for callers that wait for an answer however often servers restart.
var patient = setpoint.WithRetry(setpoint.Retry{MaxAttempts: 1000, BaseDelay: 20 * ms, MaxDelay: 100 * ms, BudgetReserve: 100000})

// reconnecting is for servers that are away briefly, again and again.
var reconnecting = setpoint.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 10 * ms, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 50 * ms},
	MinConnectTimeout: 30 * time.Second, // a handshake is slow on a busy machine
}))

func TestServersThatComeAndGoLoseAndDoubleNothing(t *testing.T) {
	// While workers send requests, servers restart, at least cycles times.
	const workers, each, cycles = 8, 60, 3
	type asker func(client *setpoint.Client) func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)
	single := func(c *setpoint.Client) func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
		return c.Recommend
	}
	for _, tt := range []struct {
		name    string
		options []setpoint.Option
		ask     asker
	}{
		{"with calls", nil, single},
		{"with hedged calls", []setpoint.Option{setpoint.WithHedging(time.Millisecond, 3)}, single},
		{"on a stream", nil, func(c *setpoint.Client) func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
			return c.Stream(0).Recommend
		}},
		{"in batches", nil, func(c *setpoint.Client) func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
			return func(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
				other := queue("clusters/demo/namespaces/other/targets/other", 1, 10)
				other.DryRun = true
				result := c.BatchRecommend(ctx, []*setpointv1.RecommendRequest{other, req})[1]
				return result.Response, result.Err
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, 3)
			client := f.client(append(tt.options, patient, reconnecting, setpoint.WithTimeout(2*time.Minute))...)
			ask := tt.ask(client)
			var asking sync.WaitGroup
			var gone atomic.Int32 // servers, and come back
			done := make(chan struct{})
			for w := range workers {
				asking.Go(func() {
					for i := range each {
						for int(gone.Load()) < cycles*i/(each-1) {
							time.Sleep(ms)
						}
						answer, err := ask(t.Context(), queue(fmt.Sprint(web, w), 3, int32(10*(i+4))))
						if err != nil || answer.GetDesiredReplicas() != int32(i+4) {
							t.Errorf("request %d of %d: %v, %v", i, w, answer.GetDesiredReplicas(), err)
							return
						}
						time.Sleep(5 * ms)
					}
				})
			}
			go func() { asking.Wait(); close(done) }()
			for i := 0; ; i++ {
				select {
				case <-done:
					for w := range workers {
						if got := f.recorded(client, fmt.Sprint(web, w)); got != each {
							t.Errorf("target %d has %d recommendations recorded, want %d", w, got, each)
						}
					}
					return
				default:
				}
				name := f.names[i%len(f.names)]
				if i%2 == 0 {
					f.kill(name)
				} else {
					f.drain(name)
				}
				time.Sleep(20 * ms)
				f.start(name)
				gone.Add(1)
				time.Sleep(50 * ms)
			}
		})
	}
}

// The whole loop of a caller.
func TestTheLoopOfACaller(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	client := f.client()
	ctx := t.Context()
	answer, err := client.Recommend(ctx, queue(web, 3, 50))
	if err != nil || answer.GetDesiredReplicas() != 5 {
		t.Fatalf("got %v, %v, want 5 replicas", answer, err)
	}
	report := &setpointv1.ReportScaleRequest{Target: web, RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"}
	for range 2 { // reporting twice is harmless
		settled, err := client.ReportScale(ctx, report)
		if err != nil || settled.GetStatus().GetLastScaleTime() == nil {
			t.Fatalf("got %v, %v", settled, err)
		}
	}
	target, err := client.GetTarget(ctx, web)
	if err != nil || target.GetName() != web || len(target.GetHistory().GetScaleUps()) != 1 {
		t.Errorf("got %v, %v", target, err)
	}
	if err := client.DeleteTarget(ctx, web); err != nil {
		t.Error(err)
	}
	_, err = client.GetTarget(ctx, web)
	wantCode(t, err, codes.NotFound)
	if got := setpoint.Reason(err); got != "TARGET_NOT_FOUND" {
		t.Errorf("the reason is %q", got)
	}
	wantCode(t, client.DeleteTarget(ctx, web), codes.NotFound)
	bad := queue(web, 3, 50)
	bad.Spec.MaxReplicas, bad.Spec.MinReplicas = 0, new(int32(-1))
	_, err = client.Recommend(ctx, bad)
	wantCode(t, err, codes.InvalidArgument)
	if got := setpoint.Violations(err); len(got) < 2 {
		t.Errorf("the violations are %v", got)
	}
}

func TestTargetsAreListedOverPages(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1)
	client := f.client()
	const n = 250 // a page has 100
	var requests []*setpointv1.RecommendRequest
	for i := range n {
		requests = append(requests, queue(fmt.Sprintf("clusters/demo/namespaces/shop/targets/t%03d", i), 3, 50))
	}
	for i, result := range client.BatchRecommend(t.Context(), requests) {
		if result.Err != nil {
			t.Fatalf("request %d: %v", i, result.Err)
		}
	}
	var names []string
	for target, err := range client.ListTargets(t.Context(), "clusters/demo/namespaces/-") {
		fatal.If(t, err)
		names = append(names, target.GetName())
	}
	for i, name := range names {
		if name != requests[i].GetTarget() {
			t.Errorf("target %d is %s", i, name)
		}
	}
	if len(names) != n {
		t.Errorf("%d targets are listed, want %d", len(names), n)
	}
	for target, err := range client.ListTargets(t.Context(), "clusters/demo/namespaces/-") {
		if err != nil || target.GetName() != names[0] {
			t.Errorf("got %v, %v", target, err)
		}
		break
	}
	ends := 0
	for _, err := range client.ListTargets(t.Context(), "nowhere") {
		wantCode(t, err, codes.InvalidArgument)
		ends++
	}
	if ends != 1 {
		t.Errorf("an error came %d times", ends)
	}
}

// A server that shuts down answers requests in flight and refuses the rest; with another server
// no call fails.
func TestADrainIsNotNoticed(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	client := f.client(reconnecting, setpoint.WithTimeout(2*time.Minute))
	stream := client.Stream(0)
	for round := range 6 {
		name := f.names[round%2]
		drained := make(chan struct{})
		go func() { f.drain(name); close(drained) }()
		for i := range 20 {
			target := fmt.Sprintf("%s%d-%d", web, round, i)
			for how, ask := range map[string]func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error){
				"call": client.Recommend, "stream": stream.Recommend,
			} {
				if answer, err := ask(t.Context(), queue(target, 3, 50)); err != nil || answer.GetDesiredReplicas() != 5 {
					t.Errorf("%s %d of round %d: %v, %v", how, i, round, answer, err)
				}
			}
		}
		<-drained
		f.start(name)
		// Keep the other server until the shutdown was noticed.
		for tries := 0; ; tries++ {
			used := map[string]bool{}
			for range 8 {
				used[peerOf(t, client)] = true
			}
			if len(used) == 2 {
				break
			}
			if tries == 1000 {
				t.Fatalf("%s is never used again", name)
			}
			time.Sleep(10 * ms)
		}
	}
}
