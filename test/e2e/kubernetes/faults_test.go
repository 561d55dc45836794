//go:build linux

package kubernetes

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Outages end: meanwhile nothing is scaled, afterwards scaling resumes by itself, and no
// history is lost.

const app = "web"

// persistent is a Redis that keeps its data over a restart.
var persistent = redistest.Config{Directives: []string{"appendonly yes", "appendfsync always"}}

// world is one autoscaler under an agent that is alone in its namespace.
type world struct {
	*place
	agent *agent
	sizes *history
}

// newWorld has a Deployment of 6 pods, as the load of 300 thousandths wants it.
func newWorld(t *testing.T, c *kubetest.Cluster, k kind, s *service.Instance, flags ...string) *world {
	t.Helper()
	p := newPlace(t, c, k, "faults")
	c.Deployment(t, p.namespace, app, 6)
	cpu(300, 6).do(p, app)
	p.awaitReplicas(app, 6)
	w := &world{place: p, sizes: p.watchAll(t, deployments, wantedReplicas)}
	p.add(app, basic(app))
	w.agent = startAgent(t, c, p.namespace, s, append([]string{"--source=" + k.source()}, flags...)...)
	p.awaitCondition(app, "AbleToScale=True/ReadyForNewScale")
	return w
}

// source is the kind's name for --source.
func (k kind) source() string {
	if k == hpas {
		return "hpa"
	}
	return "autoscaler"
}

// went checks the replicas over time.
func (w *world) went(t *testing.T, want ...string) {
	t.Helper()
	if d := difference(want, w.sizes.all(t, app)); d != "" {
		t.Errorf("replicas over time %s", d)
	}
}

// scaleWrites is how often an agent wrote a scale after the mark.
func (w *world) scaleWrites(t *testing.T, a *agent, mark kubetest.Mark) int {
	t.Helper()
	n := 0
	for _, request := range w.c.Since(t, mark).Of(a.account.User) {
		// A write whose connection was cut off while the API server read it is none.
		if request.What() == "update deployments/scale" && request.Code < 500 {
			n++
		}
	}
	return n
}

// holdsWhileAway changes the load while the recommender is away, and checks that the
// condition says so and no scale is written.
func (w *world) holdsWhileAway(t *testing.T, since time.Time) {
	t.Helper()
	mark := w.c.Mark(t)
	cpu(700, 14).do(w.place, app)
	w.awaitCondition(app, "AbleToScale=False/RecommenderUnavailable")
	var said string
	for _, c := range w.status(app).Conditions {
		if c.Type == "AbleToScale" {
			said = c.Message
			if away := c.LastTransitionTime.Sub(since); away < -2*time.Second || away > within {
				t.Errorf("the condition is of %v, the recommender was gone at %v", c.LastTransitionTime, since)
			}
		}
	}
	if !strings.HasPrefix(said, "the recommender has been unavailable since 20") {
		t.Errorf("the condition says %q", said)
	}
	// Three reconciles more.
	time.Sleep(3 * syncPeriod)
	if n := w.scaleWrites(t, w.agent, mark); n != 0 {
		t.Errorf("%d writes of the scale while the recommender was away", n)
	}
	if !strings.HasPrefix(w.condition(app, "AbleToScale"), "AbleToScale=False/RecommenderUnavailable") {
		t.Errorf("while the recommender is away: %s", w.condition(app, "AbleToScale"))
	}
	if got := w.condition(app, "ScalingActive"); !strings.HasPrefix(got, "ScalingActive=True/ValidMetricFound") {
		t.Errorf("while the recommender is away: %s", got)
	}
}

// awaitReconciles waits for so many more reconciles of the agent.
func (w *world) awaitReconciles(t *testing.T, n float64) {
	t.Helper()
	n += w.agent.Metric("setpoint_agent_reconciles_total")
	await(t, "reconciles", func() string {
		if got := w.agent.Metric("setpoint_agent_reconciles_total"); got < n {
			return fmt.Sprintf("%v, want %v", got, n)
		}
		return ""
	})
}

