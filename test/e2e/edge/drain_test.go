//go:build linux

package edge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const (
	restarts = 6
	// leastCalls are made before and after each.
	leastCalls = 150
	// recordVersion is the length of the prefix of a history in a record of Redis: the format's
	// byte and the version.
	recordVersion = 9
)

// ledger records requests and answers: each request wants a count that no other one of its
// target wants, so that the history shows how often it was recorded.
type ledger struct {
	target string
	mu     sync.Mutex
	next   int32            // guarded by mu
	ids    map[int32]string // guarded by mu; of the recommendations that were answered
}

func newLedger(target string) *ledger {
	return &ledger{target: target, next: 10, ids: make(map[int32]string)}
}

func (l *ledger) request() (*setpointv1.RecommendRequest, int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return wants(l.target, fmt.Sprint("request-", l.next), l.next), l.next
}

func (l *ledger) answered(want int32, answer *setpointv1.RecommendResponse) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[want] = answer.GetRecommendationId()
	if got := answer.GetDesiredReplicas(); got != want {
		return fmt.Errorf("%s: asked for %d, got %d", l.target, want, got)
	}
	return nil
}

// check compares with the records: each answer once, and nothing else.
func (l *ledger) check(t *testing.T, admin *goredis.Client, prefix string) {
	t.Helper()
	parts := strings.Split(l.target, "/")
	keys, err := admin.Keys(t.Context(), prefix+"*}h:"+parts[1]+"/"+parts[3]+"/"+parts[5]).Result()
	kit.Must(t, err)
	if len(keys) != 1 {
		t.Fatalf("%s has %d records", l.target, len(keys))
	}
	record, err := admin.Get(t.Context(), keys[0]).Result()
	kit.Must(t, err)
	history, err := encoding.DecodeHistory([]byte(record[recordVersion:]))
	kit.Must(t, err)
	times := make(map[int32]int)
	for _, r := range history.Recommendations {
		times[r.Replicas]++
	}
	delete(times, current) // the count at first sight
	l.mu.Lock()
	defer l.mu.Unlock()
	for count := range l.ids {
		if times[count] != 1 {
			t.Errorf("%s: the answer %d is recorded %d times", l.target, count, times[count])
		}
		delete(times, count)
	}
	if len(times) > 0 {
		t.Errorf("%s: recorded is what was never answered: %v", l.target, times)
	}
}

// Two instances are restarted by SIGTERM, one after the other, under load. Calls of the client
// never fail, and nothing is recorded twice.
func TestRestartsAreNotNoticed(t *testing.T) {
	server, prefix := redistest.Start(t, redistest.Config{}), redistest.Prefix(t)
	flags := []string{"--redis=" + server.URL(), "--redis-key-prefix=" + prefix, "--request-id-limit=5000", "--request-id-bytes=1048576", "--request-id-retention=30m", "--history-limit=32768", "--shed-load=false"}
	instances := []*service.Instance{start(t, flags...), start(t, flags...)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calling sync.WaitGroup
	var ledgers []*ledger
	var calls, failed atomic.Int64
	call := func(name string, recommend func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)) {
		l := newLedger("clusters/demo/namespaces/drain/targets/" + name)
		ledgers = append(ledgers, l)
		calling.Go(func() {
			hostile.Paced(ctx, 50, func() {
				request, want := l.request()
				answer, err := recommend(context.WithoutCancel(ctx), request)
				calls.Add(1)
				if err == nil {
					err = l.answered(want, answer)
				}
				if err != nil && failed.Add(1) <= 10 {
					t.Errorf("%s: %v", name, err)
				}
			})
		})
	}
	for i := range 3 {
		client, err := setpoint.New(instances[0].GRPCAddr()+","+instances[1].GRPCAddr(), setpoint.WithInsecure())
		kit.Must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		for j := range 3 {
			call(fmt.Sprintf("unary-%d-%d", i, j), client.Recommend)
		}
		stream := client.Stream(0)
		for j := range 3 {
			call(fmt.Sprintf("stream-%d-%d", i, j), stream.Recommend)
		}
	}
	var longest time.Duration
	// between waits for a second, and until enough is called, that a restart is noticed.
	between := func() {
		t.Helper()
		enough := calls.Load() + leastCalls
		time.Sleep(time.Second)
		kit.Eventually(t, 2*time.Minute, "calls", func() error {
			if calls.Load() < enough && failed.Load() == 0 {
				return fmt.Errorf("%d, want %d", calls.Load(), enough)
			}
			return nil
		})
	}
	for i := range restarts {
		between()
		p := instances[i%2]
		began := time.Now()
		p.Stop() // which wants exit code 0
		longest = max(longest, time.Since(began))
		time.Sleep(200 * time.Millisecond)
		p.Restart()
	}
	between()
	cancel()
	calling.Wait()
	admin := server.Client(t)
	for _, l := range ledgers {
		l.check(t, admin, prefix)
	}
	t.Logf("%d calls over %d restarts, %d failed; the longest stop took %v", calls.Load(), restarts, failed.Load(), longest.Round(time.Millisecond))
}

