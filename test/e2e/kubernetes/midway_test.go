//go:build linux

package kubernetes

import (
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// An agent is killed between two of its actions, over a slow connection to the service, and
// another one replaces it. Five pods may be added in ten minutes: only that shows whether the
// service knows the applied changes.

const slow = 3 * time.Second

// midway is an autoscaler that may go from 2 pods to 7, and wants 12.
type midway struct {
	*world
	s    *service.Instance
	line *line
}

func newMidway(t *testing.T) *midway {
	t.Helper()
	c := kubetest.SharedWithoutNative(t)
	s := service.Start(t)
	p := newPlace(t, c, hpas, "midway")
	c.Deployment(t, p.namespace, app, 2)
	cpu(100, 0).do(p, app)
	p.awaitReplicas(app, 2)
	m := &midway{world: &world{place: p, sizes: p.watchAll(t, deployments, wantedReplicas)}, s: s, line: newLine(t, s.GRPCAddr())}
	p.add(app, limited(5, 5, 600)(app))
	m.agent = startAgent(t, c, p.namespace, s, "--source=hpa", "--server="+m.line.address(), "--request-timeout=30s")
	p.awaitCondition(app, "AbleToScale=True/ReadyForNewScale")
	return m
}

// another kills the agent, and starts one that has a better line.
func (m *midway) another(t *testing.T) {
	t.Helper()
	m.agent.kill()
	m.line.up.Store(0)
	m.line.down.Store(0)
	m.agent.start()
	m.agent.awaitReady()
}

// stays checks that the count stays at 7 for some reconciles, because of the policy.
func (m *midway) stays(t *testing.T) {
	t.Helper()
	m.awaitReplicas(app, 7)
	m.awaitCondition(app, "ScalingLimited=True/ScaleUpLimit")
	m.awaitReconciles(t, 3)
	m.went(t, "2", "7")
}

// pending reports whether the service does not know the outcome of its recommendation.
func (m *midway) pending(t *testing.T) bool {
	t.Helper()
	answer, err := m.s.Targets().GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: "clusters/test/namespaces/" + m.namespace + "/targets/" + app})
	must(t, err)
	return answer.GetTarget().GetHistory().GetPending() != nil
}

// The count was written but not reported to the service: it sees the count.
func TestFaultsTheAgentIsKilledBeforeItReports(t *testing.T) {
	t.Parallel()
	var m *midway
	var mark kubetest.Mark
	for attempt := 1; ; attempt++ {
		m = newMidway(t)
		mark = m.c.Mark(t)
		m.line.up.Store(int64(slow))
		cpu(600, 0).do(m.place, app)
		awaitQuickly(t, "the scale is written", func() bool { return m.scaleWrites(t, m.agent, mark) > 0 })
		m.agent.kill()
		if m.pending(t) {
			break
		}
		if attempt == attempts {
			t.Fatal("the report came through each time, which this test is not about")
		}
		t.Log("the report came through: once more")
	}
	m.another(t)
	m.stays(t)
	if n := m.scaleWrites(t, m.agent, mark); n != 1 {
		t.Errorf("%d writes of the scale, want 1", n)
	}
}

// The service has decided, and nothing was written: the decision does not count.
func TestFaultsTheAgentIsKilledBeforeItApplies(t *testing.T) {
	t.Parallel()
	var m *midway
	var mark kubetest.Mark
	for attempt := 1; ; attempt++ {
		m = newMidway(t)
		mark = m.c.Mark(t)
		m.line.down.Store(int64(slow))
		cpu(600, 0).do(m.place, app)
		awaitQuickly(t, "the service decides", func() bool { return m.pending(t) })
		m.agent.kill()
		if m.scaleWrites(t, m.agent, mark) == 0 {
			break
		}
		if attempt == attempts {
			t.Fatal("the agent knew of the decision each time, which this test is not about")
		}
		t.Log("the agent knew of the decision: once more")
	}
	m.another(t)
	m.stays(t)
	if n := m.scaleWrites(t, m.agent, mark); n != 1 {
		t.Errorf("%d writes of the scale, want 1", n)
	}
}
