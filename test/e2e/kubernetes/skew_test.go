//go:build linux

package kubernetes

import (
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	memorystore "github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// skewed is a service in this process with a wrong clock.
type skewed struct{ address string }

// GRPCAddr implements recommender.
func (s skewed) GRPCAddr() string { return s.address }

// newSkewed starts a service whose clock is ahead. It ends with the test.
func newSkewed(t *testing.T, ahead time.Duration) skewed {
	t.Helper()
	options := server.DefaultOptions()
	options.Clock = func() time.Time { return time.Now().Add(ahead) }
	// Shedding measures how long goroutines wait for a processor, and the tests are in this
	// process.
	options.Limits.Shedding.Off = true
	engine := memorystore.New(memorystore.Options{})
	t.Cleanup(func() { fatal.If(t, engine.Close()) })
	srv, err := server.New(engine, engine, options)
	fatal.If(t, err)
	address, _ := testserver.Serve(t, srv)
	return skewed{address}
}

// timedScenes depend on the times of changes, and not on those of reconciles.
var timedScenes = []scene{
	// Five pods in ten minutes, and no sooner.
	{name: "in-ten-minutes", replicas: 2, spec: limited(5, 5, 600), steps: []step{
		cpu(600, 7).with("ScalingLimited=True/ScaleUpLimit"), cpu(700, 7).with("ScalingLimited=True/ScaleUpLimit"),
	}},
	{name: "held-for-minutes", replicas: 2, spec: func(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
		spec, window := basic(name), int32(300)
		spec.Behavior.ScaleDown.StabilizationWindowSeconds = &window
		return spec
	}, steps: []step{cpu(300, 6), cpu(100, 6).with("AbleToScale=True/ScaleDownStabilized")}},
	{name: starting, replicas: 2, spec: basic, steps: []step{cpu(300, 6), onceCounted(cpu(100, 2))}},
}

// A service whose clock differs from the cluster's by less than the agent tolerates decides as
// the native controller does, including windows, policies and starting pods.
func TestSideBySideClocksThatDiffer(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	for name, ahead := range map[string]time.Duration{"ahead": 90 * time.Second, "behind": -90 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, newPair(t, c, newSkewed(t, ahead)), timedScenes)
		})
	}
}
