//go:build linux

package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/store"
	storeredis "github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Redis keeps an append-only file and is killed by SIGKILL under load, three times, for
// each policy of writing that file through to the disk. It comes back with what the
// file has.
//
// Whatever the policy, no history may be torn: every record decodes, checksum and all.
// The services go on by themselves, and what failed meanwhile failed with UNAVAILABLE,
// or DEADLINE_EXCEEDED for callers in a hurry (startLoad sees to that). With
// appendfsync always nothing that was answered may be lost. With everysec and no it is
// counted: to die by SIGKILL alone costs nothing that write(2) has taken, for the
// kernel still has it. Redis writes before it answers, except that everysec puts a write
// off, for two seconds at most, while an fsync is under way: that much a kill can cost.
// What a power failure would cost in the last second or more is not measured here.
func TestHistoriesSurviveTheDeathOfRedis(t *testing.T) {
	for _, policy := range []string{"always", "everysec", "no"} {
		t.Run("appendfsync "+policy, func(t *testing.T) { dieOfSIGKILL(t, policy) })
	}
}

const deaths = 3

func dieOfSIGKILL(t *testing.T, policy string) {
	server := redistest.Start(t, redistest.Config{Directives: []string{"appendonly yes", "appendfsync " + policy}})
	services := service.StartAll(t, 2, append(serviceFlags, "--redis="+server.URL())...)
	l := startLoad(t, remotes(services), callOptions{
		callers: 12, name: inTurn(16, 60), hurry: 0.05, giveUp: 0.05, patience: 15 * time.Second,
	})
	var killed, back [deaths]time.Duration
	for i := range deaths {
		l.awaitAnswers(400)
		killed[i] = l.now()
		server.Kill()
		for _, s := range services {
			s.AwaitUnready()
		}
		server.Restart()
		back[i] = l.now()
		for _, s := range services {
			s.AwaitReady()
		}
		checkRecords(t, server.URL())
	}
	l.awaitAnswers(200)
	l.stop()
	for _, s := range services {
		s.Stop()
	}
	services[0].Restart()
	records := l.records(targetReader(t, services[0]))
	a := accountOf(records)
	if len(a.lost)+len(a.lostReports) == 0 {
		// Then all that is checked without a death must hold with three.
		checkAll(t, records)
	}
	if len(a.faults) > 0 {
		t.Errorf("%d faults in histories:\n%s", len(a.faults), show(a.faults))
	}
	silent := time.Duration(0)
	for i := range deaths {
		first := l.firstAnswer(back[i])
		silent += first - killed[i]
		t.Logf("death %d: Redis away for %v, first answer %v after it answered again; failed attempts meanwhile: %s", i+1,
			(back[i] - killed[i]).Round(time.Millisecond), (first - back[i]).Round(time.Millisecond), l.codes(killed[i], first))
	}
	t.Logf("appendfsync %s: %d recommendations answered (%.0f/s but for the outages), %d deaths; lost %d recommendations and %d reports that were answered%s",
		policy, a.answered, float64(a.answered)/(l.ended-silent).Seconds(), deaths, len(a.lost), len(a.lostReports), lossSpan(a, killed[:]))
	if policy == "always" && len(a.lost)+len(a.lostReports) > 0 {
		t.Error("with appendfsync always nothing that was answered may be lost")
	}
}

// lossSpan says how long before its kill the first recommendation that is lost had
// been answered.
func lossSpan(a *account, kills []time.Duration) string {
	longest := time.Duration(0)
	for _, c := range a.lost {
		for _, kill := range kills {
			if kill >= c.to {
				longest = max(longest, kill-c.to)
				break
			}
		}
	}
	if len(a.lost) == 0 {
		return ""
	}
	return fmt.Sprintf(", answered up to %v before the kill", longest.Round(100*time.Microsecond))
}

// checkRecords decodes every record of the store.
func checkRecords(t *testing.T, url string) {
	t.Helper()
	options, err := storeredis.ParseURL(url)
	fatal.If(t, err)
	s, err := storeredis.New(options)
	fatal.If(t, err)
	defer s.Close()
	keys, err := s.List(t.Context(), store.Filter{}, store.Key{}, 100_000)
	fatal.If(t, err)
	records, err := s.LoadBatch(t.Context(), keys)
	fatal.If(t, err)
	if len(keys) == 0 {
		t.Error("no record is left")
	}
	for i, record := range records {
		if _, err := encoding.DecodeHistory(record.Value); err != nil {
			t.Errorf("%s is torn: %v", keys[i], err)
		}
	}
}
