package limit_test

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// with returns options with limits for every identity.
func with(limits limit.Limits, change ...func(*limit.Options)) limit.Options {
	options := limit.DefaultOptions()
	options.Identity = limits
	for _, c := range change {
		c(&options)
	}
	return options
}

// calls admits calls of one identity until one is refused, and returns how many there
// were, and why it ended.
func calls(l *limit.Limiter, identity string, weight int) (tickets []*limit.Ticket, refusal limit.Refusal) {
	for len(tickets) < 10000 {
		t := new(limit.Ticket)
		if refusal = l.Admit(t, identity, weight); refusal.Refused() {
			return tickets, refusal
		}
		tickets = append(tickets, t)
	}
	return tickets, limit.Refusal{}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		name    string
		options limit.Options
		weight  int
		want    int
		reason  limit.Reason
	}{
		{"all callers' units", with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 50 }), 1, 50, limit.GlobalInFlight},
		{"weights count", with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 50 }), 20, 2, limit.GlobalInFlight},
		{"a call heavier than the bound passes alone", with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 50 }), 500, 1, limit.GlobalInFlight},
		{"a weight below 1 is 1", with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 50 }), -3, 50, limit.GlobalInFlight},
		{"an identity's units", with(limit.Limits{InFlight: 10}), 1, 10, limit.IdentityInFlight},
		{"an identity's weights", with(limit.Limits{InFlight: 10}), 4, 2, limit.IdentityInFlight},
		{"heavier than the identity's bound", with(limit.Limits{InFlight: 10}), 11, 1, limit.IdentityInFlight},
		{"a rate allows its burst", with(limit.Limits{Rate: 1, Burst: 7}), 1, 7, limit.IdentityRate},
		{"a rate without a burst allows a second's worth", with(limit.Limits{Rate: 12.5}), 1, 13, limit.IdentityRate},
		{"a slow rate allows one", with(limit.Limits{Rate: .01}), 1, 1, limit.IdentityRate},
		{"a rate counts weights", with(limit.Limits{Rate: 1, Burst: 7}), 3, 2, limit.IdentityRate},
		{"heavier than the burst", with(limit.Limits{Rate: 1, Burst: 7}), 8, 1, limit.IdentityRate},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Now()
			test.options.Clock = func() time.Time { return now }
			l := newLimiter(t, test.options)
			identity := "a"
			if test.reason == limit.GlobalInFlight {
				identity = "" // no known caller takes everything
			}
			tickets, refusal := calls(l, identity, test.weight)
			if len(tickets) != test.want || refusal.Reason != test.reason {
				t.Fatalf("%d calls let in, then %v", len(tickets), refusal)
			}
			if refusal.RetryAfter <= 0 {
				t.Errorf("retry after %v", refusal.RetryAfter)
			}
			if l.Refused(test.reason) != 1 || l.Admitted() != uint64(test.want) {
				t.Errorf("%d refused, %d admitted", l.Refused(test.reason), l.Admitted())
			}
			for _, ticket := range tickets {
				ticket.Release()
			}
			if l.InFlight() != 0 || l.Running() != 0 {
				t.Errorf("%d units, %d running after all were released", l.InFlight(), l.Running())
			}
			now = now.Add(time.Hour)
			if again, _ := calls(l, identity, test.weight); len(again) != test.want {
				t.Errorf("%d calls let in again", len(again))
			}
		})
	}
}

// A batch has one goroutine: however heavy, it takes few of the places of those that run.
func TestHeavyCallsRunAsFew(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) { o.Shedding.MinRunning = 8 }))
	var light, heavy limit.Ticket
	l.Admit(&light, "a", 3)
	if l.Running() != 3 || l.InFlight() != 3 {
		t.Errorf("%d running of %d units", l.Running(), l.InFlight())
	}
	l.Admit(&heavy, "a", 500)
	if l.Running() != 3+8 || l.InFlight() != 503 {
		t.Errorf("%d running of %d units", l.Running(), l.InFlight())
	}
	heavy.Release()
	light.Release()
	if l.Running() != 0 || l.InFlight() != 0 {
		t.Errorf("%d running of %d units", l.Running(), l.InFlight())
	}
}

