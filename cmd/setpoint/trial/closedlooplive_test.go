//go:build unix

package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A worker is this test's program as a process of its own. It takes two seconds to start, and then does one job after
// the other.
const workerVariable, workerStart = "SETPOINT_TEST_WORKER", 2 * time.Second

func init() {
	address := os.Getenv(workerVariable)
	if address == "" {
		return
	}
	time.Sleep(workerStart)
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		os.Exit(1)
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		length, _ := time.ParseDuration(lines.Text())
		time.Sleep(length)
		if _, err := fmt.Fprintln(conn, "done"); err != nil {
			break
		}
	}
	os.Exit(0)
}

// line is a queue of jobs, and the processes that work on it.
type line struct {
	t        *testing.T
	listener net.Listener
	arrived  *sync.Cond // of mu
	mu       sync.Mutex
	waiting  []time.Time // since when each job waits
	workers  []*worker   // the oldest first
	made     int
	ended    bool
}

type worker struct {
	name           string
	process        *exec.Cmd
	started, ready time.Time // ready: when it took its first job
	leaving        bool
	busy, told     time.Duration // all of its work, and what of it was told
	job            time.Time     // since when it works
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{t: t}
	l.arrived = sync.NewCond(&l.mu)
	var err error
	l.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	fatal.If(t, err)
	return l
}

// scale starts processes, or lets the newest ones leave after their job.
func (l *line) scale(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.workers) < n {
		l.made++
		w := &worker{name: fmt.Sprint("worker-", l.made), started: time.Now(), process: exec.CommandContext(l.t.Context(), os.Args[0])}
		w.process.Env = append(os.Environ(), workerVariable+"="+l.listener.Addr().String())
		if err := w.process.Start(); err != nil {
			l.t.Error(err)
			return
		}
		l.workers = append(l.workers, w)
		go l.serve(w)
	}
	for _, w := range l.workers[n:] {
		w.leaving = true
	}
	l.workers = l.workers[:n]
	l.arrived.Broadcast()
}

// serve gives the next process that connects the jobs of a worker.
func (l *line) serve(w *worker) {
	conn, err := l.listener.Accept()
	if err != nil {
		return
	}
	defer func() {
		_ = conn.Close()
		_ = w.process.Wait()
	}()
	done := bufio.NewReader(conn)
	l.mu.Lock()
	w.ready = time.Now()
	for {
		for len(l.waiting) == 0 && !w.leaving && !l.ended {
			l.arrived.Wait()
		}
		if w.leaving || l.ended {
			l.mu.Unlock()
			return
		}
		l.waiting = l.waiting[1:]
		w.job = time.Now()
		l.mu.Unlock()
		_, err := fmt.Fprintln(conn, time.Duration(50+rand.IntN(100))*time.Millisecond)
		if err == nil {
			_, err = done.ReadString('\n')
		}
		l.mu.Lock()
		w.busy += time.Since(w.job)
		w.job = time.Time{}
		if err != nil {
			l.mu.Unlock()
			return
		}
	}
}

// feed puts jobs into the queue: so many seconds of work a second, at each instant.
func (l *line) feed(work func(time.Duration) float64, length time.Duration) {
	const jobSeconds, tick = 0.0995, 20 * time.Millisecond
	begin, owed := time.Now(), 0.0
	for now := range time.Tick(tick) {
		if now.Sub(begin) > length {
			return
		}
		owed += work(now.Sub(begin)) * tick.Seconds() / jobSeconds
		l.mu.Lock()
		for ; owed >= 1; owed-- {
			l.waiting = append(l.waiting, now)
		}
		l.mu.Unlock()
		l.arrived.Broadcast()
	}
}

// observe adds the processes to a request: how busy each was since the last time, as CPU.
func (l *line) observe(req *setpointv1.RecommendRequest, period time.Duration) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	n := int32(len(l.workers))
	req.Scale = &setpointv1.Scale{SpecReplicas: n, StatusReplicas: &n}
	for _, w := range l.workers {
		pod := &setpointv1.Pod{
			Name: w.name, Phase: "Running", StartTime: timestamppb.New(w.started), Ready: &setpointv1.PodReadyCondition{Status: "False", LastTransitionTime: timestamppb.New(w.started)},
			Containers: []*setpointv1.Container{{Name: "worker", Requests: map[string]string{"cpu": "1"}}},
		}
		req.Pods = append(req.Pods, pod)
		if w.ready.IsZero() {
			continue
		}
		pod.Ready = &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(w.ready)}
		busy := w.busy
		if !w.job.IsZero() {
			busy += now.Sub(w.job)
		}
		used := (busy - w.told).Seconds() / period.Seconds()
		w.told = busy
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod: w.name, Timestamp: timestamppb.New(now), WindowSeconds: period.Seconds(),
			Containers: []*setpointv1.ContainerMetrics{{Name: "worker", Usage: map[string]string{"cpu": fmt.Sprintf("%dm", int64(1000*used))}}},
		})
	}
	return len(l.waiting) > 0 && now.Sub(l.waiting[0]) > time.Second
}

