package decision

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/health"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// stallingStore takes a while to answer a ping, and longer than its timeout.
type stallingStore struct {
	store.Store
	stall, timeout time.Duration
}

func (s stallingStore) Timeout() time.Duration { return s.timeout }

func (s stallingStore) Ping(ctx context.Context) error {
	select {
	case <-time.After(s.stall):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A store that stalls while an instance starts is there nevertheless. One that hangs does
// not hold up the start for long.
func TestAStallAtTheStartIsNoOutage(t *testing.T) {
	for _, tt := range []struct {
		timeout, stall time.Duration
		ready          bool
		most           time.Duration
	}{
		{time.Second, 0, true, 0}, {time.Second, time.Second, true, time.Second}, {time.Second, time.Hour, false, 2 * time.Second},
		{5 * time.Second, 9 * time.Second, true, 9 * time.Second}, {5 * time.Second, time.Hour, false, 10 * time.Second},
		{time.Millisecond, time.Second, true, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			options := DefaultOptions()
			options.Clock, options.Log = time.Now, zap.NewNop()
			engine, served := stallingStore{memory.New(memory.Options{}), tt.stall, tt.timeout}, health.New("")
			targets := New(engine, &options, served.Set, t.Context())
			begun := time.Now()
			targets.Watch.Check(t.Context())
			got, err := served.Check(t.Context(), &healthv1.HealthCheckRequest{})
			if err != nil || (got.GetStatus() == healthv1.HealthCheckResponse_SERVING) != tt.ready {
				t.Errorf("after a stall of %s: %v, %v", tt.stall, got.GetStatus(), err)
			}
			if took := time.Since(begun); took > tt.most {
				t.Errorf("a stall of %s, with a timeout of %s, holds up the start for %s", tt.stall, tt.timeout, took)
			}
		})
	}
}

// otherDeletes is a store in which other instances delete.
type otherDeletes struct {
	store.Store
	at    map[store.Key]time.Time
	asked int
}

// DeletedAt implements store.Deletions.
func (o *otherDeletes) DeletedAt(_ context.Context, keys []store.Key) ([]time.Time, error) {
	o.asked += len(keys)
	at := make([]time.Time, len(keys))
	for i, key := range keys {
		at[i] = o.at[key]
	}
	return at, nil
}

// What another instance has deleted is not shown for another hour, as the newest that is known of it. The store is asked
// of targets on which this instance does not decide now, once a minute and of so many at a time.
func TestTargetsThatOthersDeletedAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := DefaultOptions()
		options.Clock, options.Log, options.TargetMetrics = time.Now, zap.NewNop(), 1000
		engine := &otherDeletes{Store: memory.New(memory.Options{}), at: map[store.Key]time.Time{}}
		targets := New(engine, &options, func(bool) {}, t.Context())
		r := prometheus.NewRegistry()
		r.MustRegister(targets.Metrics.Targets.Collectors()...)
		key := func(i int) store.Key { return store.Key{Cluster: "c", Namespace: "n", Target: strconv.Itoa(i)} }
		decided := func(i int) {
			targets.Metrics.Targets.Decided(key(i), &recommender.Decision{Current: 1, Desired: 1}, 0, nil, nil)
		}
		const all = 2*quietTargets + 50
		for i := range all {
			decided(i)
		}
		time.Sleep(time.Second)
		engine.at[key(0)], engine.at[key(1)], engine.at[key(all-1)] = time.Now(), time.Now(), time.Now()
		check := func(pause time.Duration, asked, shown int) {
			t.Helper()
			time.Sleep(pause)
			engine.asked = 0
			targets.Watch.Check(t.Context())
			families, err := r.Gather()
			n := 0
			for _, f := range families {
				if f.GetName() == "setpoint_target_desired_replicas" {
					n = len(f.GetMetric())
				}
			}
			if err != nil || engine.asked != asked || n != shown {
				t.Errorf("asked of %d targets, want %d; %d shown, want %d; %v", engine.asked, asked, n, shown, err)
			}
		}
		check(time.Second, 0, all) // just decided
		time.Sleep(time.Minute - 2*time.Second - 1)
		decided(1) // again, after the deletion
		check(1, quietTargets, all-1)
		check(1, quietTargets, all-1)
		check(1, all-2*quietTargets-1, all-2)
		check(1, 0, all-2)
		check(time.Minute-2, quietTargets, all-2)
	})
}

