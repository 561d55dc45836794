package nomad_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/nomad/api"
	dto "github.com/prometheus/client_model/go"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// counted returns the number of calls by kind, from the metric.
func (w *world) counted() map[string]int {
	w.t.Helper()
	families, err := w.requests.Gather()
	fatal.If(w.t, err)
	out := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[label(m, "call")] += int(m.GetCounter().GetValue())
		}
	}
	return out
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// Reconciling all groups of a namespace reads the lists once, each job once, and the statistics
// of each allocation once. Policies are read only after they changed.
func TestReadingsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, count = 20, 3
		w := newWorld(t)
		for i := range jobs {
			w.register(job{name: fmt.Sprintf("web-%d", i), count: count, policy: "cpu: 60", update: true})
		}
		service := run(t, w, agent.Options{})
		reconciles(3)
		before, asked := w.counted(), len(service.Asked())
		reconciles(5)
		made := float64(len(service.Asked())-asked) / jobs
		for call, most := range map[string]float64{"allocations": 2, "deployments": 0, "job": jobs, "statistics": jobs * count, "policy": 0, "scale": 0, "events": 0, "other": 0} {
			if n := float64(w.counted()[call]-before[call]) / made; n > 1.02*most || n == 0 && most > 0 {
				t.Errorf("%s: %.1f requests a reconcile of %d groups, want at most %.0f", call, n, jobs, most)
			}
		}
		if made < 5 {
			t.Errorf("%f reconciles", made)
		}
	})
}

// After writing a count only the writer reads the lists again.
func TestWritesLeaveListsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 40
		w := newWorld(t)
		for i := range jobs {
			w.Create(agenttest.Workload{Name: fmt.Sprintf("web-%d", i), Replicas: 2})
		}
		service := run(t, w, agent.Options{})
		reconciles(3)
		before, asked := w.counted(), len(service.Asked())
		for reconcile := range 4 {
			for i := range jobs {
				w.Want(fmt.Sprintf("web-%d", i), int32(3+reconcile))
			}
			reconciles(1)
		}
		made := float64(len(service.Asked())-asked) / jobs
		if n := w.counted()["scale"] - before["scale"]; n < 3*jobs {
			t.Fatalf("%d counts were written", n)
		}
		for _, call := range []string{"allocations", "deployments"} {
			if n := float64(w.counted()[call]-before[call]) / made; n > 3 {
				t.Errorf("%s: %.1f requests a reconcile in which all of %d groups are scaled", call, n, jobs)
			}
		}
	})
}

// Waiting for a connection says nothing about nodes.
func TestWaitingForAConnectionIsNotTheNodesDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.Placement.Usage = func(*api.AllocationListStub) (float64, uint64) { return 300, 64 << 20 }
		release := make(chan struct{})
		w.failing(func(r *http.Request) (int, string) {
			if r.URL.Path == "/v1/held" {
				<-release
			}
			return 0, ""
		})
		w.register(job{name: "web", count: 10, policy: "cpu: 60"})
		p := w.adapter()
		w.watch(p)
		time.Sleep(20 * time.Second)
		o := agenttest.Object(t, p, keyOf("web"))
		observe := func() *setpointv1.RecommendRequest {
			t.Helper()
			seen := agenttest.Observe(t, p, o)
			return seen.Request
		}
		if n := len(observe().GetPodMetrics()); n != 10 {
			t.Fatalf("%d samples of 10", n)
		}
		// While all connections are in use, a recent read of the job still counts.
		var held sync.WaitGroup
		for range 40 {
			held.Go(func() {
				var none any
				_, _ = w.client.Raw().Query("/v1/held", &none, nil)
			})
		}
		synctest.Wait()
		if errs := observe().GetMetricErrors(); len(errs) != 1 || !strings.Contains(errs[0].GetMessage(), "no connection to Nomad was free") {
			t.Errorf("got %v", errs)
		}
		close(release)
		held.Wait()
		if n := len(observe().GetPodMetrics()); n != 10 {
			t.Errorf("%d samples of 10 once connections are free", n)
		}
	})
}

