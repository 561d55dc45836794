package swarm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/clients/swarm/nodes"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

func TestBehaviour(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, func(t *testing.T) agenttest.World { return newWorld(t) }, testserver.Recommendations)
}

// start makes the world of a test of the adapter itself.
func start(t *testing.T) (*world, agent.Watched) {
	w := newWorld(t)
	return w, w.Platform()
}

func TestNothingButTheCountIsWritten(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	o := agenttest.Object(t, p, w.Create(agenttest.Workload{Name: "web", Replicas: 4}))
	seen := agenttest.Observe(t, p, o)
	fatal.If(t, p.Apply(t.Context(), o, seen, agent.Change{From: 4, To: 7}))
	if n := w.Replicas("web"); n != 7 {
		t.Errorf("%d replicas, want 7", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replaced > 0 {
		t.Errorf("the update changes more than the count, so that all tasks are replaced: %v", w.services["web"].spec)
	}
}

// A count is refused after any change, even of the image only.
func TestAChangeOfAnythingIsDecidedAgain(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	o := agenttest.Object(t, p, w.Create(agenttest.Workload{Name: "web", Replicas: 4}))
	seen := agenttest.Observe(t, p, o)
	w.edit("web", func(s *fakeService) {
		s.spec["TaskTemplate"] = map[string]any{"ContainerSpec": map[string]any{"Image": "web:2"}}
	})
	if err := p.Apply(t.Context(), o, seen, agent.Change{From: 4, To: 7}); !errors.Is(err, agent.ErrMoved) {
		t.Errorf("got %v, want ErrMoved", err)
	}
	if n := w.Replicas("web"); n != 4 {
		t.Errorf("%d replicas, want 4", n)
	}
}

// An engine or a leader that is lost may have made the change that it did not answer: the count tells.
func TestACountWhoseAnswerIsLostIsLookedAt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after func(*world) // what happens after the change, with the lock held
		want  error
	}{
		"it is written": {func(*world) {}, nil},
		"others changed it then": {func(w *world) {
			w.services["web"].spec["Mode"] = map[string]any{"Replicated": map[string]any{"Replicas": 5.0}}
		}, errors.New("EOF")},
		"nobody can tell":         {func(w *world) { w.FailReads(errors.New("the engine is away")) }, agent.ErrMoved},
		"the service is gone now": {func(w *world) { delete(w.services, "web") }, agent.ErrMoved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := start(t)
			o := agenttest.Object(t, p, w.Create(agenttest.Workload{Name: "web", Replicas: 4}))
			seen := agenttest.Observe(t, p, o)
			w.mu.Lock()
			w.unanswered = func() { tt.after(w) }
			w.mu.Unlock()
			err := p.Apply(t.Context(), o, seen, agent.Change{From: 4, To: 7})
			if (err == nil) != (tt.want == nil) || errors.Is(err, agent.ErrMoved) != errors.Is(tt.want, agent.ErrMoved) || tt.want != nil && !strings.Contains(err.Error(), "EOF") {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestServicesThatHaveNoCountAreRefusedByName(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"Global": "the service web can't be scaled, because it is global", "ReplicatedJob": "the service web can't be scaled, because it is a replicated job",
		"GlobalJob": "the service web can't be scaled, because it is a global job", "OfTomorrow": "the service web can't be scaled, because it is of a mode",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, p := start(t)
			w.create("web", map[string]any{swarm.EnableLabel: "true", "setpoint.max": "3"}, map[string]any{mode: map[string]any{}})
			hold := agenttest.Object(t, p, agent.Key{Kind: swarm.Kind, Namespace: "default", Name: "web"}).Hold
			if hold == nil || hold.Reason != swarm.ReasonNotReplicated || !strings.HasPrefix(hold.Message, want) {
				t.Errorf("got %+v, want %s", hold, want)
			}
		})
	}
}

func TestAWrongLabelHoldsItsServiceOnly(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	right, wrong := w.Create(agenttest.Workload{Name: "right", Replicas: 4}), w.Create(agenttest.Workload{Name: "wrong", Replicas: 4})
	w.edit("wrong", func(s *fakeService) {
		labels := s.spec["Labels"].(map[string]any)
		labels["setpoint.metric.queue.source"] = "nowhere"
	})
	if hold := agenttest.Object(t, p, right).Hold; hold != nil {
		t.Errorf("the other service is held: %+v", hold)
	}
	hold := agenttest.Object(t, p, wrong).Hold
	if hold == nil || hold.Outcome != agent.OutcomeInvalid || hold.Message != "setpoint.metric.queue.source: there is no such source" {
		t.Errorf("got %+v", hold)
	}
}

// Swarm keeps one previous spec. Where a failed update goes back to it by itself, a count
// that is changed meanwhile would take its place; and where it was paused, a new count would
// have it go on.
func TestAnUpdateThatMayRollBackIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state, onFailure string
		up               bool // by the label
		to               int32
		waits            bool
	}{
		{"updating", "rollback", false, 8, true},
		{"updating", "pause", false, 8, true},
		{"updating", "continue", false, 8, false},
		{"rollback_started", "pause", false, 8, true},
		{"completed", "rollback", false, 8, false},
		{"paused", "pause", false, 8, true},
		{"rollback_paused", "rollback", false, 8, true},
		{"updating", "pause", true, 8, false},
		{"updating", "pause", true, 3, true},
		{"rollback_started", "pause", true, 8, true},
		{"paused", "pause", true, 8, true},
	} {
		t.Run(fmt.Sprintf("%s with %s to %d, scaling up: %t", tt.state, tt.onFailure, tt.to, tt.up), func(t *testing.T) {
			t.Parallel()
			w, p := start(t)
			key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
			w.edit("web", func(s *fakeService) {
				s.status = map[string]any{"State": tt.state}
				s.spec["UpdateConfig"] = map[string]any{"FailureAction": tt.onFailure}
				s.spec["Labels"].(map[string]any)["setpoint.scaleUpInUpdates"] = strconv.FormatBool(tt.up)
			})
			o := agenttest.Object(t, p, key)
			seen, err := p.Observe(t.Context(), o)
			if err != nil || o.Hold != nil {
				t.Fatalf("it is not observed: %+v, %v", o.Hold, err)
			}
			var held *agent.HoldError
			err = p.Apply(t.Context(), o, seen, agent.Change{From: 4, To: tt.to})
			if errors.As(err, &held) != tt.waits || tt.waits && held.Hold.Outcome != agent.OutcomeWaiting || !tt.waits && err != nil {
				t.Errorf("got %v", err)
			}
			if wrote := w.Replicas("web") != 4; wrote == tt.waits {
				t.Errorf("written: %t", wrote)
			}
		})
	}
}

