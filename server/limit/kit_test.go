package limit_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// simulated is a server of two processors in the time of a bubble: calls that are let in
// wait for one in order, and occupy it.
type simulated struct {
	limiter    *limit.Limiter
	processors chan struct{}
	// service returns how long a call occupies a processor.
	service func() time.Duration
	random  *rand.Rand
	// store is how long calls take that occupies no processor.
	store time.Duration
	// elsewhere is how long each call waits for a processor that others have, which takes
	// no time here.
	elsewhere atomic.Int64

	mu      sync.Mutex
	callers map[string]*outcome // guarded by mu
	waited  time.Duration       // guarded by mu; of all calls, for processors
}

// outcome is what became of the calls of one caller.
type outcome struct {
	offered, refused, answered int
	reasons                    map[limit.Reason]int
	times                      []time.Duration
}

func (o *outcome) quantile(q float64) time.Duration {
	if len(o.times) == 0 {
		return 0
	}
	times := slices.Sorted(slices.Values(o.times))
	return times[int(q*float64(len(times)-1))]
}

func (o *outcome) refusedShare() float64 { return float64(o.refused) / float64(max(1, o.offered)) }

// newSimulated returns a server whose calls take 0.5 to 1.5 ms: it can answer 2,000 a
// second.
func newSimulated(t testing.TB, change func(*limit.Options)) *simulated {
	options := limit.DefaultOptions()
	options.Shedding.Processors, options.Shedding.MinRunning = processors, 4 // whatever this machine has
	if change != nil {
		change(&options)
	}
	s := &simulated{
		processors: make(chan struct{}, processors), random: rand.New(rand.NewPCG(1, 2)), callers: map[string]*outcome{},
	}
	options.Shedding.Waited = func() time.Duration {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waited
	}
	s.limiter = newLimiter(t, options)
	s.service = s.uniform
	return s
}

// processors are those of a simulated server, and capacity the calls that they do a second.
const processors, capacity = 2, 2000

func (s *simulated) uniform() time.Duration {
	return time.Duration((.5 + s.random.Float64()) * float64(time.Millisecond))
}

func (s *simulated) exponential() time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(time.Millisecond))
}

func (s *simulated) of(caller string) *outcome {
	if s.callers[caller] == nil {
		s.callers[caller] = &outcome{reasons: map[limit.Reason]int{}}
	}
	return s.callers[caller]
}

// take returns the results of a caller's calls since the last take.
func (s *simulated) take(caller string) *outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of(caller)
	delete(s.callers, caller)
	return o
}

// call makes one call.
func (s *simulated) call(caller string) {
	s.mu.Lock()
	o := s.of(caller)
	o.offered++
	service, store := s.service(), s.store
	s.mu.Unlock()
	ticket, entered := new(limit.Ticket), time.Now()
	if refusal := s.limiter.Admit(ticket, caller, 1); refusal.Refused() {
		s.mu.Lock()
		defer s.mu.Unlock()
		o.refused++
		o.reasons[refusal.Reason]++
		return
	}
	go func() {
		s.occupy(service)
		time.Sleep(store)
		ticket.Release()
		s.mu.Lock()
		defer s.mu.Unlock()
		o := s.of(caller)
		o.answered++
		o.times = append(o.times, time.Since(entered))
	}()
}

// occupy waits for a processor and occupies it.
func (s *simulated) occupy(d time.Duration) {
	since := time.Now()
	s.processors <- struct{}{}
	s.mu.Lock()
	s.waited += time.Since(since) + time.Duration(s.elsewhere.Load())
	s.mu.Unlock()
	time.Sleep(d)
	<-s.processors
}

// offer has a caller call at random, so many times a second in the mean, and returns
// what became of it meanwhile.
func (s *simulated) offer(caller string, perSecond float64, d time.Duration) *outcome {
	s.take(caller)
	for end := time.Now().Add(d); ; {
		s.mu.Lock()
		pause := time.Duration(s.random.ExpFloat64() / perSecond * float64(time.Second))
		s.mu.Unlock()
		if time.Now().Add(pause).After(end) {
			time.Sleep(time.Until(end))
			return s.take(caller)
		}
		time.Sleep(pause)
		s.call(caller)
	}
}

func newLimiter(t testing.TB, options limit.Options) *limit.Limiter {
	t.Helper()
	l, err := limit.New(options)
	fatal.If(t, err)
	return l
}

// inBubble runs a test in a time of its own, which ends when all calls have.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t)
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}