// The text of an error answer is bounded: it may end up in logs.
func TestErrorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.failing(func(*http.Request) (int, string) {
			return http.StatusInternalServerError, "No cluster leader " + strings.Repeat("x", 1<<20)
		})
		_, _, err := w.client.Scaling().ListPolicies(nil)
		if err == nil || !strings.Contains(err.Error(), "No cluster leader") || len(err.Error()) > 4<<10 {
			t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
		}
	})
}

// Statistics are read with bounded concurrency.
func TestReadingsOfStatisticsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.options.Concurrency = 5
		var now, most atomic.Int64
		w.failing(func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/stats") {
				for n := now.Add(1); n > most.Load(); {
					most.Store(n)
				}
				time.Sleep(10 * time.Millisecond)
				now.Add(-1)
			}
			return 0, ""
		})
		for i := range 4 {
			w.register(job{name: fmt.Sprintf("web-%d", i), count: 40, policy: "cpu: 60", max: 100, min: 1})
		}
		service := run(t, w, agent.Options{})
		reconciles(3)
		if n := most.Load(); n != 5 {
			t.Errorf("%d readings at once, want 5", n)
		}
		last := service.Asked()[len(service.Asked())-1].Request
		if len(last.GetPodMetrics()) != 40 || len(last.GetMetricErrors()) > 0 {
			t.Errorf("%d samples of 40, errors %v", len(last.GetPodMetrics()), last.GetMetricErrors())
		}
	})
}

// A young task's CPU is missing, not idle, though its memory is known. Once it is known the
// sample has its own window and time.
func TestSamplesOfYoungTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.Placement.Usage = func(*api.AllocationListStub) (float64, uint64) { return 300, 64 << 20 }
		w.register(job{name: "web", count: 2, policy: "cpu: 60\nmemory: 80"})
		service := run(t, w, agent.Options{})
		time.Sleep(5 * time.Second)
		reconciles(2)
		asked := service.Asked()
		early, late := asked[0].Request, asked[len(asked)-1].Request
		if len(early.GetPodMetrics()) != 0 || len(early.GetMetricErrors()) != 0 {
			t.Errorf("before the first sample: %v", early.GetPodMetrics())
		}
		if len(late.GetPodMetrics()) != 2 {
			t.Fatalf("got %v", late.GetPodMetrics())
		}
		m := late.GetPodMetrics()[0]
		usage := m.GetContainers()[0].GetUsage()
		if age := asked[len(asked)-1].At.Sub(m.GetTimestamp().AsTime()); usage["cpu"] != "300000m" || usage["memory"] != fmt.Sprint(64<<20) || m.GetWindowSeconds() != 10 || age < 0 || age > 2*time.Second {
			t.Errorf("got %v, %s old", m, age)
		}
		if requests := late.GetPods()[0].GetContainers()[0].GetRequests(); requests["cpu"] != "500" || requests["memory"] != "256Mi" {
			t.Errorf("requests: %v", requests)
		}
	})
}