// Who waits for something else is in nobody's way, and counts again afterwards.
func TestPausedCallsDoNotRun(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{InFlight: 5}))
	var before, paused, heavy limit.Ticket
	l.Enter(&before, nil) // and only then the caller is known
	before.Begin()
	before.Pause()
	if l.Running() != 0 || l.InFlight() != 1 {
		t.Errorf("%d running of %d units, want 0 of 1", l.Running(), l.InFlight())
	}
	before.Resume()
	before.Identify("a", 1)
	l.Admit(&paused, "a", 1)
	l.Admit(&heavy, "a", 3)
	for range 2 { // the second time changes nothing
		before.Pause()
		paused.Pause()
		heavy.Pause()
	}
	if l.Running() != 0 || l.InFlight() != 5 {
		t.Errorf("%d running of %d units, want 0 of 5", l.Running(), l.InFlight())
	}
	for range 2 {
		before.Resume()
		heavy.Resume()
	}
	if l.Running() != 4 || l.InFlight() != 5 {
		t.Errorf("%d running of %d units, want 4 of 5", l.Running(), l.InFlight())
	}
	for _, ticket := range []*limit.Ticket{&before, &paused, &heavy} {
		ticket.Release()
		ticket.Resume()
		ticket.Pause()
		ticket.Resume()
	}
	var none *limit.Ticket
	none.Pause()
	none.Resume()
	if l.Running() != 0 || l.InFlight() != 0 {
		t.Errorf("%d running of %d units at the end", l.Running(), l.InFlight())
	}
	if got, _ := calls(l, "a", 1); len(got) != 5 {
		t.Errorf("then %d calls were let in, want 5", len(got))
	}
}

func TestIdentitiesAreApart(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{InFlight: 3}))
	calls(l, "a", 1)
	if tickets, _ := calls(l, "b", 1); len(tickets) != 3 {
		t.Errorf("%d calls of the other one let in", len(tickets))
	}
}

func TestRetryAfterRateIsWhenItHelps(t *testing.T) {
	now := time.Now()
	l := newLimiter(t, with(limit.Limits{Rate: 4, Burst: 2}, func(o *limit.Options) { o.Clock = func() time.Time { return now } }))
	_, refusal := calls(l, "a", 1)
	now = now.Add(refusal.RetryAfter - 10*time.Millisecond)
	if tickets, _ := calls(l, "a", 1); len(tickets) != 0 {
		t.Errorf("told to wait %v, but less suffices", refusal.RetryAfter)
	}
	now = now.Add(10 * time.Millisecond)
	if tickets, _ := calls(l, "a", 1); len(tickets) != 1 {
		t.Errorf("told to wait %v, but %d calls were let in then", refusal.RetryAfter, len(tickets))
	}
}

// Calls that are heavier than the burst keep to the rate all the same, also where few units may be in flight.
func TestHeavyCallsKeepToTheRate(t *testing.T) {
	t.Parallel()
	for _, limits := range []limit.Limits{{Rate: 100, Burst: 50}, {Rate: 100, Burst: 2000, InFlight: 10}} {
		now := time.Unix(0, 0)
		l := newLimiter(t, with(limits, func(o *limit.Options) { o.Clock = func() time.Time { return now } }))
		const weight, seconds = 1000, 200
		units := 0
		for range seconds {
			ticket := new(limit.Ticket)
			if refusal := l.Admit(ticket, "a", weight); refusal.Reason == 0 {
				units += weight
				ticket.Release()
			} else if refusal.Reason != limit.IdentityRate {
				t.Fatalf("refused: %v", refusal)
			}
			now = now.Add(time.Second)
		}
		if most := 100*seconds + limits.Burst + weight; units > most || units < 100*seconds-weight {
			t.Errorf("%+v: %d units in %d s, want some %d", limits, units, seconds, 100*seconds)
		}
	}
}

// Refused calls must not use up what others of the identity may have.
func TestRefusedCallsCostNothing(t *testing.T) {
	now := time.Now()
	l := newLimiter(t, with(limit.Limits{Rate: 10, Burst: 10, InFlight: 10}, func(o *limit.Options) {
		o.Clock = func() time.Time { return now }
		o.InFlight = 5
	}))
	held, _ := calls(l, "a", 1) // 5, and 5 tokens left
	for range 100 {
		if refusal := l.Admit(new(limit.Ticket), "a", 1); refusal.Reason != limit.GlobalInFlight {
			t.Fatal(refusal)
		}
	}
	for _, ticket := range held {
		ticket.Release()
	}
	if again, _ := calls(l, "a", 1); len(again) != 5 {
		t.Errorf("%d calls let in", len(again))
	}
}

