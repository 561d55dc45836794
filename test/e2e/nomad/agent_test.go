//go:build linux

package nomad

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// quick has deployments and starts that take no time to speak of.
func quick() *nomadtest.Server {
	return &nomadtest.Server{DeploymentTime: 100 * time.Millisecond, Placement: &nomadtest.Placement{StartTime: 50 * time.Millisecond, StopTime: 50 * time.Millisecond}}
}

// The load goes up, and the count in the steps that the policy allows; it goes down, and the count
// is held by the window.
func TestTrajectory(t *testing.T) {
	t.Parallel()
	n := newNomad(t, quick())
	n.queue.Store(20)
	n.register("web", 2, byQueue)
	startAgent(t, n, service.Start(t))
	n.queue.Store(90)
	n.await("web", 9)
	if got := n.events("web"); got != "2→5 5→8 8→9" {
		t.Errorf("up: %s, want steps of 3", got)
	}
	n.queue.Store(30)
	down := time.Now()
	n.await("web", 3)
	if took := time.Since(down); took < 6*time.Second {
		t.Errorf("down after %s, want it held by the window of 8 s", took)
	}
	if got := n.events("web"); got != "2→5 5→8 8→9 9→3" {
		t.Errorf("down: %s", got)
	}
	for _, e := range n.group("web").Events {
		if e.Message == "" || e.Meta["setpoint.recommendation"] == nil {
			t.Errorf("an event does not tell why: %+v", e)
		}
	}
}

// A count by hand is where the agent goes on from.
func TestACountByHand(t *testing.T) {
	t.Parallel()
	n := newNomad(t, quick())
	n.queue.Store(40)
	n.register("web", 4, byQueue)
	startAgent(t, n, service.Start(t))
	time.Sleep(300 * time.Millisecond) // its first deployment
	for {
		_, _, err := n.client.Jobs().Scale("web", "web", new(2), "by hand", false, nil, nil)
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "active deployment") {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	n.await("web", 4)
	if got := n.events("web"); got != "4→2 2→4" {
		t.Errorf("got %s", got)
	}
}

// Usage is Nomad's own: CPU over 60 % of 500 MHz is spread over more allocations.
func TestByStatistics(t *testing.T) {
	t.Parallel()
	server := quick()
	var mu sync.Mutex
	load, running := 600.0, map[string]int{"web": 2}
	server.Placement.Usage = func(a *api.AllocationListStub) (float64, uint64) {
		mu.Lock()
		defer mu.Unlock()
		return load / float64(max(running[a.JobID], 1)), 64 << 20
	}
	n := newNomad(t, server)
	n.register("web", 2, "cpu: 60\nbehavior: {scaleDown: {stabilizationWindowSeconds: 5}}")
	startAgent(t, n, service.Start(t))
	follow := func(mhz float64, want int) {
		t.Helper()
		mu.Lock()
		load = mhz
		mu.Unlock()
		began := time.Now()
		for {
			count := n.count("web")
			mu.Lock()
			running["web"] = count
			mu.Unlock()
			if count == want {
				return
			}
			if time.Since(began) > patience {
				t.Fatalf("%d allocations at %.0f MHz, want %d; events %s", count, mhz, want, n.events("web"))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	follow(1500, 5)
	follow(600, 2)
}

// Failures of Nomad change no count, and the agent recovers by itself.
func TestFaults(t *testing.T) {
	t.Parallel()
	n := newNomad(t, quick())
	n.queue.Store(20)
	n.register("web", 2, byQueue)
	a := startAgent(t, n, service.Start(t))
	for i, fault := range []func(*http.Request) (int, string){
		func(*http.Request) (int, string) { return http.StatusInternalServerError, "No cluster leader" },
		func(*http.Request) (int, string) {
			return http.StatusTooManyRequests, "Your IP is issuing too many concurrent connections, please rate limit your calls\n"
		},
		func(*http.Request) (int, string) { panic(http.ErrAbortHandler) },
	} {
		want := 3 + i
		n.failing(fault)
		n.queue.Store(int64(10 * want))
		before := a.metric("setpoint_nomad_requests_total", "")[""]
		awaitRequests(t, a, before+3)
		if got := n.count("web"); got != want-1 {
			t.Fatalf("fault %d: %d allocations while nothing answers, want %d", i, got, want-1)
		}
		n.failing(nil)
		n.await("web", want)
	}
	// The token is revoked, and another one comes into its file.
	rights, err := os.ReadFile("../../../deploy/nomad/agent.policy.hcl")
	must(t, err)
	n.server.Revoke(token)
	n.queue.Store(70)
	awaitRequests(t, a, a.metric("setpoint_nomad_requests_total", "")[""]+3)
	if got := n.count("web"); got != 5 {
		t.Errorf("%d allocations without a token, want 5", got)
	}
	n.server.SetToken("token:next", string(rights))
	must(t, os.WriteFile(a.tokenFile, []byte("token:next"), 0o600))
	n.await("web", 7)
	if a.metric("setpoint_nomad_requests_total", "status")["403"] == 0 {
		t.Error("no request was refused, which shows nothing")
	}
}

// awaitRequests waits until the agent has made so many.
func awaitRequests(t *testing.T, a *agent, want float64) {
	t.Helper()
	must(t, a.Await("asking", patience, func() error {
		if a.metric("setpoint_nomad_requests_total", "")[""] < want {
			return errAsking
		}
		return nil
	}))
}

// A deployment that waits for its promotion is waited for, and the status says so.
func TestADeploymentIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := quick()
	server.DeploymentTime = 5 * time.Second
	n := newNomad(t, server)
	n.queue.Store(60)
	n.register("web", 2, byQueue)
	time.Sleep(100 * time.Millisecond) // the scheduler makes it a moment later
	a := startAgent(t, n, service.Start(t))
	must(t, a.Await("held", patience, func() error {
		if hold := a.status("web.web").Hold; hold == nil || hold.Reason != "Deploying" {
			if n.count("web") != 2 {
				return nil // the machine is so busy that it is over
			}
			return errHeld
		}
		return nil
	}))
	n.await("web", 6)
	if got := n.events("web"); got != "2→5 5→6" {
		t.Errorf("got %s", got)
	}
}

// The agent is killed at each step of a reconcile that changes the count: the next agent
// finishes it, and nothing counts twice.
func TestKilledInARound(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(r *http.Request) bool{
		"while it reads the job":         func(r *http.Request) bool { return r.URL.Path == "/v1/job/web" },
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
	n := newNomad(t, quick())
	n.queue.Store(20)
	n.register("web", 2, byQueue)
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
	a.start()
	n.await("web", 5)
	// The count stays: after more reconciles the job still has one change.
	awaitReconciles(t, a, 3)
	if got := n.events("web"); got != "2→5" {
		t.Errorf("got %s, want one change", got)
	}
}

func awaitReconciles(t *testing.T, a *agent, more float64) {
	t.Helper()
	must(t, a.Await("ready", patience, func() error { return ready(a) }))
	before := a.metric("setpoint_agent_reconciles_total", "")[""]
	must(t, a.Await("in reconciles", patience, func() error {
		if a.metric("setpoint_agent_reconciles_total", "")[""] < before+more {
			return errReconciles
		}
		return nil
	}))
}
