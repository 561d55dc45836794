//go:build linux

package redis

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// enoughKills is how many services are killed at least, however slow all is.
const enoughKills = 6

// loadTime is how long calls go on in the test of linearizability; SETPOINT_E2E_LOAD
// shortens it while tests are written.
func loadTime(t *testing.T) time.Duration {
	text := os.Getenv("SETPOINT_E2E_LOAD")
	if text == "" {
		return 24 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SETPOINT_E2E_LOAD: %v", err)
	}
	return d
}

// Three services share a Redis; 24 callers ask any of them about the same four targets
// (and then the next four), some with deadlines of a few milliseconds, and ask another
// with the same request id when one fails. Meanwhile the services are killed, one at a
// time, at random, and started again.
//
// So two services decide on one target at once all the time, from remembered histories
// that are old; calls are cut off before, between and after the swap; an answer is asked
// for again at a service that did not give it. All the same everything that was answered
// is in the histories once, in an order that explains every answer, and the histories
// are those that one recommender would have made of the same calls.
func TestCallsAreLinearizableWhileServicesAreKilled(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	services := service.StartAll(t, 3, append(serviceFlags, "--redis="+server.URL())...)
	limit := loadTime(t)
	l := startLoad(t, remotes(services), callOptions{
		callers: 24, name: inTurn(4, 150), hurry: 0.05, giveUp: 0.1, patience: 15 * time.Second,
	})
	kills, conflicts := 0, 0.0
	for l.now() < limit || kills < enoughKills {
		// Now and then two at once.
		victims := []*service.Instance{services[kills%3], services[(kills+1)%3]}[:1+rand.IntN(4)/3]
		// The kill hits calls at any stage: it follows the answer to one of many.
		l.awaitAnswers(rand.Int64N(100))
		for _, victim := range victims {
			conflicts += victim.Metric("setpoint_store_conflicts_total")
			victim.Kill()
			kills++
		}
		l.awaitAnswers(rand.Int64N(20))
		service.RestartAll(victims)
		l.awaitAnswers(rand.Int64N(200))
	}
	l.stop()
	for _, s := range services {
		conflicts += s.Metric("setpoint_store_conflicts_total")
		// A call that its caller abandoned may still run: it ends with the service.
		s.Stop()
	}
	services[0].Restart()
	records := l.records(targetReader(t, services[0]))
	a, took := checkAll(t, records)
	retried := 0
	for _, c := range l.calls {
		if c.attempts > 1 {
			retried++
		}
	}
	t.Logf("%d calls on %d targets in %v: %d answered, of unknown outcome %d recorded and %d not; %d retried (failed attempts: %s); %d services killed; at least %.0f decisions made again because of a conflict; porcupine took %v",
		len(l.calls), len(records), l.ended.Round(time.Millisecond), a.answered, a.unknownKept, a.unknownGone,
		retried, l.codes(0, l.ended), kills, conflicts, took.Round(time.Millisecond))
	if retried == 0 || conflicts == 0 {
		t.Errorf("%d retried calls and %.0f conflicts: too few to have shown anything", retried, conflicts)
	}
}