// While an update runs the service is asked on, so that a load of that time is in the window
// afterwards.
func TestAnUpdateLeavesTheWindowFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4, Steady: true})
		d, err := agent.NewDriver(w.Platform(), agent.Service{Calls: agenttest.NewService(testserver.Recommendations(t))},
			agent.Options{Cluster: "demo", Period: agenttest.Period, FirstWait: -1}, agent.DriverOptions{})
		fatal.If(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		defer running.Wait()
		defer cancel()
		is := func(when string, wait time.Duration, count int32) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if n := w.Replicas("web"); n != count {
				t.Errorf("%s: %d replicas, want %d", when, n, count)
			}
		}
		is("before", time.Minute, 4)
		w.edit("web", func(s *fakeService) { s.status = map[string]any{"State": "updating"} })
		w.Want("web", 6)
		is("in the update", 6*time.Minute, 4)
		w.Want("web", 2)
		w.edit("web", func(s *fakeService) { s.status = map[string]any{"State": "completed"} })
		is("after the update", 2*agenttest.Period, 6)
		is("after the window", 6*time.Minute, 2)
	})
}

func TestOnlyAServiceOfThatVeryNameThatHasOptedInIsThere(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	other := w.create("other", map[string]any{"setpoint.max": "3"}, map[string]any{"Replicated": map[string]any{}})
	for _, gone := range []agent.Key{
		{Kind: swarm.Kind, Namespace: "default", Name: "web"},          // of another stack
		{Kind: swarm.Kind, Namespace: "default", Name: "other"},        // has not opted in
		{Kind: swarm.Kind, Namespace: "default", Name: other.id},       // the engine takes it for an id
		{Kind: swarm.Kind, Namespace: "shop", Name: "nobody-is-there"}, // there is none
		{Kind: swarm.Kind, Namespace: "shop", Name: "service"},         // the engine takes it for several ids
	} {
		if _, err := p.Object(t.Context(), gone, nil); !errors.Is(err, agent.ErrGone) {
			t.Errorf("%s: %v, want ErrGone", gone, err)
		}
	}
	agenttest.Object(t, p, key)
	// Amid an election the engine may say so of one that is there: its history would be deleted.
	for _, instead := range []string{"", "other"} {
		w.mu.Lock()
		w.lost, w.instead = instead == "", instead
		w.mu.Unlock()
		if _, err := p.Object(t.Context(), key, nil); err == nil || errors.Is(err, agent.ErrGone) {
			t.Errorf("though it is listed: %v", err)
		}
	}
}