// A refused Identify leaves the ticket as it was.
func TestRefusedIdentify(t *testing.T) {
	for _, limits := range []limit.Limits{{InFlight: 3}, {Rate: 1e-6, Burst: 3}} {
		l := newLimiter(t, with(limits))
		if l.Admit(new(limit.Ticket), "a", 3).Refused() {
			t.Fatal("refused")
		}
		var ticket limit.Ticket
		l.Enter(&ticket, nil)
		ticket.Begin()
		if !ticket.Identify("a", 2).Refused() {
			t.Fatal("not refused")
		}
		if l.InFlight() != 4 || l.Admitted() != 1 {
			t.Errorf("%d units in flight, %d admitted", l.InFlight(), l.Admitted())
		}
		ticket.Release()
		if l.InFlight() != 3 {
			t.Errorf("%d units in flight", l.InFlight())
		}
		ticket.Release()
		if l.InFlight() != 3 {
			t.Errorf("%d units in flight", l.InFlight())
		}
	}
}

func TestIdentifyOfWhatIsTooHeavyForAll(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 10 }))
	var first, second limit.Ticket
	l.Admit(&first, "", 8)
	l.Enter(&second, nil)
	if refusal := second.Identify("", 3); refusal.Reason != limit.GlobalInFlight {
		t.Fatal(refusal)
	}
	if refusal := second.Identify("", 2); refusal.Refused() || l.InFlight() != 10 {
		t.Fatal(refusal, l.InFlight())
	}
	first.Release()
	second.Release()
	if l.InFlight() != 0 || l.Running() != 0 {
		t.Errorf("%d units, %d running", l.InFlight(), l.Running())
	}
}

func TestOwnLimitsAndReload(t *testing.T) {
	now := time.Now()
	own := map[string]limit.Limits{"big": {InFlight: 20}, "free": {}, "wrong": {InFlight: -1, Streams: -1, Rate: -1}}
	l := newLimiter(t, with(limit.Limits{InFlight: 2, Streams: 1}, func(o *limit.Options) {
		o.Clock = func() time.Time { return now }
		o.InFlight = 100
		o.Shedding.Off = true
		o.Limits = func(identity string) (limit.Limits, bool) {
			limits, has := own[identity]
			return limits, has
		}
	}))
	allowed := func(identity string, want int) {
		t.Helper()
		tickets, refusal := calls(l, identity, 1)
		if len(tickets) != want {
			t.Errorf("%d calls of %s let in, then %v", len(tickets), identity, refusal)
		}
		for _, ticket := range tickets {
			ticket.Release()
		}
	}
	allowed("other", 2)
	allowed("big", 20)
	allowed("free", 75) // a quarter is for others
	allowed("wrong", 2)
	own["big"], own["other"] = limit.Limits{InFlight: 5}, limit.Limits{Rate: 1, Burst: 3}
	allowed("big", 20)
	l.Reload()
	allowed("big", 5)
	allowed("other", 3)
	own["other"] = limit.Limits{Rate: 1, Burst: 8}
	l.Reload()
	allowed("other", 0) // its bucket stays as empty as it is
	now = now.Add(time.Minute)
	allowed("other", 8)
	delete(own, "other")
	l.Reload()
	allowed("other", 2)
}

