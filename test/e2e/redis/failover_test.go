//go:build linux

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// A master with two replicas, watched by three sentinels, is killed under load, twice:
// once as it is, and once after its replicas lost touch with it for a while, which is
// when asynchronous replication costs most. A replica takes its place.
//
// The services must become unready, come back by themselves with the new master, and
// fail with UNAVAILABLE in between. Replication does not wait: what the old master alone
// had is gone, though it was answered. That is counted. What survives must be whole:
// its replay explains every answer that survived, nothing is doubled, and nothing that
// was called after the last recovery is lost. With --redis-wait-replicas=1 an answer means
// that a replica has the record; then nothing that was answered may be lost at all.
func TestServicesFollowSentinelsToANewMaster(t *testing.T) {
	t.Run("asynchronous", func(t *testing.T) { failOver(t, false) })
	t.Run("redis-wait-replicas=1", func(t *testing.T) { failOver(t, true, "--redis-wait-replicas=1", "--redis-wait-timeout=200ms") })
}

// death is the death of a Redis.
type death struct {
	how string
	// cut is when replicas lost touch, killed when the master was, promoted when another
	// had taken its place, unready and ready when all services said so.
	cut, killed, promoted, unready, ready time.Duration
}

func failOver(t *testing.T, nothingLost bool, flags ...string) {
	redises := redistest.StartSentinel(t, 2, 3, redistest.Config{})
	services := service.StartAll(t, 2, append(append(serviceFlags, "--redis="+redises.URL()), flags...)...)
	l := startLoad(t, remotes(services), callOptions{
		callers: 12, name: inTurn(16, 20), hurry: 0.02, giveUp: 0.05, patience: 20 * time.Second,
	})
	l.awaitAnswers(200) // creations and connections
	began := l.now()
	l.awaitAnswers(600)
	t.Logf("%.0f recommendations a second answered before", 600/(l.now()-began).Seconds())
	var deaths []death
	for _, cut := range []bool{false, true} {
		awaitReplicas(t, redises, 2)
		l.awaitAnswers(300)
		d := death{how: "killed", cut: l.now()}
		reconnect := func() {}
		if cut {
			d.how = "killed after its replicas lost touch"
			reconnect = cutOff(t, redises)
			if nothingLost {
				l.awaitFailures(40)
			} else {
				l.awaitAnswers(100)
			}
		}
		d.killed = l.now()
		master := redises.KillMaster()
		reconnect()
		for _, s := range services {
			s.AwaitUnready()
		}
		d.unready = l.now()
		kit.Eventually(t, slow, "as after the failover", func() error {
			if redises.Master() == master {
				return errors.New("no replica was promoted")
			}
			return nil
		})
		d.promoted = l.now()
		for _, s := range services {
			s.AwaitReady()
		}
		d.ready = l.now()
		deaths = append(deaths, d)
		l.awaitAnswers(100)
		master.Restart()
	}
	// Enough for new targets to appear.
	l.awaitAnswers(500)
	l.stop()
	for _, s := range services {
		s.Stop()
	}
	services[0].Restart()
	checkAfterDeaths(t, l, targetReader(t, services[0]), deaths, nothingLost)
}

