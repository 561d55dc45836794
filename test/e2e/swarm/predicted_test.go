//go:build linux

package swarm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// jobs is a queue that tasks work on.
type jobs struct {
	waiting, next chan time.Time // since when each waits; next: the oldest of them, for whoever is free
	oldest        atomic.Int64   // since when the one in next waits, as Unix nanoseconds; 0: none does
	working       atomic.Int32   // tasks
}

// newJobs is a queue at a socket, until the test ends.
func newJobs(t *testing.T, socket string) *jobs {
	t.Helper()
	q := &jobs{waiting: make(chan time.Time, 1<<20), next: make(chan time.Time)}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	fatal.If(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for since := range q.waiting {
			q.oldest.Store(since.UnixNano())
			q.next <- since
			q.oldest.Store(0)
		}
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go q.serve(conn)
		}
	}()
	return q
}

// serve gives a task one job after the other. What a task leaves undone, another one does.
func (q *jobs) serve(conn net.Conn) {
	defer conn.Close()
	q.working.Add(1)
	defer q.working.Add(-1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			done <- struct{}{}
		}
	}()
	for {
		select {
		case <-done: // closed
			return
		case since := <-q.next:
			_, _ = fmt.Fprintln(conn, (jobTime/2 + rand.N(jobTime)).Microseconds())
			if _, ok := <-done; !ok {
				q.next <- since
				return
			}
		}
	}
}

// A job takes so much of a processor on average, and a task has that many processors.
const (
	jobTime   = 5 * time.Millisecond
	taskCores = 0.05
)

// feed has enough work come for three tasks, and for a good third of the time for eight, with slopes.
func (q *jobs) feed(length time.Duration) {
	const tick = 20 * time.Millisecond
	begin, owed := time.Now(), 0.0
	last := begin
	for now := range time.Tick(tick) {
		part := float64(now.Sub(begin)) / float64(length)
		if part > 1 {
			return
		}
		owed += (3 + 5*max(0, min(1, (part-.25)/.1, (.7-part)/.1))) * taskCores * now.Sub(last).Seconds() / jobTime.Seconds()
		last = now // a busy machine drops ticks
		for ; owed >= 1; owed-- {
			q.waiting <- now
		}
	}
}

// ran is what the time under a spec was: its replica hours, the seconds in which the oldest job had waited for more
// than one, and the file of what the service recorded.
type ran struct {
	hours, late float64
	recording   string
}

// under runs the load on a service of its own, from six tasks on.
func (w *world) under(t *testing.T, name, spec string, length time.Duration) (r ran) {
	t.Helper()
	s := w.createLabelled(t, name, "burn:1 work", 6, "setpoint.enable=false", "setpoint.spec="+spec, fmt.Sprint("--limit-cpu=", taskCores), fmt.Sprint("--reserve-cpu=", taskCores))
	defer s.remove(t)
	q := newJobs(t, filepath.Join(s.load, "queue"))
	kit.Eventually(t, patience, "six tasks", func() error {
		if n := q.working.Load(); n != 6 {
			return fmt.Errorf("%d work", n)
		}
		return nil
	})
	s.label(t, "setpoint.enable", "true")
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		q.feed(length)
	}()
	before, count := time.Now(), 6
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-fed:
			tick.Stop()
			r.hours += float64(count) * time.Since(before).Hours()
			r.recording = filepath.Join(t.TempDir(), "recording.jsonl")
			_, err := w.serve.Setpoint("targets", "export", "--file="+r.recording, "clusters/e2e/namespaces/default/targets/"+name)
			fatal.If(t, err)
			return r
		case now := <-tick.C:
			if at := q.oldest.Load(); at != 0 && now.Sub(time.Unix(0, at)) > time.Second {
				r.late += now.Sub(before).Seconds()
			}
			r.hours += float64(count) * now.Sub(before).Hours()
			before, count = now, s.replicas(t)
		}
	}
}

// TestWhatIsPredictedOfASwarm runs services of a swarm under a spec, and then under others, and compares what a check
// predicts of these, by the service's recording of the first one, with what happened. LIVE says for how long each.
func TestWhatIsPredictedOfASwarm(t *testing.T) {
	if os.Getenv("LIVE") == "" {
		t.Skip("it takes minutes: LIVE=5m says how long each of four runs is; make nightly runs it")
	}
	length, err := time.ParseDuration(os.Getenv("LIVE"))
	fatal.If(t, err)
	w := newWorldOf(t, service.Start(t), "--sync-period=5s")
	spec := func(most, target int) string {
		return fmt.Sprintf(`{"scaleTargetRef": {"apiVersion": "docker.com/v1", "kind": "Service", "name": "jobs-0"}, "minReplicas": 3, "maxReplicas": %d, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": %d}}}], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 30}}}`, most, target)
	}
	file := func(spec string) string {
		name := filepath.Join(t.TempDir(), "spec.json")
		fatal.If(t, os.WriteFile(name, []byte(`{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "jobs-0", "namespace": "default"}, "spec": `+spec+"}"), 0o600))
		return name
	}
	old := spec(24, 60)
	first := w.under(t, "jobs-0", old, length)
	for i, edit := range []struct{ name, spec string }{{"target 60 to 40 %", spec(24, 40)}, {"target 60 to 85 %", spec(24, 85)}, {"max 24 to 7", spec(7, 60)}} {
		// Its rules may fail. Its figures are there nevertheless.
		said, err := w.serve.Setpoint("check", "--old="+file(old), "--new="+file(edit.spec), "--recording="+first.recording, fmt.Sprint("--cpu-limit=", taskCores), "-o=json")
		var report check.Report
		if problem := json.Unmarshal([]byte(said), &report); problem != nil || len(report.Specs) != 1 || report.Specs[0].History == nil {
			t.Fatalf("%v, %v\n%s", problem, err, said)
		}
		h := report.Specs[0].History
		really := w.under(t, fmt.Sprint("jobs-", i+1), edit.spec, length)
		predicted := h.New.ReplicaHours * length.Seconds() / h.CoveredSeconds // from the first decision to the last one
		off := 100 * (predicted/really.hours - 1)
		t.Logf("| %s | %.3f | %.3f | %.3f | %+.1f %% | %.0f s | %.0f s | %.1f %% |", edit.name, first.hours, predicted, really.hours, off, h.New.ShortSeconds, really.late, h.Model.MissPercent())
		if off < -20 || off > 20 {
			t.Errorf("%s: off by %.1f %%, more than 20", edit.name, off)
		}
	}
}