// Without its own limits a known caller leaves a quarter of everything to others, in
// flight and of streams; an unknown one need not, because that is everybody.
func TestNoCallerTakesAll(t *testing.T) {
	now := time.Now()
	options := with(limit.Limits{}, func(o *limit.Options) {
		o.InFlight, o.Streams = 4000, 40
		o.Shedding.Off = true
		o.Clock = func() time.Time { return now }
	})
	l := newLimiter(t, options)
	greedy, refusal := calls(l, "greedy", 1000)
	if len(greedy) != 3 || refusal.Reason != limit.IdentityInFlight {
		t.Errorf("%d batches of 1,000 let in, then %v", len(greedy), refusal)
	}
	if others, refusal := calls(l, "other", 1); len(others) != 1000 || refusal.Reason != limit.GlobalInFlight {
		t.Errorf("%d calls of another caller, then %v", len(others), refusal)
	}
	open := func(l *limit.Limiter, name string) (streams []*limit.Stream, reason limit.Reason) {
		for reason == 0 && len(streams) < 100 {
			s := new(limit.Stream)
			if reason = l.Open(s, name).Reason; reason == 0 {
				streams = append(streams, s)
			}
		}
		return streams, reason
	}
	streams, reason := open(l, "greedy")
	if len(streams) != 30 || reason != limit.IdentityStreams {
		t.Errorf("%d streams, then %v", len(streams), reason)
	}
	if others, reason := open(l, "other"); len(others) != 10 || reason != limit.Streams {
		t.Errorf("%d streams of another caller, then %v", len(others), reason)
	}
	for _, s := range streams {
		s.Close()
		s.Close()
	}
	if again, _ := open(l, "third"); len(again) != 30 {
		t.Errorf("%d streams after those have ended", len(again))
	}
	l = newLimiter(t, options)
	if all, refusal := calls(l, "", 1000); len(all) != 4 || refusal.Reason != limit.GlobalInFlight {
		t.Errorf("%d batches without authentication, then %v", len(all), refusal)
	}
	if all, _ := open(l, ""); len(all) != 40 {
		t.Errorf("%d streams without authentication", len(all))
	}
}

func TestStreams(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{Streams: 2, InFlight: 1}))
	streams := make([]limit.Stream, 3)
	for i := range streams {
		if got := l.Open(&streams[i], "a"); got.Refused() != (i == 2) {
			t.Fatal(i, got)
		}
	}
	if l.Refused(limit.IdentityStreams) != 1 {
		t.Errorf("%d refused", l.Refused(limit.IdentityStreams))
	}
	if got := l.Open(new(limit.Stream), "b"); got.Refused() {
		t.Error("the other one is refused", got)
	}
	if got := l.Admit(new(limit.Ticket), "a", 1); got.Refused() {
		t.Error("an open stream counts as a call", got)
	}
	streams[2].Close()
	streams[0].Close()
	streams[0].Close()
	if l.Open(&streams[0], "a").Refused() || !l.Open(&streams[2], "a").Refused() {
		t.Error("one was closed, so that one may be opened")
	}
}

func TestExempt(t *testing.T) {
	for method, want := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/grpc.health.v1.Health/Watch": true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": true,
		"/setpoint.v1.RecommendationService/Recommend":              false, "": false,
		"/grpc.healthy/Check": false,
	} {
		if limit.Exempt(method) != want {
			t.Errorf("%q: exempt is %v", method, !want)
		}
	}
}

func TestAbandonedBeforeBegin(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{InFlight: 1}))
	var ticket limit.Ticket
	l.Enter(&ticket, nil)
	ticket.Abandon()
	if l.InFlight() != 0 {
		t.Error("still in flight")
	}
	if ticket.Begin() {
		t.Error("begins nevertheless")
	}
	if ticket.Identify("a", 5).Refused() || l.InFlight() != 0 {
		t.Error("takes something nevertheless")
	}
	ticket.Release()
	if l.InFlight() != 0 {
		t.Error("released twice")
	}
}

// Once a call runs, only its end releases what it holds: a caller that goes away at once
// must not be able to run more calls than the limit.
func TestAbandonAfterBeginDoesNothing(t *testing.T) {
	l := newLimiter(t, limit.DefaultOptions())
	var ticket limit.Ticket
	l.Enter(&ticket, nil)
	ctx, cancel := context.WithCancel(t.Context())
	context.AfterFunc(ctx, ticket.Abandon)
	ticket.Begin()
	cancel()
	ticket.Abandon()
	if l.InFlight() != 1 {
		t.Error("not in flight any more")
	}
	ticket.Release()
	if l.InFlight() != 0 {
		t.Error("still in flight")
	}
}