// checkAfterDeaths checks what the deaths of masters may and may not cost.
func checkAfterDeaths(t *testing.T, l *load, read targetFunc, deaths []death, nothingLost bool) {
	t.Helper()
	records := l.records(read)
	a := accountOf(records)
	lost := len(a.lost) + len(a.lostReports)
	if nothingLost && lost == 0 {
		checkAll(t, records)
	} else {
		checkSurvivors(t, records, a, deaths[len(deaths)-1].ready)
	}
	if nothingLost && lost > 0 {
		t.Errorf("%d recommendations and %d reports that were answered are lost", len(a.lost), len(a.lostReports))
	}
	before := time.Duration(0)
	for i, d := range deaths {
		t.Logf("death %d, %s: services unready after %v, a replica master after %v, services ready after %v, no answer for %v; failed attempts: %s; %s",
			i+1, d.how, (d.unready - d.killed).Round(time.Millisecond), (d.promoted - d.killed).Round(time.Millisecond), (d.ready - d.killed).Round(time.Millisecond),
			l.silence(d.killed, d.ready, anyTarget).Round(time.Millisecond), l.codes(d.cut, d.ready), a.lostBetween(before, d))
		before = d.ready
	}
	t.Logf("%d calls answered, %d of unknown outcome in the history and %d not; lost %d recommendations and %d reports that were answered",
		a.answered, a.unknownKept, a.unknownGone, len(a.lost), len(a.lostReports))
}

// undisturbed reports whether all that was asked of the target was answered at once, and is there. Where an attempt failed,
// it may have been made and seen by others before it was lost, of which nobody was told.
func (r *record) undisturbed() bool {
	a := accountOf([]*record{r})
	return len(a.lost)+len(a.lostReports) == 0 && !slices.ContainsFunc(r.calls, func(c *call) bool {
		return c.answer == nil || c.attempts > 1 || c.report != nil && (c.report.answer == nil || c.report.attempts > 1)
	})
}

// checkSurvivors checks what must hold even after losses.
func checkSurvivors(t *testing.T, records []*record, a *account, recovered time.Duration) {
	t.Helper()
	if len(a.faults) > 0 {
		t.Errorf("%d faults in histories:\n%s", len(a.faults), show(a.faults))
	}
	for _, c := range append(a.lost, a.lostReports...) {
		if c.from > recovered {
			t.Errorf("%s of %s was called %v after the last recovery and is lost", c.request.GetRequestId(), c.request.GetTarget(), c.from-recovered)
		}
	}
	var differences []string
	var later, undisturbed []*record
	for _, r := range records {
		differences = append(differences, r.replay()...)
		switch {
		case r.calls[0].from > recovered:
			later = append(later, r)
		case r.undisturbed():
			undisturbed = append(undisturbed, r)
		}
	}
	if len(differences) > 0 {
		t.Errorf("%d differences to the replay of what survived:\n%s", len(differences), show(differences))
	}
	if len(later) == 0 {
		t.Error("no target was new after the recovery")
	}
	checkAll(t, append(later, undisturbed...))
}

// lostBetween counts the lost answers between the previous recovery and a death.
func (a *account) lostBetween(before time.Duration, d death) string {
	lost, longest := 0, time.Duration(0)
	for _, c := range a.lost {
		if c.to >= before && c.to < d.ready {
			lost++
			longest = max(longest, d.killed-c.to)
		}
	}
	if lost == 0 {
		return "lost nothing"
	}
	text := fmt.Sprintf("lost %d recommendations, answered up to %v before the kill", lost, longest.Round(100*time.Microsecond))
	if d.cut < d.killed {
		text += fmt.Sprintf(" (the replicas had lost touch %v before)", (d.killed - d.cut).Round(time.Millisecond))
	}
	return text
}

// cutOff has the master's replicas lose touch with it and not find back, until the
// function that it returns is called.
func cutOff(t *testing.T, redises *redistest.Sentinel) (reconnect func()) {
	t.Helper()
	var back []func()
	master := redises.Master()
	for _, server := range redises.Servers() {
		if server == master || server.Pid() == 0 {
			continue
		}
		client := server.Client(t)
		password, err := client.ConfigGet(t.Context(), "masterauth").Result()
		fatal.If(t, err)
		setPassword := func(password string) {
			fatal.If(t, client.ConfigSet(t.Context(), "masterauth", password).Err())
		}
		setPassword("wrong")
		fatal.If(t, client.ClientKillByFilter(t.Context(), "TYPE", "master").Err())
		back = append(back, func() { setPassword(password["masterauth"]) })
	}
	awaitInfo(t, master.Client(t), "connected_slaves:0\r\n")
	return func() {
		for _, f := range back {
			f()
		}
	}
}

