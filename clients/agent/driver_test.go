package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// platform is a fake with slow reads and the test's own watch.
type platform struct {
	*agenttest.Fake
	takes time.Duration
	// watch replaces the fake's. May be nil.
	watch func(ctx context.Context, changed func(agent.Key)) error

	busy, most, looks atomic.Int64
	mu                sync.Mutex
	inReconcile       map[agent.Key]bool // guarded by mu
	overlaps          int                // guarded by mu
}

func (p *platform) Watch(ctx context.Context, changed func(agent.Key)) error {
	if p.watch != nil {
		return p.watch(ctx, changed)
	}
	return p.Fake.Watch(ctx, changed)
}

func (p *platform) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	p.looks.Add(1)
	return p.Fake.Object(ctx, key, before)
}

func (p *platform) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	p.enter(o.Key, true)
	defer p.enter(o.Key, false)
	p.most.Store(max(p.most.Load(), p.busy.Add(1)))
	defer p.busy.Add(-1)
	time.Sleep(p.takes)
	return p.Fake.Observe(ctx, o)
}

func (p *platform) enter(key agent.Key, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if in && p.inReconcile[key] {
		p.overlaps++
	}
	p.inReconcile[key] = in
}

// mistaken is a platform on which the calls about one object fail as they must not.
type mistaken struct {
	*agenttest.Fake
	object string
	call   string // that panics, or, with a "=", returns nil
}

func (p *mistaken) fails(key agent.Key, call string) (returnsNil bool) {
	if key.Name == p.object && p.call == call {
		panic("a mistake in the adapter")
	}
	return key.Name == p.object && p.call == call+"="
}

func (p *mistaken) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	if p.fails(key, "Object") {
		return nil, nil
	}
	return p.Fake.Object(ctx, key, before)
}

func (p *mistaken) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	if p.fails(o.Key, "Observe") {
		return nil, nil
	}
	if p.fails(o.Key, "Request") {
		return &agent.Observation{}, nil
	}
	return p.Fake.Observe(ctx, o)
}

func (p *mistaken) Apply(ctx context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	p.fails(o.Key, "Apply")
	return p.Fake.Apply(ctx, o, seen, change)
}

func (p *mistaken) Tell(ctx context.Context, t *agent.Telling) {
	p.fails(t.Object.Key, "Tell")
	p.Fake.Tell(ctx, t)
}

// An adapter's mistake about one object is an error of that object, by its name; others are scaled.
func TestAMistakeOfAnAdapterHoldsOneObject(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Object", "Object=", "Observe", "Observe=", "Request=", "Apply", "Tell"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &mistaken{Fake: &agenttest.Fake{}, object: "odd", call: call}
				p.Create(agenttest.Workload{Name: "odd", Replicas: 4})
				p.Create(agenttest.Workload{Name: "web", Replicas: 4})
				p.Want("odd", 6)
				p.Want("web", 6)
				core, lines := observer.New(zap.ErrorLevel)
				drive(t, p, agenttest.NewService(testserver.Start(t).Recommendations), agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
				time.Sleep(3 * agenttest.Period)
				if got := p.Replicas("web"); got != 6 {
					t.Errorf("the other object has %d replicas, want 6", got)
				}
				if n := lines.FilterField(zap.Stringer("object", agent.Key{Kind: "Service", Namespace: "shop", Name: "odd"})).Len(); n == 0 {
					t.Errorf("no line names the object: %v", lines.All())
				}
			})
		})
	}
}

func newPlatform(objects int) *platform {
	p := &platform{Fake: &agenttest.Fake{}, inReconcile: map[agent.Key]bool{}}
	for i := range objects {
		p.Create(agenttest.Workload{Name: fmt.Sprintf("web-%03d", i), Replicas: 4})
	}
	return p
}

// drive runs a driver without a wait for new objects, until the test ends or stop is called.
func drive(t *testing.T, p agent.Watched, service agent.Recommender, options agent.Options, driver agent.DriverOptions) (d *agent.Driver, stop func() error) {
	t.Helper()
	options.FirstWait = -1
	return start(t, p, service, options, driver)
}

// start is drive with the wait of the options.
func start(t *testing.T, p agent.Watched, service agent.Recommender, options agent.Options, driver agent.DriverOptions) (d *agent.Driver, stop func() error) {
	t.Helper()
	options.Cluster = "demo"
	d, err := agent.NewDriver(p, agent.Service{Calls: service}, options, driver)
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return d, stop
}

// Each of 500 objects is reconciled in time, although a bounded number of workers runs.
func TestManyObjectsKeepTheirPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const objects, workers, period = 500, 8, 15 * time.Second
		p, s := newPlatform(objects), agenttest.NewService(testserver.Recommendations(t))
		p.takes = 50 * time.Millisecond // 3.1 s a period for all of them
		drive(t, p, s, agent.Options{Period: period}, agent.DriverOptions{Workers: workers})
		time.Sleep(4 * period)
		synctest.Wait()
		began, looks := time.Now(), p.looks.Load()
		time.Sleep(6 * period)
		synctest.Wait()
		last := map[string]time.Time{}
		var longest time.Duration
		for _, q := range s.Asked() {
			name := q.Request.GetTarget()
			if before, ok := last[name]; ok && q.At.After(began) {
				longest = max(longest, q.At.Sub(before))
			}
			last[name] = q.At
		}
		if len(last) != objects {
			t.Errorf("%d objects were asked about", len(last))
		}
		if most := period + period/8 + 4*time.Second; longest > most {
			t.Errorf("a reconcile came %s after the one before, want at most %s", longest, most)
		}
		if n := p.most.Load(); n != workers {
			t.Errorf("up to %d reconciles at once, want %d", n, workers)
		}
		if n := p.looks.Load() - looks; n > 7*objects {
			t.Errorf("%d looks at %d objects in six periods", n, objects)
		}
		if p.overlaps > 0 {
			t.Errorf("%d reconciles began while one of the same object ran", p.overlaps)
		}
	})
}