func TestIdentitiesAreBounded(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{InFlight: 1}, func(o *limit.Options) {
		o.MaxIdentities, o.InFlight, o.Shedding.Off = 1000, 1<<20, true
	}))
	var busy [100]limit.Ticket
	for i := range busy {
		l.Admit(&busy[i], "busy-"+strconv.Itoa(i), 1)
	}
	for i := range 200000 {
		var ticket limit.Ticket
		if refusal := l.Admit(&ticket, "once-"+strconv.Itoa(i), 1); refusal.Refused() {
			t.Fatal(refusal)
		}
		ticket.Release()
	}
	if n := l.Identities(); n > 1000 || n < 900 {
		t.Errorf("%d identities remembered", n)
	}
	for i := range busy {
		if refusal := l.Admit(new(limit.Ticket), "busy-"+strconv.Itoa(i), 1); refusal.Reason != limit.IdentityInFlight {
			t.Fatalf("busy-%d was forgotten: %v", i, refusal)
		}
	}
}

// If all identities are busy, those that come have one's limits together.
func TestNoRoomForIdentities(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{InFlight: 3, Streams: 1}, func(o *limit.Options) { o.MaxIdentities = 4 }))
	streams := make([]limit.Stream, 4)
	for i := range streams {
		l.Open(&streams[i], strconv.Itoa(i))
	}
	var admitted []*limit.Ticket
	for i := range 100 {
		ticket := new(limit.Ticket)
		if !l.Admit(ticket, "more-"+strconv.Itoa(i), 1).Refused() {
			admitted = append(admitted, ticket)
		}
	}
	if len(admitted) != 3 || l.Identities() != 4 {
		t.Errorf("%d admitted, %d identities", len(admitted), l.Identities())
	}
	for _, ticket := range admitted {
		ticket.Release()
	}
	streams[0].Close()
	if l.Admit(new(limit.Ticket), "more", 1).Refused() || l.Identities() != 4 {
		t.Errorf("no room made: %d identities", l.Identities())
	}
}

// The one that was idle longest is forgotten first.
func TestForgetsTheIdle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLimiter(t, with(limit.Limits{Rate: 1e-9, Burst: 1}, func(o *limit.Options) { o.MaxIdentities = 8 }))
		call := func(name string) bool {
			var ticket limit.Ticket
			defer ticket.Release()
			refused := l.Admit(&ticket, name, 1).Refused()
			ticket.Begin()
			return refused
		}
		call("steady")
		for i := range 200 {
			time.Sleep(100 * time.Millisecond)
			call("once-" + strconv.Itoa(i))
			if !call("steady") {
				t.Fatal("forgotten after", i)
			}
		}
	})
}

func TestNeverAboveTheBounds(t *testing.T) {
	const bound, identityBound, streamBound = 40, 9, 3
	l := newLimiter(t, with(limit.Limits{InFlight: identityBound, Streams: streamBound}, func(o *limit.Options) {
		o.InFlight, o.MaxIdentities, o.Shedding.Off = bound, 20, true
	}))
	var units atomic.Int64
	identities := make([]struct{ units, streams atomic.Int64 }, 12)
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for i := range 20000 {
				who := (caller*31 + i*7) % len(identities)
				id, name, weight := &identities[who], "id-"+strconv.Itoa(who), 1+i%5
				var stream limit.Stream
				if !l.Open(&stream, name).Refused() {
					if n := id.streams.Add(1); n > streamBound {
						t.Errorf("%d streams", n)
					}
				}
				ticket := new(limit.Ticket)
				refusal := l.Enter(ticket, nil)
				if !refusal.Refused() {
					ticket.Begin()
					refusal = ticket.Identify(name, weight)
				}
				if !refusal.Refused() {
					if n := units.Add(int64(weight)); n > bound {
						t.Errorf("%d units in flight", n)
					}
					if n := id.units.Add(int64(weight)); n > identityBound {
						t.Errorf("%d units of an identity in flight", n)
					}
					if n := l.InFlight(); n > bound {
						t.Errorf("says that %d units are in flight", n)
					}
					units.Add(-int64(weight))
					id.units.Add(-int64(weight))
				}
				var releasers sync.WaitGroup
				for range 2 {
					releasers.Go(ticket.Release)
				}
				releasers.Go(ticket.Abandon)
				releasers.Wait()
				if stream != (limit.Stream{}) {
					id.streams.Add(-1)
					stream.Close()
				}
			}
		})
	}
	callers.Wait()
	if l.InFlight() != 0 || l.Running() != 0 {
		t.Errorf("%d units, %d running are left", l.InFlight(), l.Running())
	}
	for i := range identities {
		if tickets, _ := calls(l, "id-"+strconv.Itoa(i), 1); len(tickets) != identityBound {
			t.Errorf("identity %d: %d calls let in", i, len(tickets))
		} else {
			for _, ticket := range tickets {
				ticket.Release()
			}
		}
	}
}

