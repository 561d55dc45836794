package limiters_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/go-kratos/aegis/ratelimit"
	"github.com/go-kratos/aegis/ratelimit/bbr"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// processors are those of the simulated server, and capacity the calls that they do a second.
const processors, capacity = 2, 2000

// admit lets a call in and returns what to call when it ends, nil if the call is refused.
// It may wait.
type admit func() (release func())

type limiter struct {
	name string
	new  func(t *testing.T, s *server) admit
}

// limiters are compared. Each is made in a bubble, before the server s.
var limiters = []limiter{
	{"none", func(*testing.T, *server) admit { return func() func() { return func() {} } }},
	{"ours", func(t *testing.T, s *server) admit {
		options := limit.DefaultOptions()
		options.Shedding.Processors, options.Shedding.MinRunning = processors, 2*processors
		options.Shedding.Waited = s.allWaited
		l, err := limit.New(options)
		if err != nil {
			t.Fatal(err)
		}
		return func() func() {
			ticket := new(limit.Ticket)
			if l.Admit(ticket, "", 1).Refused() {
				return nil
			}
			return ticket.Release
		}
	}},
	{"failsafe adaptive", atOnce(adaptivelimiter.NewBuilder[any]())},
	{"failsafe adaptive, 4096 at most, windows of 50 ms", atOnce(
		adaptivelimiter.NewBuilder[any]().WithLimits(2*processors, 4096, 64).WithRecentWindow(50*time.Millisecond, time.Second, 8))},
	{"failsafe adaptive, with its queue", queued(adaptivelimiter.NewBuilder[any]().WithQueueing(2, 3))},
	{"failsafe bulkhead of 8", func(*testing.T, *server) admit {
		b := bulkhead.NewBuilder[any](4 * processors).Build()
		return func() func() {
			if !b.TryAcquirePermit() {
				return nil
			}
			return b.ReleasePermit
		}
	}},
	{"aegis BBR", func(_ *testing.T, s *server) admit {
		l := bbr.NewLimiter()
		// It reads the machine's processors, which are not those of the simulation.
		field := reflect.ValueOf(l).Elem().FieldByName("cpu")
		usage := reflect.MakeFunc(field.Type(), func([]reflect.Value) []reflect.Value {
			return []reflect.Value{reflect.ValueOf(s.cpu())}
		})
		reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(usage)
		return func() func() {
			done, err := l.Allow()
			if err != nil {
				return nil
			}
			return func() { done(ratelimit.DoneInfo{}) }
		}
	}},
}

// atOnce refuses calls beyond the limit at once, and queued those beyond the queue.
func atOnce(b adaptivelimiter.Builder[any]) func(*testing.T, *server) admit {
	return func(*testing.T, *server) admit {
		l := b.Build()
		return func() func() {
			permit, ok := l.TryAcquirePermit()
			if !ok {
				return nil
			}
			return permit.Record
		}
	}
}

func queued(b adaptivelimiter.Builder[any]) func(*testing.T, *server) admit {
	return func(t *testing.T, _ *server) admit {
		l := b.Build()
		return func() func() {
			permit, err := l.AcquirePermit(t.Context())
			if err != nil {
				return nil
			}
			return permit.Record
		}
	}
}

// phase is a part of a trace. figures reports whether it is in the results.
type phase struct {
	what    string
	calls   float64 // a second
	d       time.Duration
	store   time.Duration // how long a call waits for something else than a processor
	figures bool
}

// traces are sequences of phases, the same calls at the same instants for each limiter.
var traces = []struct {
	name   string
	phases []phase
}{
	{"steady", []phase{{what: "80 %", calls: .8 * capacity, d: time.Minute, figures: true}}},
	{"burst", []phase{
		{what: "half", calls: capacity / 2, d: 10 * time.Second},
		{what: "100 ms of twice what can be done", calls: 2 * capacity, d: 100 * time.Millisecond, figures: true},
	}},
	{"overload", []phase{
		{what: "half", calls: capacity / 2, d: 10 * time.Second},
		{what: "five times: the first 2 s", calls: 5 * capacity, d: 2 * time.Second, figures: true},
		{what: "five times: the minute after", calls: 5 * capacity, d: time.Minute, figures: true},
		{what: "2 s after it, 80 %", calls: .8 * capacity, d: 2 * time.Second, figures: true},
		{what: "then, 80 %", calls: .8 * capacity, d: 20 * time.Second, figures: true},
	}},
	{"slow store", []phase{
		{what: "half", calls: capacity / 2, d: 10 * time.Second, store: time.Millisecond},
		{what: "half, the store takes 100 ms", calls: capacity / 2, d: 20 * time.Second, store: 100 * time.Millisecond, figures: true},
	}},
}

// outcome is what became of the calls of a phase.
type outcome struct {
	offered, refused int
	times            []time.Duration
}

func (o *outcome) quantile(q float64) time.Duration {
	if len(o.times) == 0 {
		return 0
	}
	slices.Sort(o.times)
	return o.times[int(q*float64(len(o.times)-1))]
}