// Without a source of usage a cpu metric fails: it is not zero.
func TestWithoutASourceOfUsageCPUFails(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	w.create("web", map[string]any{swarm.EnableLabel: "true", "setpoint.max": "3", "setpoint.cpu": "60"}, map[string]any{"Replicated": map[string]any{"Replicas": 2.0}})
	o := agenttest.Object(t, p, agent.Key{Kind: swarm.Kind, Namespace: "default", Name: "web"})
	seen := agenttest.Observe(t, p, o)
	failed := seen.Request.GetMetricErrors()
	if len(failed) != 1 || failed[0].GetMetric() != "Resource:cpu" || len(seen.Request.GetPodMetrics()) > 0 {
		t.Errorf("errors %v, usage %v", failed, seen.Request.GetPodMetrics())
	}
	if len(seen.Request.GetPods()) != 2 || seen.Request.GetScale().GetStatusReplicas() != 2 {
		t.Errorf("asked about %v", seen.Request)
	}
}

func TestARoundReadsTheServiceTwiceAndItsTasksOnce(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	o := agenttest.Object(t, p, key)
	if _, err := p.Observe(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.services["web"].id
	if want := []string{"GET /services/web", "GET /services/" + id, "GET /tasks"}; !slices.Equal(w.requests, want) {
		t.Errorf("requests %q, want %q", w.requests, want)
	}
}

// Watchers are notified of services that exist, change their settings, opt out or are deleted;
// not of changed counts, which reconciles read.
func TestWatchTellsOfWhatServicesWant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := start(t)
		web, api := w.Create(agenttest.Workload{Name: "web", Replicas: 4}), w.Create(agenttest.Workload{Name: "api", Replicas: 4})
		w.create("other", map[string]any{}, map[string]any{"Replicated": map[string]any{"Replicas": 1.0}})
		var mu sync.Mutex
		var told []agent.Key
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- p.Watch(ctx, func(key agent.Key) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, key)
			})
		}()
		for _, step := range []struct {
			what string
			do   func()
			want []agent.Key
		}{
			{"the start", func() {}, []agent.Key{api, web}},
			{"a change of a count", func() { w.Scale("web", 5) }, nil},
			{"a change of a label", func() { w.label("web", "setpoint.min", "3") }, []agent.Key{web}},
			{"a change of others' labels", func() { w.label("web", "com.example", "3") }, nil},
			{"a service that opts out", func() { w.label("api", swarm.EnableLabel, "false") }, []agent.Key{api}},
			{"a service that goes", func() { w.Remove("web") }, []agent.Key{web}},
		} {
			step.do()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			mu.Lock()
			if !slices.Equal(told, step.want) {
				t.Errorf("%s: told of %v, want %v", step.what, told, step.want)
			}
			told = nil
			mu.Unlock()
		}
		// An event may be lost; the next list shows the change.
		w.quietly(func() { w.Create(agenttest.Workload{Name: "late", Replicas: 4}) })
		time.Sleep(31 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(told) != 1 || told[0].Name != "late" {
			t.Errorf("without an event: told of %v", told)
		}
		told = nil
		mu.Unlock()
		// A service that opts out for a moment may be found gone between two lists that both have it.
		w.quietly(func() { w.label("late", swarm.EnableLabel, "false") })
		late := agent.Key{Kind: swarm.Kind, Namespace: "shop", Name: "late"}
		if _, err := p.Object(ctx, late, nil); !errors.Is(err, agent.ErrGone) {
			t.Errorf("a service that has opted out: %v", err)
		}
		w.label("late", swarm.EnableLabel, "true")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		mu.Lock()
		if !slices.Equal(told, []agent.Key{late}) {
			t.Errorf("a service that had opted out for a moment: told of %v", told)
		}
		mu.Unlock()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A burst of events leads to one list per second.
func TestEventsOfASecondAreOneList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := start(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Watch(ctx, func(agent.Key) {}) }()
		for i := range 100 {
			time.Sleep(100 * time.Millisecond)
			w.Scale("web", int32(1+i%5))
		}
		time.Sleep(2 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		lists := 0
		w.mu.Lock()
		for _, r := range w.requests {
			if r == "GET /services" {
				lists++
			}
		}
		w.mu.Unlock()
		if lists < 10 || lists > 13 {
			t.Errorf("%d lists in 10 s of events", lists)
		}
	})
}

