package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// hookedNode is a node's hook with a node behind it that answers as the test says.
type hookedNode struct {
	*nodeHook
	store *Store
	calls int
	fails error
	told  []bool // what OnBreaker was told
}

func newHookedNode() *hookedNode {
	n := &hookedNode{}
	n.store = &Store{stats: new(counters), breakers: map[string]*gobreaker.TwoStepCircuitBreaker[struct{}]{}}
	n.store.options.BreakerFailures, n.store.options.BreakerPause = 3, time.Second
	n.store.options.OnBreaker = func(_ string, because error) { n.told = append(n.told, because != nil) }
	n.nodeHook = n.store.newNodeHook("node", nil)
	return n
}

func (n *hookedNode) command(ctx context.Context) error {
	return n.ProcessHook(func(context.Context, goredis.Cmder) error { n.calls++; return n.fails })(ctx, goredis.NewCmd(ctx, "get", "x"))
}

func (n *hookedNode) pipeline(ctx context.Context) []goredis.Cmder {
	cmds := []goredis.Cmder{goredis.NewCmd(ctx, "get", "x"), goredis.NewCmd(ctx, "get", "y")}
	_ = n.ProcessPipelineHook(func(context.Context, []goredis.Cmder) error { n.calls++; return n.fails })(ctx, cmds)
	return cmds
}

// A node that fails so many times in a row is not asked for a while; then one caller tries
// it, and all may when that was answered. Who watches is told once of each.
func TestTheBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newHookedNode()
		n.fails = os.ErrDeadlineExceeded
		for range 2 {
			_ = n.command(t.Context())
		}
		n.fails = nil
		_ = n.command(t.Context()) // the count begins anew
		n.fails = os.ErrDeadlineExceeded
		_ = n.command(t.Context())
		_ = n.pipeline(t.Context())
		if n.breaker.State() != gobreaker.StateClosed {
			t.Fatal("open after two failures in a row, want three")
		}
		_ = n.command(t.Context())
		if calls := n.calls; n.breaker.State() != gobreaker.StateOpen || n.command(t.Context()) == nil || n.calls != calls {
			t.Fatal("asked though it failed three times in a row")
		}
		for _, cmd := range n.pipeline(t.Context()) {
			if cmd.Err() == nil {
				t.Error("a command that was not sent has no error")
			}
		}
		time.Sleep(time.Second + 1)
		_ = n.command(t.Context()) // half open, and it fails
		if n.breaker.State() != gobreaker.StateOpen || !slices.Equal(n.told, []bool{true}) {
			t.Errorf("%v, told %v", n.breaker.State(), n.told)
		}
		time.Sleep(time.Second + 1)
		n.fails = nil
		if err := n.command(t.Context()); err != nil || n.breaker.State() != gobreaker.StateClosed || !slices.Equal(n.told, []bool{true, false}) {
			t.Errorf("%v, %v, told %v", err, n.breaker.State(), n.told)
		}
		if trips := n.store.stats.breakerTrips.Load(); trips != 2 {
			t.Errorf("%d trips, want 2", trips)
		}
	})
}

// Connections that are cut together, as by a proxy that restarts, are one failure; a node that cuts each one is left alone.
func TestConnectionsThatAreCutTogetherAreOneFailure(t *testing.T) {
	t.Parallel()
	for _, cut := range []error{io.EOF, &net.OpError{Err: syscall.ECONNRESET}, &net.OpError{Err: syscall.EPIPE}} {
		synctest.Test(t, func(t *testing.T) {
			n := newHookedNode()
			n.fails = cut
			for i := range 3 {
				if n.breaker.State() != gobreaker.StateClosed {
					t.Fatalf("%v: open after %d cuts", cut, i)
				}
				for range 20 {
					_ = n.command(t.Context())
				}
				time.Sleep(cutTogether)
			}
			if n.breaker.State() != gobreaker.StateOpen {
				t.Errorf("%v: closed after three cuts", cut)
			}
		})
	}
}

// Only what tells that the node is not well counts, not callers who gave up, nor answers.
func TestOutcomesThatTheBreakerGets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		late, end := context.WithDeadline(t.Context(), time.Now())
		defer end()
		soon, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		for _, test := range []struct {
			name  string
			ctx   context.Context
			err   error
			opens bool
		}{
			{"no answer", t.Context(), os.ErrDeadlineExceeded, true},
			{"before the deadline", soon, os.ErrDeadlineExceeded, true},
			{"the caller has gone", gone, os.ErrDeadlineExceeded, false},
			{"the caller's time is up", late, os.ErrDeadlineExceeded, false},
			{"more callers than connections", t.Context(), goredis.ErrPoolTimeout, false},
			{"an answer", t.Context(), goredis.Nil, false},
			{"an answer that is an error", t.Context(), reply("ERR wrong"), false},
			{"it is loading", t.Context(), reply("LOADING soon"), true},
			{"nothing is wrong", gone, nil, false},
		} {
			n := newHookedNode()
			n.fails = test.err
			for range 3 {
				_ = n.command(test.ctx)
			}
			if open := n.breaker.State() == gobreaker.StateOpen; open != test.opens {
				t.Errorf("%s: open: %t, want %t", test.name, open, test.opens)
			}
		}
	})
}

// reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// A pipeline's error is its first command's; what tells of the node may be the last one's.
// And what was not sent has an error, without taking any other's.
func TestErrorsOfPipelines(t *testing.T) {
	t.Parallel()
	answered := reply("ERR wrong")
	cmds := func(errs ...error) (all []goredis.Cmder) {
		for _, err := range errs {
			cmd := goredis.NewCmd(context.Background(), "get", "x")
			if err != nil {
				cmd.SetErr(err)
			}
			all = append(all, cmd)
		}
		return all
	}
	for _, test := range []struct {
		name string
		err  error
		cmds []goredis.Cmder
		want error
	}{
		{"none", nil, cmds(nil, nil), nil},
		{"of the connection", io.EOF, cmds(nil, nil), io.EOF},
		{"an answer", answered, cmds(answered, nil), nil},
		{"an answer, then the connection broke", answered, cmds(answered, io.EOF), io.EOF},
		{"an answer of the last one", answered, cmds(nil, answered), nil},
	} {
		if got := transportError(test.err, test.cmds); !errors.Is(got, test.want) || test.want == nil && got != nil {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	for _, test := range []struct {
		name string
		err  error
		cmds []goredis.Cmder
		want []error
	}{
		{"nothing is wrong", nil, cmds(nil, nil), []error{nil, nil}},
		{"none was sent", io.EOF, cmds(nil, nil), []error{io.EOF, io.EOF}},
		{"one was answered", answered, cmds(nil, answered), []error{nil, answered}},
	} {
		failUnsent(test.cmds, test.err)
		for i, want := range test.want {
			if got := test.cmds[i].Err(); !errors.Is(got, want) || want == nil && got != nil {
				t.Errorf("%s: command %d: %v, want %v", test.name, i, got, want)
			}
		}
	}
}

// A node that is left alone is so for a reason, which the error, bounded, and who watches
// are told.
func TestTheBreakerSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newHookedNode()
		var because error
		n.store.options.OnBreaker = func(_ string, err error) { because = err }
		long := errors.New("x509: " + strings.Repeat("x", 2*maxLastBytes))
		for _, n.fails = range []error{os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, long} {
			_ = n.command(t.Context())
		}
		if !errors.Is(because, long) {
			t.Errorf("told is %v", because)
		}
		check := func(err error) {
			var skipped *skippedError
			if !errors.As(err, &skipped) || !errors.Is(err, gobreaker.ErrOpenState) || skipped.Last() != long {
				t.Fatalf("%v", err)
			}
			if text := err.Error(); !strings.HasPrefix(text, "circuit breaker is open (last: x509: xx") || len(text) > maxLastBytes+50 {
				t.Errorf("%q", text)
			}
			if f := faultOf(err); f.again || f.doubtful || f.kind != store.ErrUnavailable {
				t.Errorf("%+v", f)
			}
		}
		if text := (&skippedError{gobreaker.ErrTooManyRequests, io.EOF}).Error(); text != "circuit breaker is half open: one command tries the node (last: EOF)" {
			t.Error(text)
		}
		n.fails = nil
		check(n.command(t.Context()))
		check(n.pipeline(t.Context())[1].Err())
		if n.calls != 3 {
			t.Errorf("asked %d times", n.calls)
		}
	})
}

// A server that takes no new connections, as with a certificate that has expired, is asked over those that are open.
func TestCallsGoOnOverOpenConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	at, err := ParseURL(server.URL())
	fatal.If(t, err)
	proxy := newLossy(t, at.Addresses[0])
	s := openOn(t, server.URL(), redistest.Prefix(t), func(o *Options) {
		o.Addresses, o.Timeout = []string{proxy.listener.Addr().String()}, 3*time.Second
		o.PoolSize = 10_000 // after so many failures go-redis has a goroutine that outlives the test
	})
	open := s.client.(*goredis.Client).Conn()
	fatal.If(t, open.Ping(t.Context()).Err())
	_ = proxy.listener.Close()
	var loads sync.WaitGroup // at once, for each takes all of the timeout, which is long for what must not fail
	for range 2 * s.options.BreakerFailures {
		loads.Go(func() {
			if _, err := s.Load(t.Context(), swapped); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("a load without a connection: %v", err)
			}
		})
	}
	loads.Wait()
	_ = open.Close() // which gives it back
	if _, err := s.Load(t.Context(), swapped); err != nil {
		t.Errorf("a load with one: %v", err)
	}
}