// Repeated change notifications without a change cost reads, but no extra requests.
func TestUnchangedObjectsCostNoRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := newPlatform(1), agenttest.NewService(testserver.Recommendations(t))
		p.takes = time.Second
		var key agent.Key
		p.watch = func(ctx context.Context, changed func(agent.Key)) error {
			for ctx.Err() == nil {
				changed(key)
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}
		key = p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		drive(t, p, s, agent.Options{Period: 15 * time.Second}, agent.DriverOptions{})
		time.Sleep(5 * time.Minute)
		// One more, because the object joins the beat after its first reconcile.
		if n := len(s.Asked()); n < 17 || n > 21 {
			t.Errorf("asked %d times in 20 periods", n)
		}
		if p.overlaps > 0 {
			t.Errorf("%d reconciles began while one of the same object ran", p.overlaps)
		}
	})
}

// A failed watch restarts with back-off, and objects that were created or deleted meanwhile are
// noticed.
func TestAWatchThatFailsIsBegunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := newPlatform(2), agenttest.NewService(testserver.Recommendations(t))
		core, lines := observer.New(zap.WarnLevel)
		var away atomic.Bool
		var tries atomic.Int64
		broken := make(chan struct{})
		p.watch = func(ctx context.Context, changed func(agent.Key)) error {
			if away.Load() {
				tries.Add(1)
				return errors.New("no connection")
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				select {
				case <-broken:
					cancel()
				case <-ctx.Done():
				}
			}()
			return p.Fake.Watch(ctx, changed)
		}
		d, _ := drive(t, p, s, agent.Options{Log: zap.New(core)}, agent.DriverOptions{})
		time.Sleep(time.Minute)
		away.Store(true)
		broken <- struct{}{}
		time.Sleep(time.Second)
		gone, came := "web-000", p.Create(agenttest.Workload{Name: "later", Replicas: 4})
		p.Remove(gone)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		failures := int(tries.Load())
		if failures < 10 || failures > 30 {
			t.Errorf("tried %d times in ten minutes", failures)
		}
		if n := lines.Len(); n < 9 || n > 13 {
			t.Errorf("%d lines in ten minutes, want one a minute", n)
		}
		if objects := d.Objects(); len(objects) != 1 || strings.HasSuffix(objects[0].Name, gone) {
			t.Errorf("objects kept while the watch fails: %v", objects)
		}
		away.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if objects := d.Objects(); len(objects) != 2 || objects[0] != came && objects[1] != came {
			t.Errorf("kept in the end: %v", objects)
		}
	})
}

// An agent that loses its platform's lock while the service is away, and gets it back, notices the
// service's return.
func TestADriverThatRunsAgainNoticesTheServicesReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := newPlatform(1), agenttest.NewService(testserver.Recommendations(t))
		d, stop := drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		time.Sleep(time.Minute)
		s.Away(true)
		time.Sleep(time.Minute)
		fatal.If(t, stop())
		s.Away(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		fatal.If(t, d.Run(ctx))
		if n := s.AskedSince(began); n < 5 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// A stop waits a bounded time.
func TestAStopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := newPlatform(1), agenttest.NewService(testserver.Recommendations(t))
		p.takes = time.Minute
		_, stop := drive(t, p, s, agent.Options{}, agent.DriverOptions{DrainTimeout: 20 * time.Second})
		time.Sleep(time.Second)
		began := time.Now()
		err := stop()
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %s", took)
		}
		if err == nil || !strings.Contains(err.Error(), "reconciles in flight were not done within 20s") {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Minute)
	})
}

func TestWhatADriverNeeds(t *testing.T) {
	t.Parallel()
	p, s := newPlatform(0), agent.Service{Calls: agenttest.NewService(nil)}
	good := agent.Options{Cluster: "demo"}
	for _, tt := range []struct {
		name    string
		service agent.Service
		options agent.Options
		driver  agent.DriverOptions
		want    string
	}{
		{"defaults do", s, good, agent.DriverOptions{}, ""},
		{"no service", agent.Service{}, good, agent.DriverOptions{}, "no recommender"},
		{"no cluster", s, agent.Options{}, agent.DriverOptions{}, `cluster ""`},
		{"a period that is too short", s, agent.Options{Cluster: "demo", Period: time.Millisecond}, agent.DriverOptions{}, "period"},
		{"fewer workers than none", s, good, agent.DriverOptions{Workers: -1}, "workers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := agent.NewDriver(p, tt.service, tt.options, tt.driver)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