// A history that the store has lost whole, as one that evicts keys, is counted and logged; not one that was deleted, nor one that
// may have expired.
func TestAHistoryThatVanishedIsTold(t *testing.T) {
	const ttl = 24 * time.Hour
	for _, tt := range []struct {
		name          string
		age           time.Duration // of the last decision
		deleted       time.Duration // after the first one, 0: never
		remains       bool
		guessed, lost bool
		endless       bool          // records live for ever
		past          time.Duration // when the past of a forecast, which is missing, was read, after the first decision; 0: there was none
	}{
		{"lost", time.Minute, 0, false, true, true, false, 0},
		{"deleted", time.Minute, time.Second, false, true, false, false, 0},
		{"deleted, made anew and lost", time.Minute, -time.Second, false, true, true, false, 0},
		{"perhaps expired", ttl/2 + 1, 0, false, true, false, false, 0},
		{"not known here", time.Minute, 0, false, false, false, false, 0},
		{"there", time.Minute, 0, true, true, false, false, 0},
		{"lost, and lived for ever", time.Minute, 0, false, true, true, true, 0},
		{"lived for ever, and its deletion may be forgotten", 13 * time.Hour, 0, false, true, false, true, 0},
		{"the past alone", time.Minute, 0, true, true, true, false, time.Minute},
		{"the past, deleted after it was read", time.Minute, time.Minute + time.Second, true, true, false, false, time.Minute},
		{"the past, made anew after a deletion and lost", 10 * time.Minute, time.Minute, true, true, true, false, 5 * time.Minute},
		{"the past, of which the deletion may be forgotten", ttl, 0, true, true, false, false, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zap.WarnLevel)
				options := DefaultOptions()
				options.Clock, options.Log, options.HistoryTTL = time.Now, zap.New(core), ttl
				if tt.endless {
					options.HistoryTTL = 0
				}
				key, since := store.Key{Cluster: "c", Namespace: "n", Target: "t"}, time.Now()
				engine := &otherDeletes{Store: memory.New(memory.Options{}), at: map[store.Key]time.Time{}}
				if tt.deleted != 0 {
					engine.at[key] = since.Add(tt.deleted)
				}
				targets := New(engine, &options, func(bool) {}, t.Context())
				time.Sleep(time.Minute)
				known := store.Record{Version: "1", Value: record.Append(nil, &record.Record{History: recommender.History{Seen: true, Since: since.UnixNano(), Updated: time.Now()}})}
				time.Sleep(tt.age)
				var stored store.Record
				if tt.remains {
					stored = known
				}
				r := rounds{Targets: targets}
				if r.found(&queue{key: key, record: known, guessed: tt.guessed}, stored); tt.past != 0 {
					targets.missedPast(key, since.Add(tt.past))
				}
				targets.Watch.Check(t.Context())
				targets.Watch.Check(t.Context())
				want := map[bool]int{true: 1}[tt.lost]
				if n := targets.wentBack.Load(); n != uint64(want) || logged.Len() != want {
					t.Errorf("%d are counted, want %d; logged %v", n, want, logged.All())
				}
			})
		})
	}
}

// readOnlyStore answers pings, but takes no swaps.
type readOnlyStore struct {
	store.Store
	swaps atomic.Int64
}

func (s *readOnlyStore) CompareAndSwap(ctx context.Context, _ store.Swap) (store.SwapResult, error) {
	if s.swaps.Add(1) >= 1000 { // otherwise virtual time might stand still
		<-ctx.Done()
	}
	return store.SwapResult{}, store.ErrUnavailable
}

// Histories that cannot be written although the store answers are tried again once a second, not
// again and again.
func TestAStoreThatOnlyReadsIsNotTriedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := DefaultOptions()
		options.Clock, options.Log = time.Now, zap.NewNop()
		engine := &readOnlyStore{Store: memory.New(memory.Options{})}
		targets := New(engine, &options, func(bool) {}, t.Context())
		key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
		history := recommender.History{Seen: true, Updated: time.Now()}
		targets.outage.keepAfter(nil, key, store.Record{}, encoding.AppendHistory(nil, &history))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		targets.Watch.failed()
		targets.Watch.Run(ctx)
		if got := engine.swaps.Load(); got < 10 || got > 12 {
			t.Errorf("written %d times in 10 s, want once a second", got)
		}
	})
}

// panickingStore panics at the first swap.
type panickingStore struct {
	store.Store
	swaps atomic.Int64
}

func (s *panickingStore) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if s.swaps.Add(1) == 1 {
		panic("a swap")
	}
	return s.Store.CompareAndSwap(ctx, swap)
}

// A panic outside of calls ends no process either.
func TestAPanicWhileHistoriesAreWrittenIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.ErrorLevel)
		options := DefaultOptions()
		options.Clock, options.Log = time.Now, zap.New(core)
		engine := &panickingStore{Store: memory.New(memory.Options{})}
		targets := New(engine, &options, func(bool) {}, t.Context())
		key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
		history := recommender.History{Seen: true, Updated: time.Now()}
		targets.outage.keepAfter(nil, key, store.Record{}, encoding.AppendHistory(nil, &history))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		targets.Watch.Run(ctx)
		if got := logged.FilterMessage("panic").Len(); got != 1 {
			t.Errorf("%d panics logged, want 1", got)
		}
		if got := targets.outage.pending(); got != 0 {
			t.Errorf("%d histories not written, want 0", got)
		}
	})
}

