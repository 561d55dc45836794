//go:build linux

package nomad

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The load goes up, and the count in the steps that the policy allows; it goes down, and the count
// is held by the window.
func TestTrajectory(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(20)
	n.register("web", n.group("web", 2, byQueue))
	startAgent(t, n, service.Start(t))
	n.queue.Store(90)
	n.await("web", 9)
	n.awaitEvents("web", "2→5 5→8 8→9")
	n.queue.Store(30)
	down := time.Now()
	n.await("web", 3)
	if took := time.Since(down); took < 6*time.Second {
		t.Errorf("down after %s, want it held by the window of 8 s", took)
	}
	n.awaitEvents("web", "2→5 5→8 8→9 9→3")
	for _, e := range n.scaleStatus("web").Events {
		if !strings.Contains(e.Message, "queue ") || !strings.Contains(e.Message, " (target 10); ") || e.Meta["setpoint.recommendation"] == nil {
			t.Errorf("an event does not tell why: %+v", e)
		}
	}
}

// A count by hand is where the agent goes on from.
func TestACountByHand(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(40)
	n.register("web", deploys(n.group("web", 4, byQueue), time.Millisecond))
	startAgent(t, n, service.Start(t))
	n.scaleBy("web", 2)
	n.await("web", 4)
	n.awaitEvents("web", "4→2 2→4")
}

// Usage is Nomad's own: that of a real process, over 60 % of its MHz.
func TestByStatistics(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	program, err := process.Build("test/e2e/swarm/burn", false)
	fatal.If(t, err)
	program, err = filepath.EvalSymlinks(program)
	fatal.If(t, err)
	nodes, _, err := n.client.Nodes().List(nil)
	fatal.If(t, err)
	node, _, err := n.client.Nodes().Info(nodes[0].ID, nil)
	fatal.If(t, err)
	mhz, err := strconv.Atoi(node.Attributes["cpu.frequency"])
	fatal.If(t, err)
	load := filepath.Join(t.TempDir(), "milli")
	fatal.If(t, os.Chmod(filepath.Dir(load), 0o755))
	burn := func(share float64) { fatal.If(t, os.WriteFile(load, []byte(strconv.Itoa(int(1000*share))), 0o644)) }
	// A tenth of a core is asked for, so that twelve hundredths are 120 %.
	burn(0.12)
	g := n.group("web", 1, "cpu: 60\nbehavior: {scaleDown: {stabilizationWindowSeconds: 5}}")
	g.Scaling.Max = new(int64(3))
	g.Tasks = []*api.Task{{
		Name: "app", Driver: "raw_exec", Config: map[string]any{"command": program, "args": []string{load}},
		Resources: &api.Resources{CPU: new(mhz / 10), MemoryMB: new(50)}, KillTimeout: new(time.Second),
	}}
	n.register("web", g)
	a := startAgent(t, n, service.Start(t))
	n.eventually(func() error {
		if got := n.count("web"); got < 2 {
			return fmt.Errorf("%d allocations at 120 %%: %+v, %s", got, a.status("web.web"), n.tasks("web"))
		}
		return nil
	})
	burn(0)
	n.await("web", 1)
}

// The agent is killed at each step of a reconcile that changes the count: the next agent
// finishes it, and nothing counts twice.
func TestKilledInARound(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(r *http.Request) bool{
		"while it reads the job":         func(r *http.Request) bool { return r.URL.Path == "/v1/job/web" && r.Method == http.MethodGet },
		"while it reads the allocations": func(r *http.Request) bool { return r.URL.Path == "/v1/allocations" },
		"before its count is written":    func(r *http.Request) bool { return r.Method == http.MethodPut },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed(t, step, false)
		})
	}
	t.Run("before it knows that its count was written", func(t *testing.T) {
		t.Parallel()
		killed(t, func(r *http.Request) bool { return r.Method == http.MethodPut }, true)
	})
}

// killed kills the agent at a request, before Nomad sees that or, late, after it has.
func killed(t *testing.T, step func(r *http.Request) bool, late bool) {
	n := newNomad(t, commonServer(t))
	n.queue.Store(20)
	n.register("web", n.group("web", 2, byQueue))
	a := startAgent(t, n, service.Start(t))
	reached, gone := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.failing(func(r *http.Request) (int, string) {
		if n.queue.Load() != 50 || !step(r) {
			return 0, ""
		}
		first := false
		once.Do(func() { first = true })
		if !first {
			return 0, ""
		}
		if late {
			// Nomad accepts it, and the answer is lost.
			_, _, err := n.client.Jobs().Scale("web", "web", new(5), "the agent's", false, map[string]any{"setpoint.recommendation": "unknown"}, nil)
			if err != nil {
				t.Error(err)
			}
		}
		close(reached)
		<-gone
		panic(http.ErrAbortHandler)
	})
	n.queue.Store(50)
	select {
	case <-reached:
	case <-time.After(patience):
		t.Fatal("the step was not reached")
	}
	a.Kill()
	close(gone)
	n.failing(nil)
	a.Start()
	n.await("web", 5)
	// The count stays: after more reconciles the job still has one change.
	a.awaitReconciles(3)
	n.awaitEvents("web", "2→5")
}