// A worker's engine answers 503: the error advises what to do.
func TestAnEngineThatIsNoManagersSaysSo(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	w.mu.Lock()
	w.worker = true
	w.mu.Unlock()
	_, err := p.Object(t.Context(), key, nil)
	if err == nil || !strings.Contains(err.Error(), "This node is not a swarm manager") || !strings.Contains(err.Error(), "(the agent needs the engine of a manager)") {
		t.Errorf("got %v", err)
	}
}

// What managers without a majority say has no advice.
func TestAManagerWithoutAMajority(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 4})
	w.FailReads(errors.New("rpc error: code = Unknown desc = The swarm does not have a leader. It's possible that too few managers are online"))
	_, err := p.Object(t.Context(), key, nil)
	if err == nil || !strings.Contains(err.Error(), "not have a leader") || !strings.Contains(err.Error(), "docker swarm init --force-new-cluster") {
		t.Errorf("got %v", err)
	}
}

func TestASwarmHasAnID(t *testing.T) {
	t.Parallel()
	w, _ := start(t)
	if id, err := w.engine.ClusterID(t.Context()); err != nil || id != "swarm1" {
		t.Errorf("got %q, %v", id, err)
	}
}

// A mode that changes between reading a service and observing it is noticed.
func TestAModeThatChangesMeanwhileIsSeen(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	o := agenttest.Object(t, p, w.Create(agenttest.Workload{Name: "web", Replicas: 4}))
	w.edit("web", func(s *fakeService) { s.spec["Mode"] = map[string]any{"Global": map[string]any{}} })
	var held *agent.HoldError
	if _, err := p.Observe(t.Context(), o); !errors.As(err, &held) {
		t.Errorf("%v, want a hold", err)
	}
}

// A watch that ends because the agent stops has not failed.
func TestAWatchThatStopsIsNoFailure(t *testing.T) {
	t.Parallel()
	for range 50 { // the end of the stream and that of the context come together
		w, p := start(t)
		w.Create(agenttest.Workload{Name: "web", Replicas: 4})
		ctx, cancel := context.WithCancel(t.Context())
		fatal.If(t, p.Watch(ctx, func(agent.Key) { cancel() }))
	}
}

