//go:build linux

package swarm

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// One swarm serves all tests, which take turns: each has a service of its own.
func TestSwarm(t *testing.T) {
	queue, sources := newQueue(t)
	w := newWorldOf(t, service.Start(t, "--redis", redistest.Start(t, redistest.Config{}).URL()), "--sources-file="+sources)
	w.queue = queue
	for _, tt := range []struct {
		name string
		test func(*testing.T, *world)
	}{
		{"the count follows the load within its policies, and is held by its window", followsLoad},
		{"a count that is changed by hand", manualChange},
		{"a stack that is deployed again", deployedAgain},
		{"tasks that end by themselves, and a rollback after a new count", tasksThatEnd},
		{"a wrong label holds its service only", wrongLabel},
		{"a fleet of platforms", fleetOfPlatforms},
		{"tasks whose health check has not passed are not counted on", failingHealthCheck},
		{"an agent that is killed at any step of a reconcile", killedAtEachStep},
		{"a service that is removed and made again", madeAgain},
		{"a rolling update under load", rollingUpdate},
		{"a daemon that starts again", daemonRestart},
		{"the service is away", serviceAway},
	} {
		if !t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			tt.test(t, w)
			t.Logf("took %s", time.Since(began).Round(100*time.Millisecond))
		}) {
			return // the agent may be anywhere
		}
	}
}

// change is a change of a count, and when it was seen.
type change struct {
	at time.Time
	to int
}

// watch notes changes of the count until it is n.
func (s *workload) watch(t *testing.T, n int) []change {
	t.Helper()
	seen := []change{{time.Now(), s.replicas(t)}}
	kit.Eventually(t, patience, fmt.Sprintf("%d replicas of %s", n, s.name), func() error {
		now := s.replicas(t)
		if now != seen[len(seen)-1].to {
			seen = append(seen, change{time.Now(), now})
		}
		if now != n {
			o, _ := s.agent.Object(s.name)
			return fmt.Errorf("there are %d; the agent says %+v", now, o)
		}
		return nil
	})
	return seen
}

func followsLoad(t *testing.T, w *world) {
	const least = 2
	s := w.create(t, "web", "burn:1", least, "setpoint.min=2")
	defer s.remove(t)
	s.use(t, idle)
	// Tasks are on both nodes, and both report.
	kit.Eventually(t, patience, "usage of both nodes", func() error {
		if n := w.agent.Metric("setpoint_swarm_nodes_reporting"); n != 2 {
			return fmt.Errorf("%v nodes report", n)
		}
		o, err := w.agent.Object("web")
		if err != nil || o.Error != "" || o.Decision == nil || len(o.Decision.Metrics) == 0 {
			return fmt.Errorf("the agent says %+v, %w", o, err)
		}
		return nil
	})
	nodes := strings.Fields(w.must(t, 1, "service", "ps", "--filter=desired-state=running", "--format={{.ID}}", "web"))
	if len(nodes) != 2 {
		t.Errorf("tasks %v", nodes)
	}
	for n := 1; n <= 2; n++ {
		if here := w.must(t, n, "ps", "-q", "--filter=label=com.docker.swarm.service.name=web"); len(strings.Fields(here)) != 1 {
			t.Errorf("node %d has tasks %q", n, here)
		}
	}
	s.use(t, much)
	up := s.watch(t, most)
	for i := 1; i < len(up); i++ {
		if by := up[i].to - up[i-1].to; by < 0 || by > step {
			t.Errorf("the count went from %d to %d", up[i-1].to, up[i].to)
		}
		// The first change is no older than it was seen, and may have been seen late.
		if i > 1 && up[i].at.Sub(up[i-1].at) < stepPeriod-time.Second && up[i].to-up[i-2].to > step {
			t.Errorf("from %d to %d within %s", up[i-2].to, up[i].to, up[i].at.Sub(up[i-1].at))
		}
	}
	s.use(t, idle)
	off := time.Now()
	down := s.watch(t, least)
	if held := down[1].at.Sub(off); held < window {
		t.Errorf("the count went down %s after the load, before the window of %s", held, window)
	}
	for i := 1; i < len(down); i++ {
		if down[i].to > down[i-1].to {
			t.Errorf("the count rose from %d to %d without load", down[i-1].to, down[i].to)
		}
	}
	t.Logf("up %s, down %s", trajectory(up), trajectory(down))
}