// failingStore fails pings with an error; nil: it answers. It lacks some of its servers; nil: none.
type failingStore struct {
	store.Store
	fails, lacks error
}

func (s *failingStore) Lacking() error { return s.lacks }

func (s *failingStore) Ping(context.Context) error { return s.fails }

// skipping is the error of an engine that leaves its server alone.
type skipping struct{ last error }

func (skipping) Error() string { return "circuit breaker is open" }
func (s skipping) Last() error { return s.last }

// reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// lack is an error of an engine whose user lacks rights.
type lack struct {
	reply
	rights string
}

func (l lack) Lacks() string { return l.rights }

type acknowledged string

func (a acknowledged) Error() string        { return "too few: " + string(a) }
func (a acknowledged) Acknowledged() string { return string(a) }

func dialing(err error) error {
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}
	return &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: err}
}

func reading(port int, err error) error {
	return &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}, Err: err}
}

// Each cause of an outage is logged once, whatever comes between, also while the engine leaves the
// server alone for it.
func TestTheLogNamesEachCauseOfAnOutage(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zapcore.InfoLevel)
	options := DefaultOptions()
	options.Clock, options.Log = time.Now, zap.New(core)
	engine := &failingStore{Store: memory.New(memory.Options{})}
	targets := New(engine, &options, func(bool) {}, t.Context())
	refused, untrusted := dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED)), x509.UnknownAuthorityError{}
	for _, step := range []struct {
		fails error
		want  string // in the line, "" for none
	}{
		{nil, "store answers: ready"},
		{refused, "store away: not ready"},
		{refused, ""},
		{skipping{refused}, ""},
		{untrusted, "store away: not ready"},
		{skipping{untrusted}, ""},
		{fmt.Errorf("ping: %w", skipping{reading(40001, os.ErrDeadlineExceeded)}), "store away: not ready"},
		{reading(40002, os.ErrDeadlineExceeded), ""},
		{refused, ""},
		{nil, "store answers: ready"},
		{refused, "store away: not ready"},
	} {
		before := logged.Len()
		engine.fails = step.fails
		targets.Watch.Check(t.Context())
		lines := logged.All()[before:]
		if step.want == "" && len(lines) > 0 || step.want != "" && (len(lines) != 1 || lines[0].Message != step.want) {
			t.Errorf("%v: logged %v, want %q", step.fails, lines, step.want)
		}
	}
	for i := range 100 {
		engine.fails = errors.New(strings.Repeat("x", i))
		targets.Watch.Check(t.Context())
	}
	if n := logged.Len(); n > 6+16 {
		t.Errorf("%d lines of an outage with a hundred causes", n)
	}
}

// Anybody may ask whether an instance is ready: the answer has the kind of the error, and nothing that
// names a machine or a user.
func TestReadinessNamesNoMachine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "the history store can't be reached: connection refused"},
		{skipping{dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED))}, "the history store can't be reached: connection refused"},
		{reading(40001, os.ErrDeadlineExceeded), "the history store can't be reached: it does not answer in time"},
		{context.DeadlineExceeded, "the history store can't be reached: it does not answer in time"},
		{dialing(&net.DNSError{Err: "no such host", Name: "redis.internal", IsNotFound: true}), "the history store can't be reached: its name is unknown"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "the history store can't be reached: its certificate is signed by an unknown authority"},
		{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"redis.internal"}}, Host: "redis"}, "the history store can't be reached: its certificate is for another name"},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "the history store can't be reached: its certificate is not valid"},
		{dialing(errors.New("remote error: tls: certificate required")), "the history store can't be reached: no TLS connection"},
		{reply("WRONGPASS invalid username-password pair"), "the history store can't be used: it refuses the password (WRONGPASS)"},
		{reply("MOVED 40 127.0.0.1:7112"), "the history store can't be used: it is one node of a Cluster (MOVED)"},
		{reply("NOPERM User setpoint has no permissions"), "the history store can't be used: its user lacks rights (NOPERM)"},
		{fmt.Errorf("ping: %w", lack{"NOPERM User setpoint has no permissions; ACL SETUSER setpoint +zadd", "+zadd"}), "the history store can't be used: its user lacks rights (+zadd)"},
		{lack{reply: "ERR ACL failure in script"}, "the history store can't be used: its user lacks rights (NOPERM)"},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), "the history store can't be used: it is full (OOM)"},
		{fmt.Errorf("ping: %w (%w)", context.DeadlineExceeded, acknowledged("0 of 1")), "the history store can't be used: too few replicas acknowledge what it writes (0 of 1)"},
		{reply("SECRET something else"), "the history store can't be used: it answers with an error"},
		{fmt.Errorf("ping: %w: %w", store.ErrUnavailable, io.EOF), "the history store can't be reached: it closes connections"},
		{errors.New("redis.internal is odd"), "the history store can't be reached"},
		{nil, "the history store can't be reached"},
	} {
		if got := apierror.StoreAwayBecause(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
		if got := apierror.StoreAway(store.BatchError{nil, tt.err}); tt.err != nil && got != strings.Replace(apierror.StoreAway(tt.err), "the", "a part of the", 1) {
			t.Errorf("%v of a part: callers are told %q", tt.err, got)
		}
		if got, _, _ := strings.Cut(apierror.StoreAwayBecause(tt.err), " ("); strings.Contains(got, "can't be used") && got != apierror.StoreAway(tt.err) ||
			!strings.Contains(got, "can't be used") && apierror.StoreAway(tt.err) != "the history store can't be reached" {
			t.Errorf("%v: callers are told %q", tt.err, apierror.StoreAway(tt.err))
		}
	}
}

