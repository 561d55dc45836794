//go:build linux

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The size: 1,000 HorizontalPodAutoscalers of 10 pods each, in 25 namespaces.
const (
	manyNamespaces = 25
	manyEach       = 40
	manyPods       = 10
	manyObjects    = manyNamespaces * manyEach
	// manyPeriod is the sync period of both: a whole round must fit.
	manyPeriod = 5 * time.Second
)

// What must be reached.
const (
	mostRequests = 0.5 // of the native controller's
	mostMemory   = 150 << 20
	mostApply    = 100 * time.Millisecond // at the median
)

func TestSizeAThousandAutoscalersOfTenPods(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{WithoutWorkloads: true})
	world := newManyWorld(t, c)

	native := world.nativeRound(t)
	s := service.Start(t)
	a := newAgentForAll(t, c, s)
	began := time.Now()
	a.start()
	a.awaitReady()
	firstRead := time.Since(began)
	firstRound := world.awaitRounds(t, a, manyObjects)

	steady, lag := world.steadyRounds(t, a)
	scaling := world.scaleAll(t, a, 600, 12)
	memory, err := a.PeakMemory()
	must(t, err)
	median, most := a.quantile("setpoint_agent_decision_to_applied_seconds", 0.5), a.quantile("setpoint_agent_decision_to_applied_seconds", 0.99)

	t.Logf(`%d HorizontalPodAutoscalers of %d pods in %d namespaces, a round every %v:
                                              native     agent
requests a round, nothing changes         %10.0f%10.0f
  of which%s
cluster read after the start                          %10v
first round, all at once                              %10v
rounds begin late by, at 99 of 100                    %10v
all scaled, from load to last write                   %10v
  requests for that                                   %10.0f%s
decision to applied scale, median                     %10v
  at 99 of 100                                        %10v
memory at its peak                                    %7.1f MiB`,
		manyObjects, manyPods, manyNamespaces, manyPeriod, native.perRound(), steady.perRound(), both(native.counts, steady.counts),
		firstRead.Round(time.Millisecond), firstRound.Round(time.Millisecond), lag, scaling.took.Round(time.Millisecond),
		float64(scaling.total()), both(nil, scaling.counts), median, most, float64(memory)/(1<<20))

	if share := steady.perRound() / native.perRound(); share > mostRequests {
		t.Errorf("%.2f of the native controller's requests, want at most %v", share, mostRequests)
	}
	if memory > mostMemory {
		t.Errorf("%d MiB of memory, want at most %d", memory>>20, mostMemory>>20)
	}
	if median > mostApply {
		t.Errorf("%v from decision to applied scale at the median, want at most %v", median, mostApply)
	}
	for what, took := range map[string]time.Duration{"the first round": firstRound, "rounds being late": lag} {
		if took > manyPeriod {
			t.Errorf("%s took %v, want at most %v", what, took, manyPeriod)
		}
	}
	// Namespaces take their turns over the period, then a round may take as long.
	if scaling.took > 2*manyPeriod {
		t.Errorf("all were scaled %v after their load, want at most %v", scaling.took, 2*manyPeriod)
	}
}

// manyWorld is a cluster with all these.
type manyWorld struct {
	c      *kubetest.Cluster
	places []*place
}

func newManyWorld(t *testing.T, c *kubetest.Cluster) *manyWorld {
	t.Helper()
	began := time.Now()
	w := &manyWorld{c: c}
	var jobs []func() error
	for n := range manyNamespaces {
		p := newPlace(t, c, hpas, fmt.Sprintf("many-%02d", n))
		w.places = append(w.places, p)
		for i := range manyEach {
			name := manyName(i)
			c.Metrics.SetCPU(p.namespace, name, 500)
			jobs = append(jobs, func() error { return p.addDeploymentWithPods(name) })
		}
	}
	inParallel(t, jobs)
	await(t, "all pods run", func() string {
		running := 0
		for _, p := range w.places {
			for _, pod := range c.Kubelet.Pods(p.namespace) {
				if pod.Status.Phase == corev1.PodRunning {
					running++
				}
			}
		}
		if want := manyObjects * manyPods; running != want {
			return fmt.Sprintf("%d of %d", running, want)
		}
		return ""
	})
	jobs = nil
	for _, p := range w.places {
		for i := range manyEach {
			jobs = append(jobs, func() error { return p.tryAdd(manyName(i), kubetest.CPU(manyName(i), 50, 2, 40)) })
		}
	}
	inParallel(t, jobs)
	t.Logf("%d deployments with %d pods were made in %v", manyObjects, manyObjects*manyPods, time.Since(began).Round(time.Second))
	return w
}

func manyName(i int) string { return fmt.Sprintf("web-%02d", i) }

// inParallel does many things that the API server may do at the same time.
func inParallel(t *testing.T, jobs []func() error) {
	t.Helper()
	queue := make(chan func() error)
	var workers sync.WaitGroup
	var once sync.Once
	var failure error
	for range 16 {
		workers.Go(func() {
			for job := range queue {
				if err := job(); err != nil {
					once.Do(func() { failure = err })
				}
			}
		})
	}
	for _, job := range jobs {
		queue <- job
	}
	close(queue)
	workers.Wait()
	must(t, failure)
}