// recovers waits until the replicas are right again.
func (w *world) recovers(t *testing.T, want int32) {
	t.Helper()
	began := time.Now()
	w.awaitReplicas(app, want)
	w.awaitCondition(app, "AbleToScale=True")
	t.Logf("recovered after %v", time.Since(began).Round(time.Millisecond))
}

func TestFaultsTheServiceIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, persistent)
	s := service.Start(t, "--redis", redis.URL())
	w := newWorld(t, withAutoscalers(t, kubetest.Shared(t)), autoscalers, s)
	since := time.Now()
	s.Kill()
	w.holdsWhileAway(t, since)
	s.Restart()
	w.recovers(t, 14)
	w.went(t, "6", "14")

	// Earlier recommendations still count: they hold the replicas for five minutes.
	w.patch(app, `{"spec":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":300}}}}`)
	w.awaitReconciles(t, 2)
	s.Kill()
	cpu(100, 14).do(w.place, app)
	s.Restart()
	w.awaitCondition(app, "AbleToScale=True/ScaleDownStabilized")
	w.awaitReconciles(t, 2)
	w.went(t, "6", "14")
}

func TestFaultsRedisIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, persistent)
	s := service.Start(t, "--redis", redis.URL())
	w := newWorld(t, kubetest.SharedWithoutNative(t), hpas, s)
	since := time.Now()
	redis.Kill()
	w.holdsWhileAway(t, since)
	redis.Restart()
	w.recovers(t, 14)
	w.went(t, "6", "14")
}

func TestFaultsTheAPIServerIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t, kubetest.Config{})
	s := service.Start(t)
	w := newWorld(t, c, hpas, s)
	// Right after the API server's return the controller of ReplicaSets may create too many
	// pods, from outdated caches, which share the load. That must not cause a scale-down.
	w.patch(app, `{"spec":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":300}}}}`)
	w.awaitReconciles(t, 2)
	c.KillAPIServer()
	cpu(700, 14).do(w.place, app)
	time.Sleep(3 * syncPeriod)
	select {
	case <-w.agent.Ended():
		t.Fatal("the agent ended when the API server was gone")
	default:
	}
	mark := kubetest.Mark(0)
	must(t, c.StartAPIServer())
	w.recovers(t, 14)
	if n := w.scaleWrites(t, w.agent, mark); n != 1 {
		t.Errorf("%d writes of the scale, want 1", n)
	}
	if got := w.replicas(app); got != 14 {
		t.Errorf("%d replicas", got)
	}
}

// The agent is killed right after writing the scale, again and again: no write is repeated or
// undone. The load is a queue's: the pods' own usage, read before a pod is gone, may by upstream's
// rules scale further for a moment.
func TestFaultsTheAgentIsKilledWhileItApplies(t *testing.T) {
	t.Parallel()
	s := service.Start(t)
	w := newWorld(t, withAutoscalers(t, kubetest.Shared(t)), autoscalers, s)
	queue("60", 0).do(w.place, app)
	w.patch(app, `{"spec":{"metrics":[{"type":"External","external":{"metric":{"name":"`+app+`","selector":{"matchLabels":{"q":"a"}}},"target":{"type":"AverageValue","averageValue":"10"}}}]}}`)
	w.awaitReconciles(t, 2)
	want := []string{"6"}
	for i, replicas := range []int32{10, 4, 16, 2, 8, 18} {
		mark := w.c.Mark(t)
		queue(fmt.Sprint(10*replicas), 0).do(w.place, app)
		// Not at the same instant each time: before the report, before the status, after.
		awaitQuickly(t, "the scale is written", func() bool { return w.scaleWrites(t, w.agent, mark) > 0 })
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		w.agent.Kill()
		want = append(want, fmt.Sprint(replicas))
		w.agent.Start()
		w.agent.AwaitReady()
		w.awaitReplicas(app, replicas)
		w.awaitCondition(app, "AbleToScale=True/ReadyForNewScale")
		w.awaitReconciles(t, 2)
		if n := w.scaleWrites(t, w.agent, mark); n != 1 {
			t.Errorf("to %d: %d writes of the scale, want 1", replicas, n)
		}
	}
	w.went(t, want...)
}

