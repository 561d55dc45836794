//go:build linux

package swarm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// cluster is another cluster of a fleet, of another platform: it asks each second, and does what it is told.
type cluster struct {
	jobs, has atomic.Int32
	silent    atomic.Bool
}

func (c *cluster) ask(ctx context.Context, w *world, fleet, name string) error {
	n := c.has.Load()
	req := &setpointv1.RecommendRequest{
		Target: name, Fleet: fleet,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(1)), MaxReplicas: 9, Metrics: []*setpointv1.MetricSpec{{
			Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			},
		}}},
		Scale:           &setpointv1.Scale{SpecReplicas: n, StatusReplicas: &n},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(c.jobs.Load())}},
	}
	for i := range n {
		req.Pods = append(req.Pods, &setpointv1.Pod{Name: fmt.Sprintf("p%d", i), Phase: "Running", Ready: &setpointv1.PodReadyCondition{Status: "True"}})
	}
	answer, err := w.serve.Recommendations().Recommend(ctx, req)
	if err == nil {
		c.has.Store(answer.GetDesiredReplicas())
	}
	return err
}

// fleetOfPlatforms: a Swarm and a cluster of another platform are scaled as one; the Swarm's service keeps
// what it has while the other one is silent, is drained to none, and takes part again.
func fleetOfPlatforms(t *testing.T, w *world) {
	const fleet, other = "clusters/all/namespaces/default/targets/shared", "clusters/kubernetes/namespaces/default/targets/shared"
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	fatal.If(t, os.WriteFile(file, []byte(`spec:
  minReplicas: 2
  maxReplicas: 12
  metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}}}]
  behavior: {scaleUp: {policies: [{type: Pods, value: 20, periodSeconds: 1}]}, scaleDown: {stabilizationWindowSeconds: 0}}
fleet:
  members: [{target: clusters/e2e/namespaces/default/targets/shared}, {target: `+other+`, maxReplicas: 6}]
`), 0o600))
	typed := func(args ...string) {
		t.Helper()
		if _, err := w.serve.Setpoint(append([]string{"fleet"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	typed("create", fleet, "-f", file, "--scope=External:queue=per-member", "--period=1s", "--stale-after=5s", "--lost-after=10m", "--max-moves=1")
	k := &cluster{}
	k.has.Store(1)
	k.jobs.Store(10)
	w.queue.Store(10)
	s := w.queued(t, "shared", 1, stepwise(20*time.Second), "setpoint.fleet="+fleet)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			if !k.silent.Load() {
				if err := k.ask(ctx, w, fleet, other); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Second)
		}
	})
	defer asking.Wait()
	defer cancel()
	becomes := func(what string, swarm int, cluster int32) {
		t.Helper()
		kit.Eventually(t, patience, what, func() error {
			if n, m := s.replicas(t), k.has.Load(); n != swarm || m != cluster {
				o, err := s.agent.Object(s.name)
				return fmt.Errorf("the Swarm has %d, the other %d; the agent says %+v, %v", n, m, o, err)
			}
			return nil
		})
	}
	k.jobs.Store(30)
	becomes("a ramp", 2, 2)
	k.jobs.Store(90)
	becomes("and on", 5, 5)
	k.silent.Store(true)
	kit.Eventually(t, patience, "it is stale", func() error {
		got, err := setpointv1.NewFleetServiceClient(w.serve.Conn()).GetFleet(ctx, &setpointv1.GetFleetRequest{Name: fleet})
		if err == nil && got.GetFleet().GetMemberCounts().GetStale() == 0 {
			err = fmt.Errorf("the fleet is %v", got)
		}
		return err
	})
	w.queue.Store(0)
	w.awaitReconciles(t, w.reconciles()+5, 0)
	becomes("a silent member", 5, 5)
	k.jobs.Store(80)
	k.silent.Store(false)
	becomes("what both know", 4, 4)
	typed("drain", fleet, "e2e")
	k.jobs.Store(40)
	becomes("drained", 0, 4)
	typed("promote", fleet, "e2e")
	k.jobs.Store(60)
	becomes("promoted", 3, 3)
	o, err := s.agent.Object(s.name)
	if err != nil || o.Decision == nil || !strings.Contains(o.Decision.Fleet, "of fleet "+fleet) {
		t.Errorf("the agent says %+v, %v", o, err)
	}
}

// queued makes a service that is scaled by one task for each ten in the queue, between 1 and 5.
func (w *world) queued(t *testing.T, name string, replicas int, behavior string, labels ...string) *workload {
	t.Helper()
	s := w.createLabelled(t, name, "burn:1", replicas, append([]string{
		"setpoint.max=5", "setpoint.metric.queue.source=queue", "setpoint.metric.queue.path=/", "setpoint.metric.queue.valuePath={.depth}",
		"setpoint.metric.queue.average=10", "setpoint.behavior=" + behavior,
	}, labels...)...)
	t.Cleanup(func() { s.remove(t) })
	s.use(t, idle)
	return s
}

// stepwise adds a task each three seconds, and holds a count for a few.
func stepwise(window time.Duration) string {
	return fmt.Sprintf("{scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 3}]}, scaleDown: {stabilizationWindowSeconds: %d}}", window/time.Second)
}