// awaitReplicas waits until the master has n replicas, and those that run are in step: one that still loads what it was sent
// has no link that could be cut.
func awaitReplicas(t *testing.T, redises *redistest.Sentinel, n int) {
	t.Helper()
	master := redises.Master()
	awaitInfo(t, master.Client(t), fmt.Sprintf("connected_slaves:%d\r\n", n))
	for _, server := range redises.Servers() {
		if server != master && server.Pid() != 0 {
			awaitInfo(t, server.Client(t), "master_link_status:up\r\n")
		}
	}
}

// awaitInfo waits until a server says all of that of its replication.
func awaitInfo(t *testing.T, client *goredis.Client, texts ...string) {
	t.Helper()
	kit.Eventually(t, slow, "as after the failover", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		info, err := client.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(info, text) {
				return fmt.Errorf("no %q in\n%s", text, info)
			}
		}
		return nil
	})
}

// With --redis-wait-replicas an answer means that a replica has the record, even if the caller
// had to repeat the request: the first attempt was recorded by the master and failed for lack
// of replicas, the second finds the answer. At another service, without the target in its
// cache, a read would suffice.
func TestAnAnswerThatIsAskedForAgainWaitsForReplicasToo(t *testing.T) {
	redises := redistest.StartSentinel(t, 1, 1, redistest.Config{})
	services := service.StartAll(t, 2, "--redis="+redises.URL(), "--redis-wait-replicas=1", "--redis-wait-timeout=500ms")
	request := newCall(0, targetPrefix+"report").request
	var answer *setpointv1.RecommendResponse
	kit.Eventually(t, slow, "as after the failover", func() (err error) { // the replica may be late
		answer, err = services[0].Recommendations().Recommend(t.Context(), request)
		return err
	})
	report := &setpointv1.ReportScaleRequest{Target: request.GetTarget(), RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"}
	request = newCall(1, targetPrefix+"recommend").request
	reconnect := cutOff(t, redises)
	for i, s := range services {
		if _, err := s.Recommendations().ReportScale(t.Context(), report); status.Code(err) != codes.Unavailable {
			t.Errorf("report, attempt %d, without replicas: code %s, want Unavailable", i+1, status.Code(err))
		}
		if _, err := s.Recommendations().Recommend(t.Context(), request); status.Code(err) != codes.Unavailable {
			t.Errorf("recommendation, attempt %d, without replicas: code %s, want Unavailable", i+1, status.Code(err))
		}
	}
	reconnect()
	awaitReplicas(t, redises, 1)
	for _, s := range services {
		kit.Eventually(t, slow, "as after the failover", func() error {
			_, err := s.Recommendations().Recommend(t.Context(), request)
			return err
		})
	}
}

// Readiness reflects what calls experience: if writes need a replica, and there is none, every
// call is refused, and the service must not get traffic.
func TestAServiceWhoseWritesFindNoReplicaIsNotReady(t *testing.T) {
	redises := redistest.StartSentinel(t, 1, 1, redistest.Config{})
	s := service.Start(t, "--redis="+redises.URL(), "--redis-wait-replicas=1", "--redis-wait-timeout=500ms")
	reconnect := cutOff(t, redises)
	if _, err := s.Recommendations().Recommend(t.Context(), newCall(0, targetPrefix+"alone").request); status.Code(err) != codes.Unavailable {
		t.Errorf("without replicas: code %s, want Unavailable", status.Code(err))
	}
	s.AwaitUnready()
	reconnect()
	s.AwaitReady()
	kit.Eventually(t, slow, "as after the failover", func() error { // the replica may be late
		_, err := s.Recommendations().Recommend(t.Context(), newCall(0, targetPrefix+"alone").request)
		return err
	})
}
