//go:build linux

package kubernetes

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// pacePeriod is the sync period of both controllers, and that of the policies.
var pacePeriod = flag.Duration("pace-period", 0, "sync period of TestStepsTakeAsLongAsNatives, whole seconds; 0: it is skipped")

const (
	paceObjects = 40
	paceMost    = 100
	paceTries   = 3
)

// climb is the history of a place's Deployments: when which size was requested.
type climb struct {
	*place
	mu sync.Mutex
	at map[string][]time.Time // by Deployment; guarded by mu
}

func newClimb(t *testing.T, c *kubetest.Cluster, k kind, prefix string) *climb {
	t.Helper()
	w := &climb{place: newPlace(t, c, k, prefix), at: map[string][]time.Time{}}
	sizes := map[string]string{} // of the watch alone
	w.watchAll(t, deployments, func(object *unstructured.Unstructured) string {
		size, name := wantedReplicas(object), object.GetName()
		if sizes[name] != size {
			sizes[name] = size
			w.mu.Lock()
			w.at[name] = append(w.at[name], time.Now())
			w.mu.Unlock()
		}
		return size
	})
	for i := range paceObjects {
		name := manyName(i)
		queue("10", 1).do(w.place, name)
		c.Deployment(t, w.namespace, name, 1)
	}
	return w
}

// steps are the times between changes of a size, sorted; each object has made all.
func (w *climb) steps(failed func(string, ...any)) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for name, at := range w.at {
		if len(at) != 7 { // 1, 5, 10, 20, 40, 80, 100
			failed("%s: %s had %d sizes, want 7", w.kind.name, name, len(at))
		}
		for i := 2; i < len(at); i++ {
			all = append(all, at[i].Sub(at[i-1]))
		}
	}
	slices.Sort(all)
	return all
}

// pacedSpec has the policies for scaling up that are the default, with another period.
func pacedSpec(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := metric(external(averageValue("10")))(name)
	least, seconds, atOnce := int32(1), int32(*pacePeriod/time.Second), int32(0)
	spec.MinReplicas, spec.MaxReplicas = &least, paceMost
	spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: &atOnce,
		Policies: []autoscalingv2.HPAScalingPolicy{
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: seconds},
			{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: seconds},
		},
	}}
	return spec
}

// Compared with the native controller no step takes two periods instead of one. It runs alone,
// because it measures time.
func TestStepsTakeAsLongAsNatives(t *testing.T) {
	period := *pacePeriod
	if period == 0 {
		t.Skip("make e2e-pace runs it, alone, for it measures time")
	}
	for try := 1; ; try++ {
		var problems []string
		t.Run(fmt.Sprint("try ", try), func(t *testing.T) {
			compareSteps(t, period, func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) })
		})
		if len(problems) == 0 || t.Failed() {
			return
		}
		if try == paceTries {
			t.Fatal(strings.Join(problems, "; "))
		}
		t.Logf("once more, the machine may have stood still for one of them: %s", strings.Join(problems, "; "))
	}
}

// compareSteps measures both side by side, and returns the problems.
func compareSteps(t *testing.T, period time.Duration, failed func(string, ...any)) {
	c := withAutoscalers(t, kubetest.Start(t, kubetest.Config{Native: true, SyncPeriod: period, WithoutWorkloads: true}))
	native, ours := newClimb(t, c, hpas, "native"), newClimb(t, c, autoscalers, "setpoint")
	startAgent(t, c, ours.namespace, service.Start(t), "--source=autoscaler", "--sync-period="+period.String(), "--log-level=warn")
	var jobs []func() error
	for i := range paceObjects {
		for _, w := range []*climb{native, ours} {
			jobs = append(jobs, func() error { return w.tryAdd(manyName(i), pacedSpec(manyName(i))) })
		}
	}
	inParallel(t, jobs)
	for i := range paceObjects {
		for _, w := range []*climb{native, ours} {
			w.awaitCondition(manyName(i), "AbleToScale=True/ReadyForNewScale")
		}
	}
	for i := range paceObjects {
		for _, w := range []*climb{native, ours} {
			queue(fmt.Sprint(10*paceMost), paceMost).do(w.place, manyName(i))
		}
	}
	for i := range paceObjects {
		for _, w := range []*climb{native, ours} {
			await(t, "all are as large as they may be", func() string {
				if got := w.replicas(manyName(i)); got != paceMost {
					return fmt.Sprintf("%s %s has %d", w.kind.name, manyName(i), got)
				}
				return ""
			})
		}
	}
	time.Sleep(readingAge) // watches lag a moment behind
	theirs, mine := native.steps(failed), ours.steps(failed)
	if len(theirs) == 0 || len(mine) == 0 {
		failed("%d steps, %d under the native controller", len(mine), len(theirs))
		return
	}
	at := func(all []time.Duration, q float64) time.Duration { return all[int(q*float64(len(all)-1))] }
	long := func(all []time.Duration) (n int) {
		for _, d := range all {
			if d > period*3/2 {
				n++
			}
		}
		return n
	}
	for _, one := range []struct {
		name string
		all  []time.Duration
	}{{"native", theirs}, {"setpoint", mine}} {
		t.Logf("%s: %d steps: %v least, %v median, %v of 95 %%, %v most; %d of two periods", one.name, len(one.all),
			one.all[0].Round(time.Millisecond), at(one.all, 0.5).Round(time.Millisecond), at(one.all, 0.95).Round(time.Millisecond), one.all[len(one.all)-1].Round(time.Millisecond), long(one.all))
	}
	if is, was := long(mine), long(theirs); is > was {
		failed("%d steps took two periods, %d under the native controller", is, was)
	}
	// A machine that is so busy that the native controller misses its own periods reveals steps
	// that are slower than that, but not steps that are too quick.
	keptPace := long(theirs) <= len(theirs)/20
	if !keptPace {
		t.Logf("NOT CHECKED: that no step is quicker: %d of %d took two periods under the native controller", long(theirs), len(theirs))
	}
	for _, q := range []float64{0.1, 0.5, 0.9} {
		// To read and to ask takes a moment, however short the period.
		if is, was := at(mine, q), at(theirs, q); is-was > max(period/10, time.Second/2) || keptPace && was-is > max(period/10, time.Second/2) {
			failed("%v of the steps took %v at most, %v under the native controller", q, is, was)
		}
	}
}
