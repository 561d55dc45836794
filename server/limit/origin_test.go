package limit_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// flooded runs calls of a caller with that many in flight, which retries each at once, on these
// connections in turn, or on a new one each without any, together with those of a caller with few calls, in flight on one connection.
// The callers are known only some time after admission. It returns the results of the latter.
func (s *simulated) flooded(inFlight, few int, d time.Duration, flood []*limit.Origin, seldom *limit.Origin) (refused, offered int) {
	return s.floodedBy("mallory", inFlight, few, d, flood, seldom)
}

func (s *simulated) floodedBy(flooder string, inFlight, few int, d time.Duration, flood []*limit.Origin, seldom *limit.Origin) (refused, offered int) {
	const again, toKnow, each = 10 * time.Millisecond, 200 * time.Microsecond, 20 * time.Millisecond
	call := func(caller string, from *limit.Origin) bool {
		ticket := new(limit.Ticket)
		if s.limiter.Enter(ticket, from).Refused() {
			return false
		}
		defer ticket.Release()
		ticket.Begin()
		s.occupy(toKnow / 2) // a processor has to find out
		time.Sleep(toKnow / 2)
		if ticket.Identify(caller, 1).Refused() {
			return false
		}
		s.mu.Lock()
		service := s.service()
		s.mu.Unlock()
		s.occupy(service)
		return true
	}
	end := time.Now().Add(d)
	for i := range inFlight {
		go func() {
			time.Sleep(time.Duration(i) * again / time.Duration(inFlight))
			for time.Now().Before(end) {
				from := new(limit.Origin)
				if len(flood) > 0 {
					from = flood[i%len(flood)]
				}
				if !call(flooder, from) {
					time.Sleep(again)
				}
			}
		}()
	}
	call("honest", seldom)
	time.Sleep(2 * time.Second) // until it is overload
	var failed, all atomic.Int64
	for range few {
		go func() {
			for time.Now().Before(end) {
				all.Add(1)
				if !call("honest", seldom) {
					failed.Add(1)
				}
				time.Sleep(each)
			}
		}()
	}
	time.Sleep(time.Until(end) + time.Second)
	return int(failed.Load()), int(all.Load())
}

// connections are that many without calls.
func connections(n int) []*limit.Origin {
	all := make([]*limit.Origin, n)
	for i := range all {
		all[i] = new(limit.Origin)
	}
	return all
}

// A flood on one connection, of calls that are retried as soon as they are refused, leaves
// places to callers with few calls on other connections.
func TestAFloodOfOneConnectionLeavesPlacesToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		refused, offered := newSimulated(t, nil).flooded(400, 1, 20*time.Second, connections(1), new(limit.Origin))
		t.Logf("%d of %d calls refused", refused, offered)
		if refused > offered/20 {
			t.Errorf("%d of %d calls of one who calls seldom were refused", refused, offered)
		}
	})
	inBubble(t, func(t *testing.T) {
		refused, offered := newSimulated(t, nil).flooded(400, 1, 20*time.Second, make([]*limit.Origin, 1), nil)
		t.Logf("where connections are not known: %d of %d calls refused", refused, offered)
		if refused < offered/5 {
			t.Errorf("only %d of %d calls are refused where connections are not known: this tests nothing", refused, offered)
		}
	})
}

// So it does on many connections, and to callers with several calls on one: whose connection it is is known from its
// last call.
func TestAFloodOfManyConnectionsLeavesPlacesToOthers(t *testing.T) {
	for _, c := range []struct{ connections, few int }{{400, 1}, {1, 4}, {400, 4}, {0, 1}, {0, 4}} {
		inBubble(t, func(t *testing.T) {
			refused, offered := newSimulated(t, nil).flooded(400, c.few, 20*time.Second, connections(c.connections), new(limit.Origin))
			t.Logf("%d connections, %d calls at once: %d of %d calls refused", c.connections, c.few, refused, offered)
			if refused > offered/20 {
				t.Errorf("%d of %d calls of one who calls seldom were refused", refused, offered)
			}
		})
	}
}

// Programs that share an identity, or have none, are told apart by their connections.
func TestAFloodLeavesPlacesToOthersOfItsIdentity(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		refused, offered := newSimulated(t, nil).floodedBy("honest", 400, 1, 20*time.Second, connections(1), new(limit.Origin))
		t.Logf("%d of %d calls refused", refused, offered)
		if refused > offered/20 {
			t.Errorf("%d of %d calls of one who calls seldom were refused", refused, offered)
		}
	})
}

// The extra places are for connections that hold none, each gets one, and they are few.
func TestAnIdleConnectionHasAPlaceInOverload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, nil)
		s.run(t, phase{what: "five times", calls: 5 * capacity, d: 10 * time.Second, refused: .82, shedding: true})
		time.Sleep(time.Second) // until these have ended
		busy := new(limit.Origin)
		var all []*limit.Ticket
		enter := func(from *limit.Origin) limit.Reason {
			ticket := new(limit.Ticket)
			refusal := s.limiter.Enter(ticket, from)
			if !refusal.Refused() {
				all = append(all, ticket)
			}
			return refusal.Reason
		}
		for enter(busy) == 0 {
		}
		mayRun := s.limiter.MayRun()
		if len(all) > mayRun {
			t.Fatalf("%d calls of one connection run, %d may", len(all), mayRun)
		}
		idle := new(limit.Origin)
		for i, want := range []limit.Reason{0, limit.Overload} {
			if got := enter(idle); got != want {
				t.Errorf("call %d of an idle connection: %v, want %v", i, got, want)
			}
		}
		most := mayRun + max(1, mayRun/4)
		for len(all) <= most && enter(new(limit.Origin)) == 0 {
		}
		if len(all) != most || enter(nil) != limit.Overload {
			t.Errorf("%d calls run, want %d: %d may, and a quarter more of connections that were idle", len(all), most, mayRun)
		}
		for _, ticket := range all {
			ticket.Release()
		}
		if enter(idle) != 0 {
			t.Error("refused though nothing runs")
		}
		all[len(all)-1].Release()
	})
}

// A call that waited for its message is admitted again: it is not another call of its
// connection.
func TestACallThatWaitedIsNotInItsOwnWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSimulated(t, nil)
		alone, beside := new(limit.Origin), new(limit.Origin)
		var tickets []*limit.Ticket
		for _, from := range []*limit.Origin{alone, beside, beside} {
			ticket := new(limit.Ticket)
			s.limiter.Enter(ticket, from)
			ticket.Begin()
			ticket.Wait()
			tickets = append(tickets, ticket)
		}
		s.run(t, phase{what: "five times", calls: 5 * capacity, d: 10 * time.Second, refused: .82, shedding: true})
		time.Sleep(time.Second) // until these have ended
		busy := new(limit.Origin)
		for !s.limiter.Enter(new(limit.Ticket), busy).Refused() {
		}
		for i, want := range []limit.Reason{0, limit.Overload, limit.Overload} {
			if got := tickets[i].Arrived().Reason; got != want {
				t.Errorf("call %d: %v, want %v", i, got, want)
			}
		}
		for _, ticket := range tickets {
			ticket.Release()
		}
	})
}