func (l *line) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.arrived.Broadcast()
	_ = l.listener.Close()
}

const (
	onWorkers     = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  minReplicas: 3\n  maxReplicas: 24\n  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n  behavior: {scaleDown: {stabilizationWindowSeconds: 30}}\n"
	workersPeriod = 5 * time.Second
)

// really runs the load under a spec, with processes that the service's answers start and end.
func really(t *testing.T, conn grpc.ClientConnInterface, name, spec string, length time.Duration) truth {
	t.Helper()
	read, err := hpa.ReadOne("spec.yaml", strings.NewReader(spec))
	fatal.If(t, err)
	kubernetes.Defaults(read.Object)
	l := newLine(t)
	defer l.end()
	l.scale(6)
	time.Sleep(workerStart + time.Second)
	// Three seconds of work a second, and for a good third of the time eight, with slopes.
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		l.feed(func(at time.Duration) float64 {
			part := float64(at) / float64(length)
			return 3 + 5*max(0, min(1, (part-.25)/.1, (.7-part)/.1))
		}, length)
	}()
	engine := &served{ctx: t.Context(), conn: conn, target: "clusters/" + name + "/namespaces/shop/targets/web", spec: &read.Object.Spec}
	client := setpointv1.NewRecommendationServiceClient(conn)
	var out truth
	var before time.Time
	count := 0
	for tick := time.NewTicker(workersPeriod); ; {
		select {
		case <-fed:
			tick.Stop()
			if engine.err != nil {
				t.Error(engine.err)
			}
			out.calls = engine.calls
			return out
		case <-tick.C:
		}
		req := &setpointv1.RecommendRequest{Target: engine.target, Spec: kubernetes.SpecToProto(engine.spec)}
		now := time.Now()
		if !before.IsZero() {
			out.hours += float64(count) * now.Sub(before).Hours()
		}
		if l.observe(req, workersPeriod) {
			out.short += workersPeriod.Seconds()
		}
		answer, err := client.Recommend(t.Context(), req)
		if err != nil {
			t.Error(err)
			return out
		}
		call := recording.Call{Time: answer.GetEvaluationTime().AsTime(), Request: engine.json(req), Answer: engine.json(answer)}
		before, count = now, int(answer.GetDesiredReplicas())
		if answer.GetDesiredReplicas() != answer.GetCurrentReplicas() {
			l.scale(count)
			report, err := client.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: engine.target, RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"})
			if err != nil {
				t.Error(err)
				return out
			}
			call.Report = engine.json(report)
		}
		engine.calls = append(engine.calls, call)
	}
}

// TestWhatIsPredictedOfRealProcesses runs real processes under two specs at the same time, and compares what a check predicts of
// the second one, by a recording of the first one, with what happened. LIVE says for how long.
func TestWhatIsPredictedOfRealProcesses(t *testing.T) {
	if os.Getenv("LIVE") == "" {
		t.Skip("it takes minutes: LIVE=5m says how long; make nightly runs it")
	}
	length, err := time.ParseDuration(os.Getenv("LIVE"))
	fatal.If(t, err)
	conn := clitest.Dial(t, clitest.StartServer(t))
	edits := []edit{{}, {"target 60 to 40 %", "averageUtilization: 60", "averageUtilization: 40"}, {"target 60 to 85 %", "averageUtilization: 60", "averageUtilization: 85"}, {"max 24 to 7", "maxReplicas: 24", "maxReplicas: 7"}}
	runs := make([]truth, len(edits))
	var all sync.WaitGroup
	for i := range edits {
		all.Go(func() { runs[i] = really(t, conn, fmt.Sprint("live", i), edits[i].of(onWorkers), length) })
	}
	if all.Wait(); t.Failed() {
		return
	}
	var recorded strings.Builder
	fatal.If(t, json.NewEncoder(&recorded).Encode(&recording.Scenario{Name: "shop/web", Calls: runs[0].calls}))
	for i := 1; i < len(edits); i++ {
		h := predicted(t, onWorkers, edits[i].of(onWorkers), recorded.String(), "0")
		off := 100 * (h.New.ReplicaHours/runs[i].hours - 1)
		t.Logf("| %s | %.3f | %.3f | %.3f | %+.1f %% | %.0f s | %.0f s | %.1f %% |", edits[i].name, runs[0].hours, h.New.ReplicaHours, runs[i].hours, off, h.New.ShortSeconds, runs[i].short, h.Model.MissPercent())
		if off < -20 || off > 20 {
			t.Errorf("%s: off by %.1f %%, more than 20", edits[i].name, off)
		}
	}
}