// addDeploymentWithPods makes one as its controller would have left it; no controller
// runs that would take its share of the machine.
func (p *place) addDeploymentWithPods(name string) error {
	ctx, client, replicas := context.Background(), p.c.Client(), int32(manyPods)
	_, err := client.AppsV1().Deployments(p.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: kubetest.Selector(name), Template: kubetest.PodTemplate(name)},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"replicas": replicas, "readyReplicas": replicas}})
	if err != nil {
		return err
	}
	if _, err := client.AppsV1().Deployments(p.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	for i := range replicas {
		template := kubetest.PodTemplate(name)
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name = fmt.Sprintf("%s-%d", name, i)
		if _, err := client.CoreV1().Pods(p.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// traffic is what a controller asked of the API server.
type traffic struct {
	counts map[string]int
	rounds float64 // of all objects
	took   time.Duration
}

func (y traffic) total() int {
	sum := 0
	for _, n := range y.counts {
		sum += n
	}
	return sum
}

func (y traffic) perRound() float64 { return float64(y.total()) / y.rounds }

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

// nativeRound lets the native controller look at everything, twice at rest.
func (w *manyWorld) nativeRound(t *testing.T) traffic {
	t.Helper()
	must(t, w.c.StartControllers(kubetest.Config{WithoutWorkloads: true, Native: true, SyncPeriod: manyPeriod}))
	mark := w.c.Mark(t)
	evaluated := func(n int) {
		t.Helper()
		await(t, fmt.Sprintf("%d evaluations of the native controller", n), func() string {
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
	return traffic{counts: counts, rounds: float64(counts["get deployments/scale"]) / manyObjects}
}

func newAgentForAll(t *testing.T, c *kubetest.Cluster, s *service.Instance) *agent {
	t.Helper()
	a := newAgent(t, c, "default", s, "--source=hpa", "--sync-period="+manyPeriod.String(), "--log-level=warn")
	a.command.Args = slices.DeleteFunc(a.command.Args, func(arg string) bool { return strings.HasPrefix(arg, "--namespace=") })
	return a
}

// awaitRounds waits until there were so many rounds, and returns how long that took.
func (w *manyWorld) awaitRounds(t *testing.T, a *agent, n float64) time.Duration {
	t.Helper()
	began := time.Now()
	await(t, fmt.Sprintf("%v rounds", n), func() string {
		if got := a.value("setpoint_agent_rounds_total"); got < n {
			return fmt.Sprint(got)
		}
		return ""
	})
	return time.Since(began)
}

// steadyRounds are two rounds of everything in which nothing changes, and how late
// rounds begin.
func (w *manyWorld) steadyRounds(t *testing.T, a *agent) (traffic, time.Duration) {
	t.Helper()
	w.awaitRounds(t, a, 2*manyObjects)
	mark, before := w.c.Mark(t), a.value("setpoint_agent_rounds_total")
	w.awaitRounds(t, a, before+2*manyObjects)
	requests := w.c.Since(t, mark).Of(a.account.User)
	after := a.value("setpoint_agent_rounds_total")
	if unchanged := a.value("setpoint_agent_rounds_total", "outcome=unchanged"); unchanged != after {
		t.Errorf("%v of %v rounds changed nothing, want all", unchanged, after)
	}
	return traffic{counts: requests.Counts(), rounds: (after - before) / manyObjects}, a.quantile("setpoint_agent_schedule_lag_seconds", 0.99)
}

// scaleAll changes the load of everything.
func (w *manyWorld) scaleAll(t *testing.T, a *agent, milli int64, replicas int32) traffic {
	t.Helper()
	mark, began := w.c.Mark(t), time.Now()
	for _, p := range w.places {
		for i := range manyEach {
			w.c.Metrics.SetCPU(p.namespace, manyName(i), milli)
		}
	}
	var requests kubetest.Requests
	await(t, "all are scaled", func() string {
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
	// What belongs to it still comes.
	await(t, "all events are sent", func() string {
		requests = w.c.Since(t, mark).Of(a.account.User)
		if n := requests.Counts()["create events"]; n < manyObjects {
			return fmt.Sprint(n)
		}
		return ""
	})
	for _, p := range w.places {
		for i := range manyEach {
			if got := p.replicas(manyName(i)); got != replicas {
				t.Errorf("%s/%s has %d replicas, want %d", p.namespace, manyName(i), got, replicas)
			}
		}
	}
	if n := requests.Counts()["update deployments/scale"]; n != manyObjects {
		t.Errorf("%d writes of scales, want %d", n, manyObjects)
	}
	return traffic{counts: requests.Counts(), rounds: 1, took: last.Sub(began)}
}

// quantile of a histogram of seconds, as Prometheus estimates it within a bucket.
func (a *agent) quantile(metric string, q float64) time.Duration {
	a.t.Helper()
	family, ok := a.metrics()[metric]
	if !ok || len(family.GetMetric()) != 1 {
		a.t.Fatalf("the agent has no histogram %s", metric)
	}
	h := family.GetMetric()[0].GetHistogram()
	rank, below, from := q*float64(h.GetSampleCount()), 0.0, 0.0
	for _, bucket := range h.GetBucket() {
		count, bound := float64(bucket.GetCumulativeCount()), bucket.GetUpperBound()
		if count >= rank && !math.IsInf(bound, 1) {
			seconds := from + (bound-from)*(rank-below)/max(count-below, 1)
			return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond / 10)
		}
		below, from = count, bound
	}
	return math.MaxInt64
}