// With HoldDown an instance that knows targets is ready while the store is away, or a load
// balancer would keep everybody from its answers.
func TestReadiness(t *testing.T) {
	t.Parallel()
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	cached := func(t *Targets) { t.cache.put(key, store.Record{Version: "v", Value: []byte("x")}) }
	unwritten := func(t *Targets) {
		history := recommender.History{Seen: true, Updated: time.Now()}
		t.outage.keepAfter(nil, key, store.Record{}, encoding.AppendHistory(nil, &history))
	}
	for name, tt := range map[string]struct {
		holdDown   bool
		cacheBytes int
		fails      error
		lacks      error
		change     func(*Targets)
		ready      bool
		why        string
	}{
		"the store answers":                 {ready: true, why: "ok"},
		"some of its servers do not":        {lacks: io.EOF, ready: true, why: "ok, but in part the history store can't be reached: it closes connections"},
		"away":                              {cacheBytes: 1 << 20, fails: io.EOF, change: cached, why: "the history store can't be reached: it closes connections"},
		"away, hold-down, nothing known":    {holdDown: true, cacheBytes: 1 << 20, fails: io.EOF, why: "the history store can't be reached: it closes connections"},
		"away, hold-down, no cache":         {holdDown: true, fails: io.EOF, change: cached, why: "the history store can't be reached: it closes connections"},
		"away, hold-down, a target known":   {holdDown: true, cacheBytes: 1 << 20, fails: io.EOF, change: cached, ready: true, why: "ok, but the history store can't be reached: it closes connections; known targets are answered, and held down"},
		"away, hold-down, one is unwritten": {holdDown: true, fails: io.EOF, change: unwritten, ready: true, why: "ok, but the history store can't be reached: it closes connections; known targets are answered, and held down"},
		"a wrong clock":                     {change: func(t *Targets) { t.clock.wrong.Store(true) }, why: "this instance's clock differs from the history store's"},
		"hold-down and a wrong clock":       {holdDown: true, cacheBytes: 1 << 20, fails: io.EOF, change: func(t *Targets) { cached(t); t.clock.wrong.Store(true) }, why: "this instance's clock differs from the history store's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			options.Clock, options.Log, options.HoldDown, options.CacheBytes = time.Now, zap.NewNop(), tt.holdDown, tt.cacheBytes
			engine, served := &failingStore{Store: memory.New(memory.Options{}), fails: tt.fails, lacks: tt.lacks}, health.New("")
			targets := New(engine, &options, served.Set, t.Context())
			targets.clock.store = nil // it would be right again
			if ready, why := targets.Watch.Ready(); ready || why != "the history store can't be reached" {
				t.Errorf("before the first check: %t, %q", ready, why)
			}
			if tt.change != nil {
				tt.change(targets)
			}
			targets.Watch.Check(t.Context())
			if ready, why := targets.Watch.Ready(); ready != tt.ready || why != tt.why {
				t.Errorf("%t, %q, want %t, %q", ready, why, tt.ready, tt.why)
			}
			got, err := served.Check(t.Context(), &healthv1.HealthCheckRequest{})
			if err != nil || (got.GetStatus() == healthv1.HealthCheckResponse_SERVING) != tt.ready {
				t.Errorf("health: %v, %v", got, err)
			}
			if targets.Watch.Away.Load() != (tt.fails != nil) {
				t.Error("the store's own state is another")
			}
		})
	}
}