// TestLimiters holds ours to what the others are said not to reach, and prints with FULL=1 what
// becomes of the same calls behind each of them. How it is read: docs/decisions/0067.
func TestLimiters(t *testing.T) {
	compared := limiters
	if !testlength.Full() {
		compared = slices.DeleteFunc(slices.Clone(limiters), func(l limiter) bool { return l.name != "ours" })
		t.Log("only ours, which is what is held to anything: FULL=1 shows the others beside it")
	}
	for _, trace := range traces {
		for _, l := range compared {
			if l.name == "none" && trace.name == "overload" {
				continue // its queue grows until the end, and takes most of the test's time
			}
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.admit = l.new(t, s)
				for _, p := range trace.phases {
					o := s.run(p)
					if !p.figures {
						continue
					}
					answered := float64(o.offered-o.refused) / p.d.Seconds()
					t.Logf("%-33s %-50s %5.1f %% refused, %5.0f/s let in, p50 %8v, p99 %8v", p.what, l.name,
						100*float64(o.refused)/float64(o.offered), answered, o.quantile(.5).Round(100*time.Microsecond), o.quantile(.99).Round(100*time.Microsecond))
					if l.name == "ours" {
						hold(t, p, o, answered)
					}
				}
				s.calls.Wait()
			})
		}
	}
}

// hold holds ours to its goals.
func hold(t *testing.T, p phase, o *outcome, answered float64) {
	t.Helper()
	if p.calls <= .8*capacity && float64(o.refused) > .05*float64(o.offered) {
		t.Errorf("%s: %d of %d refused", p.what, o.refused, o.offered)
	}
	if p.calls > 2*capacity && p.d == time.Minute && (answered < .95*capacity || o.quantile(.99) > 6*time.Millisecond) {
		t.Errorf("%s: %.0f/s, p99 %v", p.what, answered, o.quantile(.99))
	}
}

// server is simulated, in the time of a bubble: calls that are let in wait for a processor in
// order, and occupy it for 0.5 to 1.5 ms.
type server struct {
	admit      admit
	processors chan struct{}
	random     *rand.Rand
	calls      sync.WaitGroup

	mu     sync.Mutex
	waited time.Duration // guarded by mu; of all calls, for processors
	busy   time.Duration // guarded by mu; of all processors
	usage  int64         // guarded by mu; as aegis has it: thousandths, smoothed
}

func newServer(t *testing.T) *server {
	s := &server{processors: make(chan struct{}, processors), random: rand.New(rand.NewPCG(1, 2))}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go s.measure(stop)
	return s
}

// measure does what aegis does twice a second with the machine's usage.
func (s *server) measure(stop chan struct{}) {
	const every = 500 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var before time.Duration
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		now := min(1000, 1000*float64(s.busy-before)/float64(processors*every))
		before = s.busy
		s.usage = int64(.95*float64(s.usage) + .05*now)
		s.mu.Unlock()
	}
}

func (s *server) cpu() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage
}

func (s *server) allWaited() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waited
}

// run makes the calls of a phase, and returns what became of them when all have ended that
// began in it. The next phase begins before.
func (s *server) run(p phase) *outcome {
	o := &outcome{}
	var mu sync.Mutex
	for end := time.Now().Add(p.d); ; {
		pause := time.Duration(s.random.ExpFloat64() / p.calls * float64(time.Second))
		service := time.Duration((.5 + s.random.Float64()) * float64(time.Millisecond))
		if time.Now().Add(pause).After(end) {
			time.Sleep(time.Until(end))
			mu.Lock()
			defer mu.Unlock()
			return &outcome{o.offered, o.refused, slices.Clone(o.times)}
		}
		time.Sleep(pause)
		mu.Lock()
		o.offered++
		mu.Unlock()
		s.calls.Go(func() {
			began := time.Now()
			release := s.admit()
			if release == nil {
				mu.Lock()
				defer mu.Unlock()
				o.refused++
				return
			}
			s.occupy(service)
			time.Sleep(p.store)
			release()
			mu.Lock()
			defer mu.Unlock()
			o.times = append(o.times, time.Since(began))
		})
	}
}

// occupy waits for a processor and occupies it.
func (s *server) occupy(d time.Duration) {
	since := time.Now()
	s.processors <- struct{}{}
	s.mu.Lock()
	s.waited += time.Since(since)
	s.mu.Unlock()
	time.Sleep(d)
	s.mu.Lock()
	s.busy += d
	s.mu.Unlock()
	<-s.processors
}

// BenchmarkAdmit is what letting a call in and out costs.
func BenchmarkAdmit(b *testing.B) {
	for _, l := range limiters {
		b.Run(fmt.Sprintf("limiter=%s", l.name), func(b *testing.B) {
			s := &server{}
			enter := l.new(new(testing.T), s)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if release := enter(); release != nil {
						release()
					}
				}
			})
		})
	}
}