func trajectory(changes []change) string {
	var parts []string
	for _, c := range changes {
		parts = append(parts, fmt.Sprintf("%d at %.1fs", c.to, c.at.Sub(changes[0].at).Seconds()))
	}
	return strings.Join(parts, ", ")
}

func manualChange(t *testing.T, w *world) {
	s := w.create(t, "manual", "burn:1", 1)
	defer s.remove(t)
	s.use(t, idle)
	s.decided(t)
	w.must(t, 1, "service", "scale", "--detach", "manual=4")
	changed := time.Now()
	s.becomes(t, least)
	t.Logf("taken back after %s", time.Since(changed))
	// Below the least is no place to be.
	s.label(t, "setpoint.min", "3")
	s.becomes(t, 3)
	if ids := s.must(t, 1, "service", "inspect", "--format={{.Spec.TaskTemplate.ForceUpdate}} {{.Spec.TaskTemplate.ContainerSpec.Image}}", "manual"); ids != "0 burn:1" {
		t.Errorf("more than the count was changed: %s", ids)
	}
}

func wrongLabel(t *testing.T, w *world) {
	wrong, fine := w.create(t, "wrong", "burn:1", 2, "setpoint.mim=2"), w.create(t, "fine", "burn:1", 1)
	defer wrong.remove(t)
	defer fine.remove(t)
	wrong.use(t, much)
	fine.use(t, much)
	kit.Eventually(t, patience, "a hold", func() error {
		o, err := w.agent.Object("wrong")
		if err != nil || o.Hold == nil || o.Hold.Reason != "InvalidLabel" || o.Hold.Message != "setpoint.mim: there is no such key; did you mean min?" {
			return fmt.Errorf("%+v, %w", o, err)
		}
		return nil
	})
	kit.Eventually(t, patience, "the other to be scaled", func() error {
		if n := fine.replicas(t); n < 3 {
			return fmt.Errorf("%d replicas", n)
		}
		return nil
	})
	if n := wrong.replicas(t); n != 2 {
		t.Errorf("the one with the wrong label has %d replicas", n)
	}
	wrong.label(t, "setpoint.mim", "")
	kit.Eventually(t, patience, "it to be scaled", func() error {
		if n := wrong.replicas(t); n < 3 {
			return fmt.Errorf("%d replicas", n)
		}
		return nil
	})
}

func failingHealthCheck(t *testing.T, w *world) {
	s := w.create(t, "checked", "checked:1", 2)
	defer s.remove(t)
	sick := filepath.Join(s.load, "sick")
	fatal.If(t, os.WriteFile(sick, nil, 0o644))
	s.use(t, much)
	kit.Eventually(t, patience, "tasks that start", func() error {
		if states := w.must(t, 1, "service", "ps", "--format={{.CurrentState}}", "checked"); strings.Count(states, "Starting") != 2 {
			return errors.New(states)
		}
		return nil
	})
	// A few reconciles in which both tasks burn and none is ready.
	before := w.agent.Metric("setpoint_agent_reconciles_total", "outcome=unchanged")
	kit.Eventually(t, patience, "reconciles", func() error {
		if n := s.replicas(t); n != 2 {
			t.Fatalf("%d replicas, though none of two was ready", n)
		}
		if now := w.agent.Metric("setpoint_agent_reconciles_total", "outcome=unchanged"); now < before+5 {
			return fmt.Errorf("%v reconciles", now-before)
		}
		return nil
	})
	fatal.If(t, os.Remove(sick))
	kit.Eventually(t, patience, "it to be scaled", func() error {
		if n := s.replicas(t); n < 4 {
			return fmt.Errorf("%d replicas", n)
		}
		return nil
	})
}

// decided waits until the agent has decided on a service.
func (s *workload) decided(t *testing.T) {
	t.Helper()
	kit.Eventually(t, patience, "decision on "+s.name, func() error {
		if o, err := s.agent.Object(s.name); err != nil || o.Decision == nil || o.Error != "" {
			return fmt.Errorf("%+v, %w", o, err)
		}
		return nil
	})
}

