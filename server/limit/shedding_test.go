package limit_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// phase is some time of load in a trace, and what must come of it. Times are as many as
// a call takes when it need not wait, in its 99th percentile: 1.8 ms.
type phase struct {
	what  string
	calls float64 // a second; the server can answer 2,000
	d     time.Duration
	// refused is the maximum refused share, answered the minimum of successful calls
	// per second, p99 the maximum latency; 0: any.
	refused  float64
	answered float64
	p99      time.Duration
	// shedding is whether calls are refused for overload when it ends.
	shedding bool
}

const unloadedP99 = 1800 * time.Microsecond

func TestShedding(t *testing.T) {
	overload := phase{what: "five times what can be done", calls: 5 * capacity, d: time.Minute,
		refused: .81, answered: .98 * capacity, p99: 3 * unloadedP99, shedding: true}
	type trace struct {
		name        string
		exponential bool // service times; else even
		trace       []phase
	}
	for _, test := range testlength.FirstUnderRace(t, 5, []trace{
		{"nothing is refused below what can be done", false, []phase{
			{what: "little", calls: 100, d: 10 * time.Second, p99: unloadedP99},
			{what: "80 %", calls: 1600, d: 2 * time.Minute, answered: 1590},
			{what: "little again", calls: 100, d: 10 * time.Second, p99: unloadedP99},
		}},
		{"nor if some calls take much longer than others", true, []phase{
			{what: "80 %", calls: 1600, d: 2 * time.Minute, answered: 1590},
		}},
		{"bursts of twice as much for 100 ms pass", false, []phase{
			{what: "half", calls: 1000, d: 2 * time.Second},
			{what: "burst", calls: 2 * capacity, d: 100 * time.Millisecond},
			{what: "half", calls: 1000, d: 2 * time.Second},
			{what: "burst", calls: 2 * capacity, d: 100 * time.Millisecond},
			{what: "half", calls: 1000, d: 10 * time.Second},
			{what: "burst", calls: 2 * capacity, d: 100 * time.Millisecond},
			{what: "80 %", calls: 1600, d: 10 * time.Second},
		}},
		{"a burst out of nothing passes", false, []phase{
			{what: "nearly nothing", calls: 1, d: time.Minute},
			{what: "burst", calls: 2 * capacity, d: 100 * time.Millisecond},
			{what: "nearly nothing", calls: 1, d: time.Minute},
		}},
		{"overload leaves the answers quick, and as many as can be", false, []phase{
			{what: "half", calls: 1000, d: 5 * time.Second}, overload,
		}},
		{"overload out of nothing", false, []phase{
			{what: "nearly nothing", calls: 1, d: time.Minute}, overload,
		}},
		{"overload at once", false, []phase{overload}},
		{"it is over within 2 s", false, []phase{
			overload,
			{what: "80 %: recovering", calls: 1600, d: 2 * time.Second, refused: .05, answered: 1500, p99: 10 * time.Millisecond},
			{what: "80 %", calls: 1600, d: time.Minute, answered: 1580},
			overload,
			{what: "little", calls: 100, d: 2 * time.Second, p99: 4 * unloadedP99},
			{what: "burst", calls: 2 * capacity, d: 100 * time.Millisecond},
			{what: "little", calls: 100, d: time.Second},
		}},
		{"overload that ends in silence", false, []phase{
			overload,
			{what: "silence", calls: .01, d: 10 * time.Minute},
			{what: "burst", calls: 2 * capacity, d: 100 * time.Millisecond},
			{what: "little", calls: 100, d: time.Second},
		}},
		{"a little too much", false, []phase{
			{what: "120 %", calls: 2400, d: 2 * time.Minute, refused: .2, answered: 1900, p99: 3 * unloadedP99, shedding: true},
		}},
		{"overload of uneven calls", true, []phase{
			{what: "five times", calls: 5 * capacity, d: time.Minute, refused: .81, answered: .96 * capacity, p99: 10 * time.Millisecond, shedding: true},
			{what: "80 %: recovering", calls: 1600, d: 2 * time.Second, refused: .05, answered: 1500},
			{what: "80 %", calls: 1600, d: time.Minute, answered: 1580},
		}},
	}) {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSimulated(t, nil)
				if test.exponential {
					s.service = s.exponential
				}
				for _, p := range test.trace {
					s.run(t, p)
				}
			})
		})
	}
}

func (s *simulated) run(t *testing.T, p phase) {
	t.Helper()
	o := s.offer("", p.calls, p.d)
	answered := float64(o.answered) / p.d.Seconds()
	t.Logf("%-30s %6.0f/s: %5.2f %% refused, %5.0f/s answered, p50 %v, p99 %v, %d may run",
		p.what, p.calls, 100*o.refusedShare(), answered, o.quantile(.5), o.quantile(.99), s.limiter.MayRun())
	if o.refusedShare() > p.refused {
		t.Errorf("%s: %.2f %% refused", p.what, 100*o.refusedShare())
	}
	if o.reasons[limit.Overload] != o.refused {
		t.Errorf("%s: refused for %v", p.what, o.reasons)
	}
	if answered < p.answered {
		t.Errorf("%s: %.0f/s answered", p.what, answered)
	}
	if p99 := o.quantile(.99); p.p99 > 0 && p99 > p.p99 {
		t.Errorf("%s: p99 is %v", p.what, p99)
	}
	if s.limiter.Shedding() != p.shedding {
		t.Errorf("%s: shedding is %v", p.what, s.limiter.Shedding())
	}
}

// A slow store makes calls take longer, but the processors are free.
func TestSlowStoreIsNoOverload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, nil)
		for _, delay := range []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Millisecond} {
			s.store = delay
			s.run(t, phase{what: "80 % with a store that takes " + delay.String(), calls: 1600, d: 20 * time.Second})
		}
	})
}

