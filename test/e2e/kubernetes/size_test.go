//go:build linux

package kubernetes

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The size: 1,000 HorizontalPodAutoscalers of 10 pods each, in 25 namespaces; 400 in 10 without FULL=1.
var (
	manyNamespaces = map[bool]int{true: 25, false: 10}[testlength.Full()]
	manyObjects    = manyNamespaces * manyEach
)

const (
	manyEach = 40
	manyPods = 10
	// manyPeriod is the sync period of both: a whole pass must fit.
	manyPeriod = 5 * time.Second
	// manyWithin is the longest that anything may take with all of them.
	manyWithin = 5 * time.Minute
)

// Goals for an idle machine.
const (
	mostRequests = 0.5 // of the native controller's
	mostMemory   = 150 << 20
	mostApply    = 100 * time.Millisecond // at the median
	// patience is how many times as long it may take where others use the processors.
	patience = 10
)

// writing are the verbs that change something.
var writing = []string{"create", "update", "patch", "delete", "deletecollection"}

func TestSizeOfManyAutoscalersOfTenPods(t *testing.T) {
	if os.Getenv("SETPOINT_E2E_RACE") != "" {
		t.Skip("with the race detector the figures are not the agent's")
	}
	c := kubetest.Start(t, kubetest.Config{WithoutWorkloads: true})
	world := newManyWorld(t, c, extent{manyNamespaces, manyEach, manyPods})

	native := world.nativePass(t)
	s := service.Start(t)
	a := newAgentForAll(t, c, s, manyPeriod)
	began := time.Now()
	a.start()
	a.awaitReady()
	firstRead := time.Since(began)
	var memory [3]float64 // after the start, at rest, at the end
	memory[0] = a.peakMiB()
	firstReconcile := world.awaitReconciles(t, a, float64(manyObjects))

	steady, lag := world.steadyPasses(t, a)
	memory[1] = a.peakMiB()
	scaling := world.scaleAll(t, a, 600, 12)
	memory[2] = a.peakMiB()
	median, most := a.quantile("setpoint_agent_decision_to_applied_seconds", 0.5), a.quantile("setpoint_agent_decision_to_applied_seconds", 0.99)

	t.Logf(`%d HorizontalPodAutoscalers of %d pods in %d namespaces, each reconciled every %v:
                                              native     agent
requests a pass, nothing changes         %10.0f%10.0f
  of which%s
cluster read after the start                          %10v
first reconcile, all at once                              %10v
reconciles begin late by, 99th percentile                 %10v
all scaled, from load to last write                   %10v
  requests for that                                   %10.0f%s
decision to applied scale, median                     %10v
  at 99 of 100                                        %10v
memory at its peak, after the start                   %7.1f MiB
  after reconciles in which nothing changes               %7.1f MiB
  after all were scaled                               %7.1f MiB`,
		manyObjects, manyPods, manyNamespaces, manyPeriod, native.perPass(), steady.perPass(), both(native.counts, steady.counts),
		firstRead.Round(time.Millisecond), firstReconcile.Round(time.Millisecond), lag, scaling.took.Round(time.Millisecond),
		float64(scaling.total()), both(nil, scaling.counts), median, most, memory[0], memory[1], memory[2])

	if share := steady.perPass() / native.perPass(); share > mostRequests {
		t.Errorf("%.2f of the native controller's requests, want at most %v", share, mostRequests)
	}
	for what, n := range steady.counts {
		if verb, of, _ := strings.Cut(what, " "); slices.Contains(writing, verb) && of != "selfsubjectaccessreviews" {
			t.Errorf("%d times %s in reconciles in which nothing changes", n, what)
		}
	}
	// They are counted, where they are made.
	for _, what := range []string{"update horizontalpodautoscalers/status", "update deployments/scale", "create events"} {
		if n := scaling.counts[what]; n < manyObjects/2 {
			t.Errorf("%d times %s while %d objects were scaled", n, what, manyObjects)
		}
	}
	if memory[2] > mostMemory>>20 {
		t.Logf("MISSED: %.1f MiB of memory, want at most %d", memory[2], mostMemory>>20)
	}
	if memory[2] > 1.25*float64(mostMemory>>20) {
		t.Errorf("%.1f MiB of memory, far above %d", memory[2], mostMemory>>20)
	}
	for _, one := range []struct {
		what       string
		took, most time.Duration
	}{
		{"from decision to applied scale, at the median", median, mostApply},
		{"the first reconcile", firstReconcile, manyPeriod},
		{"reconciles being late", lag, manyPeriod},
		// Namespaces take their turns over the period, then a reconcile may take as long.
		{"until all were scaled", scaling.took, 2 * manyPeriod},
	} {
		switch {
		case one.took > patience*one.most:
			t.Errorf("%s: %v, want at most %v", one.what, one.took, one.most)
		case one.took > one.most:
			t.Logf("%s: %v, want at most %v where nothing else runs", one.what, one.took, one.most)
		}
	}
}

// peakMiB is the most memory that the agent has had.
func (a *agent) peakMiB() float64 {
	a.t.Helper()
	peak, err := process.PeakResident(a.PID())
	must(a.t, err)
	return float64(peak) / (1 << 20)
}