// An engine whose successor takes the old version of the API no more, as of Docker 29 after 24, is spoken with when
// the watch of its events begins again.
func TestAnEngineThatIsReplaced(t *testing.T) {
	t.Parallel()
	w, p := start(t)
	o := agenttest.Object(t, p, w.Create(agenttest.Workload{Name: "web", Replicas: 4}))
	w.mu.Lock()
	w.speaks = "1.44"
	w.mu.Unlock()
	if _, err := p.Object(t.Context(), o.Key, o); err == nil {
		t.Error("the engine takes any version")
	}
	ctx, cancel := context.WithCancel(t.Context())
	fatal.If(t, p.Watch(ctx, func(agent.Key) { cancel() }))
	seen := agenttest.Observe(t, p, o)
	if err := p.Apply(t.Context(), o, seen, agent.Change{From: 4, To: 7}); err != nil || w.Replicas("web") != 7 {
		t.Errorf("%d replicas: %v", w.Replicas("web"), err)
	}
}

// A list that hangs times out and is repeated.
func TestAListThatHangsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.options.Timeout = 5 * time.Second
		p := w.Platform().(*swarm.Platform)
		if err := p.Ready(); err == nil || !strings.Contains(err.Error(), "not been listed yet") {
			t.Errorf("at first: %v", err)
		}
		w.mu.Lock()
		w.hang = "/services"
		w.mu.Unlock()
		began := time.Now()
		if err := p.Watch(t.Context(), func(agent.Key) {}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 6*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := p.Ready(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("not listed: %v", err)
		}
	})
}

// An engine that hangs costs each step the timeout of a request.
func TestAnEngineThatHangs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		hang string // path
		call string
		step func(w *world, p agent.Watched, o *agent.Object, seen *agent.Observation) error
	}{
		{"/services/web", "service", func(w *world, p agent.Watched, o *agent.Object, _ *agent.Observation) error {
			_, err := p.Object(w.t.Context(), o.Key, nil)
			return err
		}},
		{"/tasks", "tasks", func(w *world, p agent.Watched, o *agent.Object, _ *agent.Observation) error {
			_, err := p.Observe(w.t.Context(), o)
			return err
		}},
		{"/services/service000000000000000001/update", "update", func(w *world, p agent.Watched, o *agent.Object, seen *agent.Observation) error {
			return p.Apply(w.t.Context(), o, seen, agent.Change{From: 4, To: 7})
		}},
	} {
		t.Run(tt.hang, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.options.Timeout = 5 * time.Second
				p := w.Platform()
				o := agenttest.Object(t, p, w.Create(agenttest.Workload{Name: "web", Replicas: 4}))
				seen := agenttest.Observe(t, p, o)
				w.mu.Lock()
				w.hang = tt.hang
				w.mu.Unlock()
				began := time.Now()
				err := tt.step(w, p, o, seen)
				if want := "the engine gave no answer for 5s (asked for: " + tt.call + ")"; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 6*time.Second || !strings.Contains(err.Error(), want) {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		})
	}
}