func TestAdmittingTakesNoMemory(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{InFlight: 10, Rate: 1e9, Streams: 1}))
	var held, ticket limit.Ticket
	if n := testing.AllocsPerRun(1000, func() {
		l.Admit(&ticket, "a", 2)
		ticket.Begin()
		ticket.Release()
	}); n > 0 {
		t.Errorf("%v allocations to let a call in", n)
	}
	l.Admit(&held, "a", 10)
	if n := testing.AllocsPerRun(1000, func() {
		if l.Admit(&ticket, "a", 1).Err() == nil {
			t.Error("let in")
		}
	}); n > 0 {
		t.Errorf("%v allocations to refuse one", n)
	}
}

func TestAnswerEarlyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) { o.EarlyMemory = 1 << 20 }))
		type call struct{ until time.Time }
		var kept []call
		most := 0
		for i := range 60000 {
			time.Sleep(time.Millisecond)
			timeout := time.Duration(1+i%20) * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			if l.AnswerEarly(ctx) {
				kept = append(kept, call{time.Now().Add(timeout)})
			}
			cancel()
			if i%100 == 0 {
				var still []call
				for _, c := range kept {
					if c.until.After(time.Now()) {
						still = append(still, c)
					}
				}
				kept = still
				most = max(most, len(kept))
			}
		}
		if bytes := most * earlyBytes; bytes > 1<<20 || bytes < 1<<18 {
			t.Errorf("%d bytes kept", bytes)
		}
		if !l.AnswerEarly(t.Context()) {
			t.Error("a call without a deadline, which takes no memory, is not answered early")
		}
		for _, timeout := range []time.Duration{math.MaxInt64, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			if l.AnswerEarly(ctx) {
				t.Errorf("kept for %v", timeout)
			}
			cancel()
		}
	})
}

// earlyBytes is the memory of a call refused early: what gRPC keeps until its deadline, and
// the goroutine that runs then.
const earlyBytes = 3000

// All calls of a caller that gives up end at one instant, however long before they were
// made: as many goroutines run then, and Go keeps their descriptors for ever.
func TestCallsAnsweredEarlyDoNotEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) { o.EarlyMemory = 1 << 20 }))
		for round := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			kept := 0
			for ctx.Err() == nil {
				if l.AnswerEarly(ctx) {
					kept++
				}
				time.Sleep(50 * time.Microsecond)
			}
			if bytes := kept * earlyBytes; bytes > 1<<20 || bytes < 1<<19 {
				t.Errorf("round %d: %d calls end at once, which takes %d bytes", round, kept, bytes)
			}
			time.Sleep(time.Duration(1+round) * 40 * time.Second)
		}
	})
}

func TestBadOptions(t *testing.T) {
	for name, options := range map[string]limit.Options{
		"nothing in flight":  with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 0 }),
		"too much in flight": with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 1 << 31 }),
		"no identities":      with(limit.Limits{}, func(o *limit.Options) { o.MaxIdentities = 0 }),
		"negative":           with(limit.Limits{InFlight: -1}),
		"streams":            with(limit.Limits{Streams: -1}),
		"burst without rate": with(limit.Limits{Burst: 5}),
		"negative rate":      with(limit.Limits{Rate: -1}),
		"no number":          with(limit.Limits{Rate: math.NaN()}),
		"infinite":           with(limit.Limits{Rate: math.Inf(1)}),
		"target wait":        with(limit.Limits{}, func(o *limit.Options) { o.Shedding.TargetWait = -1 }),
		"early memory":       with(limit.Limits{}, func(o *limit.Options) { o.EarlyMemory = -1 }),
	} {
		if _, err := limit.New(options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