// killedAtEachStep: whatever a killed agent had started, the next one finishes; no step is
// taken twice, and none is lost.
func killedAtEachStep(t *testing.T, w *world) {
	isUpdate := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/update") }
	for i, at := range []struct {
		name  string
		is    func(*http.Request) bool
		after bool
	}{
		{"as it reads the service", func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/services/") && r.Method == http.MethodGet
		}, false},
		{"as it reads tasks", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/tasks") }, true},
		{"before the count is written", isUpdate, false},
		{"after the count is written, before it knows", isUpdate, true},
	} {
		// Use a service each: replicas that one has just lost may be added at once.
		s := w.create(t, fmt.Sprint("killed-", i), "burn:1", least)
		s.use(t, idle)
		s.decided(t)
		reached, released := make(chan struct{}, 100), make(chan struct{})
		stop := func(r *http.Request) {
			if at.is(r) {
				reached <- struct{}{}
				<-released
			}
		}
		if at.after {
			w.gate.set(nil, stop)
		} else {
			w.gate.set(stop, nil)
		}
		s.use(t, much)
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatalf("%s: never reached", at.name)
		}
		w.agent.Kill()
		w.gate.set(nil, nil)
		close(released)
		w.startAgent()
		// A write in flight may still happen after the kill.
		if up := s.watch(t, least+step); slices.ContainsFunc(up, func(c change) bool { return c.to > least+step }) {
			t.Errorf("%s: %s", at.name, trajectory(up))
		}
		s.remove(t)
	}
	// While it asks: the service accepts the request and does not answer.
	s := w.create(t, "killed-asking", "burn:1", least)
	defer s.remove(t)
	s.use(t, idle)
	s.decided(t)
	fatal.If(t, syscall.Kill(w.serve.PID(), syscall.SIGSTOP))
	// After it has read the tasks again its next action is the request.
	asking := make(chan struct{}, 100)
	w.gate.set(nil, func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tasks") {
			asking <- struct{}{}
		}
	})
	select {
	case <-asking:
	case <-time.After(patience):
		t.Error("it does not ask")
	}
	w.gate.set(nil, nil)
	w.agent.Kill()
	fatal.If(t, syscall.Kill(w.serve.PID(), syscall.SIGCONT))
	s.use(t, much)
	w.startAgent()
	s.becomes(t, least+step)
}

func madeAgain(t *testing.T, w *world) {
	s := w.create(t, "again", "burn:1", 4, "setpoint.min=4")
	s.use(t, idle)
	kit.Eventually(t, patience, "a decision", func() error {
		if o, err := w.agent.Object("again"); err != nil || o.Decision == nil || o.Error != "" || o.Decision.Desired != 4 {
			return fmt.Errorf("%+v, %w", o, err)
		}
		return nil
	})
	s.remove(t)
	kit.Eventually(t, patience, "it to be forgotten", func() error {
		if o, err := w.agent.Object("again"); err == nil {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
	// Recommendations for its namesake hold nothing: two are idle, and one is enough after its
	// own window only.
	s = w.create(t, "again", "burn:1", 2)
	defer s.remove(t)
	s.use(t, idle)
	if seen := s.watch(t, least); slices.ContainsFunc(seen, func(c change) bool { return c.to > 2 }) {
		t.Errorf("the namesake's count came back: %s", trajectory(seen))
	}
}

func daemonRestart(t *testing.T, w *world) {
	s := w.create(t, "restarted", "burn:1", 2, "setpoint.min=2")
	defer s.remove(t)
	s.use(t, idle)
	s.decided(t)
	w.restart(t, 1, 0)
	if n := s.replicas(t); n != 2 {
		t.Errorf("%d replicas after the manager was away", n)
	}
	s.use(t, much)
	s.becomes(t, most)
	s.label(t, "setpoint.max", "7") // by events, on a stream of its own
	s.becomes(t, 7)
}

func serviceAway(t *testing.T, w *world) {
	s := w.create(t, "held", "burn:1", 2)
	defer s.remove(t)
	w.serve.Stop()
	s.use(t, much)
	kit.Eventually(t, patience, "a hold", func() error {
		o, err := w.agent.Object("held")
		if err != nil || o.Hold == nil || o.Hold.Reason != "RecommenderUnavailable" {
			return fmt.Errorf("%+v, %w", o, err)
		}
		return nil
	})
	if n := s.replicas(t); n != 2 {
		t.Errorf("%d replicas, without a decision", n)
	}
	w.serve.Restart()
	s.becomes(t, most)
}