// A hanging node costs one timeout, not one per allocation; other nodes' statistics count. If
// no node answers, the metric has failed: that is not zero.
func TestANodeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.options.Concurrency = 1
		w.server.Placement.Usage = func(*api.AllocationListStub) (float64, uint64) { return 300, 64 << 20 }
		var all atomic.Bool
		w.server.Placement.Change = func(a *api.AllocationListStub) {
			if a.Name != "web.web[0]" || all.Load() {
				a.NodeID = "hangs"
			}
		}
		var hanging atomic.Int64
		w.failing(func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/stats") && !strings.Contains(r.URL.Path, "000000000001/") {
				hanging.Add(1)
				<-r.Context().Done()
			}
			return 0, ""
		})
		w.register(job{name: "web", count: 10, policy: "cpu: 60"})
		p := w.adapter()
		w.watch(p)
		time.Sleep(20 * time.Second)
		o := agenttest.Object(t, p, keyOf("web"))
		began := time.Now()
		seen, err := p.Observe(t.Context(), o)
		fatal.If(t, err)
		if n := len(seen.Request.GetPodMetrics()); n != 1 || len(seen.Request.GetPods()) != 10 || len(seen.Request.GetMetricErrors()) > 0 {
			t.Errorf("%d samples of %d pods, errors %v", n, len(seen.Request.GetPods()), seen.Request.GetMetricErrors())
		}
		if took := time.Since(began); took > 6*time.Second || hanging.Load() != 1 {
			t.Errorf("it took %s and %d requests", took, hanging.Load())
		}
		all.Store(true)
		seen = agenttest.Observe(t, p, o)
		if errs := seen.Request.GetMetricErrors(); len(errs) != 1 || errs[0].GetMetric() != "Resource:cpu" || !strings.Contains(errs[0].GetMessage(), "its node does not answer") {
			t.Errorf("got %v", errs)
		}
	})
}

// Many nodes that hang cost a third of a reconcile, as each other read may: the service is asked in the rest.
func TestManyNodesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.options.Concurrency = 1
		w.server.Placement.Change = func(a *api.AllocationListStub) { a.NodeID = a.Name }
		w.failing(func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/stats") {
				<-r.Context().Done()
			}
			return 0, ""
		})
		w.register(job{name: "web", count: 10, policy: "cpu: 60"})
		p := w.adapter()
		w.watch(p)
		time.Sleep(20 * time.Second)
		o := agenttest.Object(t, p, keyOf("web"))
		began := time.Now()
		seen := agenttest.Observe(t, p, o)
		if took, errs := time.Since(began), seen.Request.GetMetricErrors(); took > agent.DefaultRequestTimeout+time.Second || len(errs) != 1 || !strings.Contains(errs[0].GetMessage(), "its node does not answer") {
			t.Errorf("after %s: %v", took, errs)
		}
	})
}

// Lists have pages.
func TestListsInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register(job{name: "large", count: 2500, policy: "metric: {queue: {source: queues, query: large, average: 10}}", max: 5000, min: 1})
		w.register(job{name: "late", count: 3, policy: "metric: {queue: {source: queues, query: late, average: 10}}"})
		p := w.adapter()
		w.watch(p)
		for name, want := range map[string]int{"large": 2500, "late": 3} {
			seen := agenttest.Observe(t, p, agenttest.Object(t, p, keyOf(name)))
			if n := len(seen.Request.GetPods()); n != want || int(seen.Request.GetScale().GetStatusReplicas()) != want {
				t.Errorf("%s: %d pods, want %d", name, n, want)
			}
		}
	})
}

// Ended allocations, which Nomad lists until they are garbage collected, are not read.
func TestOnlyWhatLivesIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.Placement.StopTime = 5 * time.Second
		w.Create(agenttest.Workload{Name: "web", Replicas: 9})
		time.Sleep(5 * time.Second)
		w.Scale("web", 2)
		p := w.adapter()
		w.watch(p)
		pods := func() (all, deleting int) {
			seen := agenttest.Observe(t, p, agenttest.Object(t, p, keyOf("web")))
			for _, pod := range seen.Request.GetPods() {
				if pod.GetDeleting() {
					deleting++
				}
			}
			if n := seen.Request.GetScale().GetStatusReplicas(); n != 2 {
				t.Errorf("%d are placed, want 2", n)
			}
			return len(seen.Request.GetPods()), deleting
		}
		if all, deleting := pods(); all != 9 || deleting != 7 {
			t.Errorf("while they linger: %d pods, %d of them deleting", all, deleting)
		}
		time.Sleep(10 * time.Second)
		if all, deleting := pods(); all != 2 || deleting != 0 {
			t.Errorf("afterwards: %d pods, %d of them deleting", all, deleting)
		}
	})
}
