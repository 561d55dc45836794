//go:build linux

package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// traffic counts a controller's requests to the API server.
type traffic struct {
	counts map[string]int
	passes float64 // over all objects
	took   time.Duration
}

func (y traffic) total() int {
	sum := 0
	for _, n := range y.counts {
		sum += n
	}
	return sum
}

func (y traffic) perPass() float64 { return float64(y.total()) / y.passes }

// both are the counts of two, a line each.
func both(native, ours map[string]int) string {
	what := slices.Collect(maps.Keys(native))
	for w := range ours {
		if _, ok := native[w]; !ok {
			what = append(what, w)
		}
	}
	slices.Sort(what)
	var lines strings.Builder
	for _, w := range what {
		fmt.Fprintf(&lines, "\n    %-36s%12d%10d", w, native[w], ours[w])
	}
	return lines.String()
}

// nativePass waits until the native controller has reconciled everything twice without a
// change.
func (w *manyWorld) nativePass(t *testing.T) traffic {
	t.Helper()
	must(t, w.c.StartControllers(kubetest.Config{WithoutWorkloads: true, Native: true, SyncPeriod: manyPeriod}))
	mark := w.c.Mark(t)
	evaluated := func(n int) {
		t.Helper()
		awaitFor(t, manyWithin, fmt.Sprintf("%d evaluations of the native controller", n), func() string {
			if got := w.c.Since(t, mark).Of(kubetest.NativeUser).Counts()["get deployments/scale"]; got < n {
				return fmt.Sprint(got)
			}
			return ""
		})
	}
	evaluated(2 * manyObjects) // the first of each writes a status
	mark = w.c.Mark(t)
	evaluated(2 * manyObjects)
	counts := w.c.Since(t, mark).Of(kubetest.NativeUser).Counts()
	w.c.StopControllers()
	return traffic{counts: counts, passes: float64(counts["get deployments/scale"]) / float64(manyObjects)}
}

func newAgentForAll(t *testing.T, c *kubetest.Cluster, s *service.Instance, period time.Duration) *agent {
	t.Helper()
	a := newAgent(t, c, "default", s, "--source=hpa", "--sync-period="+period.String(), "--log-level=warn")
	a.command.Args = slices.DeleteFunc(a.command.Args, func(arg string) bool { return strings.HasPrefix(arg, "--namespace=") })
	return a
}

// awaitReconciles waits until there were so many reconciles, and returns how long that took.
func (w *manyWorld) awaitReconciles(t *testing.T, a *agent, n float64) time.Duration {
	t.Helper()
	began := time.Now()
	awaitFor(t, manyWithin, fmt.Sprintf("%v reconciles", n), func() string {
		if got := a.value("setpoint_agent_reconciles_total"); got < n {
			return fmt.Sprint(got)
		}
		return ""
	})
	return time.Since(began)
}

// steadyPasses are two passes over all objects without a change, and how late reconciles begin.
func (w *manyWorld) steadyPasses(t *testing.T, a *agent) (traffic, time.Duration) {
	t.Helper()
	w.awaitReconciles(t, a, float64(2*manyObjects))
	mark, before := w.c.Mark(t), a.value("setpoint_agent_reconciles_total")
	w.awaitReconciles(t, a, before+float64(2*manyObjects))
	requests := w.c.Since(t, mark).Of(a.account.User)
	after := a.value("setpoint_agent_reconciles_total")
	// Reconciles go on between the two readings.
	if unchanged := a.value("setpoint_agent_reconciles_total", "outcome=unchanged"); unchanged < after {
		t.Errorf("%v of %v reconciles changed nothing, want all", unchanged, after)
	}
	return traffic{counts: requests.Counts(), passes: (after - before) / float64(manyObjects)}, a.quantile("setpoint_agent_schedule_lag_seconds", 0.99)
}

// scaleAll changes the load of everything.
func (w *manyWorld) scaleAll(t *testing.T, a *agent, milli int64, replicas int32) traffic {
	t.Helper()
	mark, began := w.c.Mark(t), time.Now()
	for _, p := range w.places {
		for i := range w.each {
			w.c.Metrics.SetCPU(p.namespace, manyName(i), milli)
		}
	}
	var requests kubetest.Requests
	awaitFor(t, manyWithin, "all are scaled", func() string {
		requests = w.c.Since(t, mark).Of(a.account.User)
		if n := requests.Counts()["update deployments/scale"]; n < manyObjects {
			return fmt.Sprint(n)
		}
		return ""
	})
	last := began
	for _, request := range requests {
		if request.What() == "update deployments/scale" {
			last = request.Received
		}
	}
	// The last events may still arrive.
	awaitFor(t, manyWithin, "all events are sent", func() string {
		requests = w.c.Since(t, mark).Of(a.account.User)
		if n := requests.Counts()["create events"]; n < manyObjects {
			return fmt.Sprint(n)
		}
		return ""
	})
	for _, p := range w.places {
		for i := range w.each {
			if got := p.replicas(manyName(i)); got != replicas {
				t.Errorf("%s/%s has %d replicas, want %d", p.namespace, manyName(i), got, replicas)
			}
		}
	}
	if n := requests.Counts()["update deployments/scale"]; n != manyObjects {
		t.Errorf("%d writes of scales, want %d", n, manyObjects)
	}
	return traffic{counts: requests.Counts(), passes: 1, took: last.Sub(began)}
}