// If the store hangs in the middle of overload, many more calls may run at once than
// before.
func TestStoreGetsSlowInOverload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, nil)
		s.run(t, phase{what: "five times", calls: 5 * capacity, d: 10 * time.Second, refused: .81, shedding: true})
		s.store = time.Second
		s.run(t, phase{what: "a fifth, the store hangs", calls: 400, d: 10 * time.Second, refused: 1})
		s.run(t, phase{what: "a fifth, the store hangs", calls: 400, d: 20 * time.Second})
	})
}

// If others take the processors away now and then, calls wait though few run. Refusing
// them does not help.
func TestOthersOnTheMachineAreNoOverload(t *testing.T) {
	testlength.SkipUnderRace(t)
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, nil)
		s.run(t, phase{what: "80 %", calls: 1600, d: 10 * time.Second})
		s.elsewhere.Store(int64(20 * time.Millisecond))
		s.run(t, phase{what: "80 %, others begin", calls: 1600, d: 10 * time.Second, refused: .03})
		s.run(t, phase{what: "80 % with others", calls: 1600, d: time.Minute})
		s.run(t, phase{what: "five times with others", calls: 5 * capacity, d: time.Minute, refused: .82, answered: .95 * capacity, shedding: true})
		s.elsewhere.Store(0)
		s.run(t, phase{what: "five times, others have gone", calls: 5 * capacity, d: 10 * time.Second, refused: .82, answered: .95 * capacity, shedding: true})
		s.run(t, phase{what: "five times", calls: 5 * capacity, d: time.Minute, refused: .82, answered: .98 * capacity, p99: 3 * unloadedP99, shedding: true})
	})
}

// Who is refused for its own limits does not keep the server from recovering.
func TestFloodOfOneIdentityIsNoOverload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, func(o *limit.Options) {
			o.Limits = func(identity string) (limit.Limits, bool) { return limit.Limits{Rate: 1}, identity == "flood" }
		})
		s.service = s.exponential
		s.run(t, phase{what: "five times", calls: 5 * capacity, d: 10 * time.Second, refused: .82, shedding: true})
		go s.offer("flood", 2*capacity, 13*time.Second)
		s.run(t, phase{what: "80 % and a flood: recovering", calls: 1600, d: 2 * time.Second, refused: .1})
		s.run(t, phase{what: "80 % and a flood", calls: 1600, d: 10 * time.Second})
	})
}

// What calls are work may change, and with it how many can be done.
func TestCallsGetHeavier(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, nil)
		s.run(t, phase{what: "much", calls: 1800, d: 10 * time.Second})
		s.service = func() time.Duration { return 5 * s.uniform() }
		s.run(t, phase{what: "heavier, twice what can be done", calls: 800, d: time.Minute,
			refused: .55, answered: .92 * capacity / 5, p99: 3 * 5 * unloadedP99, shedding: true})
		s.service = s.uniform
		s.run(t, phase{what: "as before: recovering", calls: 1600, d: 2 * time.Second, refused: .2})
		s.run(t, phase{what: "as before", calls: 1600, d: 20 * time.Second})
	})
}

func TestSheddingOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, func(o *limit.Options) { o.Shedding.Off = true })
		o := s.offer("", 5*capacity, 200*time.Millisecond)
		if o.refused > 0 || s.limiter.MayRun() != limit.DefaultOptions().InFlight {
			t.Errorf("%d refused, %d may run", o.refused, s.limiter.MayRun())
		}
	})
}

// A greedy caller can't have more than its limits, and the others don't notice it.
func TestGreedyCallerHasItsShare(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits limit.Limits
		most   float64 // calls a second of the greedy one that are answered
		least  float64
		reason limit.Reason
	}{
		{"rate", limit.Limits{Rate: 500, Burst: 50}, 510, 480, limit.IdentityRate},
		{"in flight", limit.Limits{InFlight: 1}, 1000, 400, limit.IdentityInFlight},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSimulated(t, func(o *limit.Options) { o.Identity = test.limits })
				greedy := make(chan *outcome)
				go func() { greedy <- s.offer("greedy", 10*500, 20*time.Second) }()
				polite := s.offer("polite", 100, 20*time.Second)
				if got := polite.refusedShare(); got > .12 {
					t.Errorf("%.1f %% of the polite one's calls refused: %v", 100*got, polite.reasons)
				}
				if p99 := polite.quantile(.99); p99 > 5*unloadedP99 {
					t.Errorf("p99 of the polite one is %v", p99)
				}
				o := <-greedy
				if got := float64(o.answered) / 20; got > test.most || got < test.least {
					t.Errorf("%.0f of the greedy one's calls answered a second", got)
				}
				if o.reasons[test.reason] < o.refused*9/10 {
					t.Errorf("refused for %v", o.reasons)
				}
			})
		})
	}
}

// Without their own limits, callers beyond their part of an overloaded server are refused
// before the others are.
func TestOverloadIsShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, nil)
		greedy := make(chan *outcome)
		go func() { greedy <- s.offer("greedy", 5*capacity, 30*time.Second) }()
		s.offer("polite", 200, 2*time.Second)
		polite := s.offer("polite", 200, 28*time.Second)
		o := <-greedy
		if got := polite.refusedShare(); got > .15 {
			t.Errorf("%.1f %% of the polite one's calls refused", 100*got)
		}
		if got := o.refusedShare(); got < .7 {
			t.Errorf("%.1f %% of the greedy one's calls refused", 100*got)
		}
		if got := float64(o.answered)/30 + float64(polite.answered)/28; got < .95*capacity {
			t.Errorf("%.0f calls answered a second", got)
		}
	})
}