// election are the flags of a quick leader election that still works with little processor
// time.
func election(p *place) []string {
	return []string{
		"--source=hpa", "--leader-elect", "--leader-elect-namespace=" + p.namespace,
		"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=500ms",
	}
}

func TestFaultsALeaderIsKilledAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedWithoutNative(t)
	s := service.Start(t)
	p := newPlace(t, c, hpas, "leaders")
	flags := election(p)
	c.Deployment(t, p.namespace, app, 6)
	cpu(300, 6).do(p, app)
	p.awaitReplicas(app, 6)
	sizes := p.watchAll(t, deployments, wantedReplicas)
	p.add(app, basic(app))
	w := &world{place: p, sizes: sizes}
	agents := []*agent{newAgent(t, c, p.namespace, s, flags...), newAgent(t, c, p.namespace, s, flags...)}
	agents[0].Start()
	agents[0].AwaitReady()
	p.awaitCondition(app, "AbleToScale=True/ReadyForNewScale")
	agents[1].Start()
	agents[1].AwaitReady()

	replicas := int64(6)
	want := []string{"6"}
	for i := range 4 {
		leader, other := agents[i%2], agents[(i+1)%2]
		if leading := leader.Metric("setpoint_agent_leading"); leading != 1 {
			t.Fatalf("turn %d: the leader says %v", i, leading)
		}
		if leading := other.Metric("setpoint_agent_leading"); leading != 0 {
			t.Fatalf("turn %d: the one that stands by says %v", i, leading)
		}
		mark := c.Mark(t)
		// Killed, or stopped regularly: then it releases the lease at once.
		if killed := i < 2; killed {
			leader.Kill()
		} else {
			leader.Stop()
		}
		replicas += 3
		cpu(50*replicas, 0).do(p, app)
		began := time.Now()
		p.awaitReplicas(app, int32(replicas))
		t.Logf("turn %d: scaled %v after the leader was gone", i, time.Since(began).Round(10*time.Millisecond))
		want = append(want, fmt.Sprint(replicas))
		if own, others := w.scaleWrites(t, leader, mark), w.scaleWrites(t, other, mark); own != 0 || others != 1 {
			t.Errorf("turn %d: the old leader wrote %d scales, the new one %d", i, own, others)
		}
		leader.Start()
		leader.AwaitReady()
	}
	w.went(t, want...)
}

// A leader that hangs must not act once another leads: it finds out when it goes on.
func TestFaultsALeaderThatHungDoesNotActAgain(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedWithoutNative(t)
	s := service.Start(t)
	p := newPlace(t, c, hpas, "hung")
	flags := election(p)
	c.Deployment(t, p.namespace, app, 6)
	cpu(300, 6).do(p, app)
	p.awaitReplicas(app, 6)
	w := &world{place: p, sizes: p.watchAll(t, deployments, wantedReplicas)}
	p.add(app, basic(app))
	first, second := newAgent(t, c, p.namespace, s, flags...), newAgent(t, c, p.namespace, s, flags...)
	first.Start()
	first.AwaitReady()
	p.awaitCondition(app, "AbleToScale=True/ReadyForNewScale")
	second.Start()
	second.AwaitReady()
	hung := first.Process
	must(t, hung.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = hung.Signal(syscall.SIGCONT) }) // fails only for one that is gone
	cpu(500, 0).do(p, app)
	p.awaitReplicas(app, 10)
	mark := c.Mark(t)
	must(t, hung.Signal(syscall.SIGCONT))
	select {
	case <-hung.Ended(): // correct: it can't know what it missed
	case <-time.After(within):
		t.Error("the leader that hung goes on")
	}
	first.Process = nil
	cpu(200, 0).do(p, app)
	p.awaitReplicas(app, 4)
	if n := w.scaleWrites(t, first, mark); n != 0 {
		t.Errorf("the leader that hung wrote %d scales", n)
	}
	w.went(t, "6", "10", "4")
}

// awaitQuickly looks as often as it can.
func awaitQuickly(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}
