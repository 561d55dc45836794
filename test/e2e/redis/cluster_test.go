//go:build linux

package redis

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// One of three masters of a Cluster is killed under load, and its replica takes its
// place. Targets of the other shards must be answered meanwhile as if nothing had
// happened: none of their calls fails. Those of the shard that lost its master fail with
// UNAVAILABLE and are answered again by themselves. A Cluster replicates without waiting,
// so what was lost is counted, and what survived is checked as with Sentinel; with
// --redis-wait-replicas=1 nothing that was answered may be lost.
//
// The first holds only with "cluster-require-full-coverage no". By default a Redis Cluster
// refuses all keys while a shard is known to be without a master; what that costs the
// others is measured, too.
func TestAClusterAnswersForItsOtherShardsWhileAMasterIsReplaced(t *testing.T) {
	t.Run("cluster-require-full-coverage no", func(t *testing.T) { loseAShard(t, "no", false) })
	t.Run("cluster-require-full-coverage yes", func(t *testing.T) { loseAShard(t, "yes", false) })
	t.Run("redis-wait-replicas=1", func(t *testing.T) {
		loseAShard(t, "no", true, "--redis-wait-replicas=1", "--redis-wait-timeout=200ms")
	})
}

func loseAShard(t *testing.T, coverage string, nothingLost bool, flags ...string) {
	cluster := redistest.StartCluster(t, 3, 1, redistest.Config{Directives: []string{"cluster-require-full-coverage " + coverage}})
	services := service.StartAll(t, 2, append(append(serviceFlags, "--redis="+cluster.URL()), flags...)...)
	first, names := createTargets(t, services[0], 24)
	shards := targetsByMaster(t, cluster, names)
	victim := cluster.Masters()[0]
	hit, spared := shards[victim.Addr()], []string(nil)
	for address, names := range shards {
		if address != victim.Addr() {
			spared = append(spared, names...)
		}
	}
	if len(hit) == 0 || len(spared) == 0 {
		t.Fatalf("the targets are not spread over the shards: %v", shards)
	}
	isHit := make(map[string]bool)
	for _, name := range hit {
		isHit[name] = true
	}
	var recovered atomic.Bool
	afterwards := inTurn(16, 20)
	l := startLoad(t, remotes(services), callOptions{
		callers: 12, giveUp: 0.05, patience: 20 * time.Second, firstTicket: int64(len(first)),
		// A caller of the shard that is hit would soon have no time for the others.
		name: func(caller int, ticket int64) string {
			if recovered.Load() {
				return afterwards(caller, ticket)
			}
			if caller%2 == 0 {
				return hit[ticket%int64(len(hit))]
			}
			return spared[ticket%int64(len(spared))]
		},
	})
	l.awaitAnswers(300)
	// The kit lists the replicas in the order of their masters.
	replica := cluster.Servers()[3]
	d := death{how: "the master of a shard killed", killed: l.now()}
	victim.Kill()
	if coverage == "yes" { // else the other shards are enough to be ready
		for _, s := range services {
			s.AwaitUnready()
		}
	}
	d.unready = l.now()
	awaitInfo(t, replica.Client(t), "role:master")
	d.promoted = l.now()
	if nothingLost { // the new master waits for a replica
		victim.Restart()
	}
	for _, s := range services {
		s.AwaitReady()
	}
	// Ready does not say that all shards are.
	for _, s := range services {
		read := targetReader(t, s)
		for _, name := range hit {
			kit.Eventually(t, slow, "a read again", func() error { _, err := read(name); return err })
		}
	}
	d.ready = l.now()
	if !nothingLost {
		victim.Restart()
	}
	recovered.Store(true)
	l.awaitAnswers(400)
	l.stop()
	for _, s := range services {
		s.Stop()
	}
	services[0].Restart()
	l.calls = append(l.calls, first...)
	failed := 0
	for _, f := range l.failures {
		if !isHit[f.target] {
			failed++
		}
	}
	isSpared := func(name string) bool { return !isHit[name] }
	others := l.silence(d.killed, d.ready, isSpared)
	hits := l.silence(d.killed, d.ready, func(name string) bool { return isHit[name] })
	t.Logf("targets of the shard that was hit: no answer for %v; of the others: no answer for %v at most, %d failed attempts",
		hits.Round(time.Millisecond), others.Round(time.Millisecond), failed)
	// The machine may stand still, for the one and for the others.
	if coverage == "no" && (failed > 0 || others > max(time.Second, hits/2)) {
		t.Errorf("targets of other shards had %d failed attempts and no answer for %v", failed, others)
	}
	d.cut = d.killed
	checkAfterDeaths(t, l, targetReader(t, services[0]), []death{d}, nothingLost)
}

// createTargets makes a first call for each of n targets.
func createTargets(t *testing.T, s *service.Instance, n int) (calls []*call, names []string) {
	t.Helper()
	l := &load{t: t, frontends: []frontend{remote{s}}, options: callOptions{patience: time.Minute}, began: time.Now()}
	for i := range n {
		c := newCall(int64(i), fmt.Sprintf("%sc%d", targetPrefix, i))
		if l.recommend(c); c.answer == nil {
			t.Fatalf("no answer for %s", c.request.GetTarget())
		}
		c.span = span{} // before the load
		calls, names = append(calls, c), append(names, c.request.GetTarget())
	}
	return calls, names
}

// targetsByMaster returns the names of the targets by the address of the master that
// has their records.
func targetsByMaster(t *testing.T, cluster *redistest.Cluster, names []string) map[string][]string {
	t.Helper()
	shards := make(map[string][]string)
	for _, master := range cluster.Masters() {
		keys, err := master.Client(t).Keys(t.Context(), "*h:*").Result()
		fatal.If(t, err)
		for _, key := range keys {
			_, path, _ := strings.Cut(key, "h:")
			parts := strings.Split(path, "/")
			for _, name := range names {
				if len(parts) == 3 && name == "clusters/"+parts[0]+"/namespaces/"+parts[1]+"/targets/"+parts[2] {
					shards[master.Addr()] = append(shards[master.Addr()], name)
				}
			}
		}
	}
	return shards
}