// Calls in flight at SIGTERM are answered; later ones are refused as UNAVAILABLE, and streams
// are told that the server shuts down.
func TestSIGTERMFinishesWhatHasBegun(t *testing.T) {
	t.Parallel()
	p := start(t, "--shed-load=false")
	conns := make([]*caller, 4)
	for i := range conns {
		conns[i] = newCaller(t, p, nil, "")
	}
	stream := conns[0].talk()
	item, broken := stream.ask(requestFor(targetIn("stream")))
	kit.Must(t, errors.Join(item, broken))
	met := hostile.NewTally()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calling sync.WaitGroup
	for i := range 16 {
		c := conns[i%len(conns)]
		request := requestFor(fmt.Sprint("clusters/a/namespaces/b/targets/t", i))
		calling.Go(func() {
			for ctx.Err() == nil {
				_, err := c.recommendations.Recommend(context.WithoutCancel(ctx), request)
				met.Add(status.Code(err).String())
				if err != nil {
					return
				}
			}
		})
	}
	kit.Eventually(t, callTimeout, "answers", func() error {
		if n := met.Of("OK"); n < 100 && n == met.All() {
			return fmt.Errorf("%d of them", n)
		}
		return nil
	})
	p.Stop()
	cancel()
	calling.Wait()
	if n := met.Of("OK") + met.Of("Unavailable"); met.Of("OK") < 100 || met.String() != fmt.Sprintf("%d OK, %d Unavailable", met.Of("OK"), n-met.Of("OK")) {
		t.Errorf("callers got %s", met)
	}
	if _, err := stream.stream.Recv(); status.Code(err) != codes.Unavailable || setpoint.Reason(err) != "SHUTTING_DOWN" {
		t.Errorf("the stream ended with %v", err)
	}
	t.Logf("callers got %s", met)
}

// Old connections are closed for new ones: callers from the time of one instance spread over
// two, and no call fails.
func TestOldConnectionsMakeWay(t *testing.T) {
	t.Parallel()
	const age = 2 * time.Second
	first, second := start(t, "--max-connection-age="+age.String()), service.New(t, service.Settings{Flags: []string{"--max-connection-age=" + age.String()}})
	const clients = 12
	ask := func(callers []*setpoint.Client) {
		t.Helper()
		for i, c := range callers {
			if _, err := c.Recommend(t.Context(), requestFor(fmt.Sprint("clusters/a/namespaces/b/targets/t", i))); err != nil {
				t.Fatalf("caller %d: %v", i, err)
			}
		}
	}
	// Like gRPC clients behind a virtual address they use one connection each; the proxy
	// distributes new ones in turn.
	balancer := newBalancer(t, first.GRPCAddr())
	var callers []*setpoint.Client
	for range clients {
		c, err := setpoint.New(balancer.address, setpoint.WithInsecure())
		kit.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		callers = append(callers, c)
	}
	ask(callers)
	if n := balancer.count(second.GRPCAddr()); n != 0 {
		t.Fatalf("%d connections to an instance that is not there", n)
	}
	second.Restart()
	balancer.add(second.GRPCAddr())
	took := kit.Eventually(t, callTimeout, "connections to both, the one that came too", func() error {
		ask(callers)
		if old, came := balancer.count(first.GRPCAddr()), balancer.count(second.GRPCAddr()); old == 0 || came < clients/4 {
			return fmt.Errorf("%d and %d of %d connections", old, came, clients)
		}
		return nil
	})
	t.Logf("%v after the second instance came it has %d of %d connections; no call failed", took.Round(time.Millisecond), balancer.count(second.GRPCAddr()), clients)
}