// Usage counts only from the node that runs the task.
func TestUsageComesFromNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Nodes = nodes.NewStore(time.Minute)
	p := w.Platform()
	s := w.create("web", map[string]any{swarm.EnableLabel: "true", "setpoint.max": "5", "setpoint.cpu": "60"}, map[string]any{"Replicated": map[string]any{"Replicas": 3.0}})
	w.mu.Lock()
	s.tasks[0]["NodeID"], s.tasks[1]["NodeID"], s.tasks[2]["NodeID"] = "node1", "node1", "node2"
	w.mu.Unlock()
	o := agenttest.Object(t, p, agent.Key{Kind: swarm.Kind, Namespace: "default", Name: "web"})
	seen, err := p.Observe(t.Context(), o)
	fatal.If(t, err)
	if failed := seen.Request.GetMetricErrors(); len(failed) != 1 || !strings.Contains(failed[0].GetMessage(), "no node has reported usage") {
		t.Errorf("before any report: %v", failed)
	}
	now := time.Now()
	tasks := []nodes.TaskUsage{{Task: "task001" + s.id, At: now, Window: 15, CPU: 250_000_000, Memory: 1024}, {Task: "task003" + s.id, At: now, Window: 15, CPU: 9}}
	fatal.If(t, w.options.Nodes.Take(&nodes.Report{Node: "node1", At: now, Tasks: tasks}, now, true))
	seen, err = p.Observe(t.Context(), o)
	fatal.If(t, err)
	usage := seen.Request.GetPodMetrics()
	if len(usage) != 1 || len(seen.Request.GetMetricErrors()) > 0 || len(seen.Request.GetPods()) != 3 {
		t.Fatalf("usage %v, errors %v", usage, seen.Request.GetMetricErrors())
	}
	if got := usage[0]; got.GetPod() != "task001"+s.id || got.GetWindowSeconds() != 15 || got.GetContainers()[0].GetUsage()["cpu"] != "250000000n" || got.GetContainers()[0].GetUsage()["memory"] != "1024" {
		t.Errorf("got %v", got)
	}
}

// Memory that the nodes don't account is missing, not zero; the metric says why.
func TestMemoryThatIsNotAccounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Nodes = nodes.NewStore(time.Minute)
	p := w.Platform()
	s := w.create("web", map[string]any{swarm.EnableLabel: "true", "setpoint.max": "5", "setpoint.cpu": "60", "setpoint.memory": "60"}, map[string]any{"Replicated": map[string]any{"Replicas": 1.0}})
	w.mu.Lock()
	s.tasks[0]["NodeID"] = "node1"
	w.mu.Unlock()
	now := time.Now()
	usage := nodes.TaskUsage{Task: "task001" + s.id, At: now, Window: 15, CPU: 1}
	fatal.If(t, w.options.Nodes.Take(&nodes.Report{Node: "node1", At: now, Tasks: []nodes.TaskUsage{usage}}, now, true))
	seen := agenttest.Observe(t, p, agenttest.Object(t, p, agent.Key{Kind: swarm.Kind, Namespace: "default", Name: "web"}))
	errs := seen.Request.GetMetricErrors()
	if len(errs) != 1 || errs[0].GetMetric() != "Resource:memory" || !strings.Contains(errs[0].GetMessage(), "cgroup_enable=memory") {
		t.Errorf("got %v", errs)
	}
	if got := seen.Request.GetPodMetrics()[0].GetContainers()[0].GetUsage(); len(got) != 1 || got["cpu"] != "1n" {
		t.Errorf("got %v", got)
	}
}

// Who changes a service after its count was read may have opted it out with it: what was decided by its
// former labels is not written then.
func TestAServiceThatOptsOutMeanwhileIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, label := range map[string][2]string{"out": {swarm.EnableLabel, "false"}, "a shadow": {"setpoint.shadow", "true"}, "wrong": {"setpoint.cpu", "much"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.Create(agenttest.Workload{Name: "web", Replicas: 4})
				d, err := agent.NewDriver(w.Platform(), agent.Service{Calls: agenttest.NewService(testserver.Recommendations(t))},
					agent.Options{Cluster: "demo", Period: agenttest.Period, FirstWait: -1}, agent.DriverOptions{})
				fatal.If(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = d.Run(ctx) })
				defer running.Wait()
				defer cancel()
				time.Sleep(agenttest.Period + time.Second)
				w.BeforeWrite(func() {
					w.label("web", label[0], label[1])
					w.Scale("web", 5)
				})
				w.Want("web", 8)
				time.Sleep(5 * agenttest.Period)
				synctest.Wait()
				if n := w.Replicas("web"); n != 5 {
					t.Errorf("%d replicas, want the 5 that were set with the label", n)
				}
			})
		})
	}
}
