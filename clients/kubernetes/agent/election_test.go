package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// lease is a Lease in memory.
type lease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
}

// candidate implements resourcelock.Interface for one candidate for the Lease.
type candidate struct {
	*lease
	name string
	seen int
	dead bool // guarded by mu
}

func (c *candidate) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		return nil, nil, errors.New("killed")
	case c.record == nil:
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "l")
	}
	c.seen = c.version
	record := *c.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (c *candidate) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.Update(ctx, record)
}

func (c *candidate) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.seen != c.version {
		return errors.New("conflict")
	}
	c.version++
	c.seen, c.record = c.version, &record
	return nil
}

func (c *candidate) RecordEvent(string) {}
func (c *candidate) Identity() string   { return c.name }
func (c *candidate) Describe() string   { return c.name }

// run takes part in the election until the context ends, and sends the name once elected.
func (c *candidate) run(ctx context.Context, t *testing.T, e *Election, elected chan<- string) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c, LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { elected <- c.name }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Error(err)
		return
	}
	elector.Run(ctx)
}

// Whenever a leader is killed, another one leads within the promised time.
func TestFailoverIsWithinWhatIsPromised(t *testing.T) {
	for _, tt := range []struct {
		name     string
		election Election
		promised time.Duration
	}{
		{"by default", Election{Name: "l", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}, 23800 * time.Millisecond},
		{"soon", Election{Name: "l", LeaseDuration: 8 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: time.Second}, 12400 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &tt.election
			want(t, "promise", e.MaxFailover(), tt.promised)
			const turns = 300
			var longest, sum time.Duration
			for range turns {
				synctest.Test(t, func(t *testing.T) {
					l, elected := &lease{}, make(chan string, 2)
					ctx, cancel := context.WithCancel(t.Context())
					leader := &candidate{lease: l, name: "a"}
					go leader.run(ctx, t, e, elected)
					<-elected
					go (&candidate{lease: l, name: "b"}).run(ctx, t, e, elected)
					time.Sleep(time.Duration(rand.Int64N(int64(time.Minute))) + time.Minute)
					l.mu.Lock()
					leader.dead = true
					l.mu.Unlock()
					killed := time.Now()
					want(t, "leader", <-elected, "b")
					took := time.Since(killed)
					longest, sum = max(longest, took), sum+took
					cancel()
				})
			}
			t.Logf("%s on average, %s at most, %s promised", sum/turns, longest, tt.promised)
			if longest > tt.promised {
				t.Errorf("a failover took %s, at most %s are promised", longest, tt.promised)
			}
			if longest < tt.promised-e.RetryPeriod-e.LeaseDuration/4 {
				t.Errorf("no failover took longer than %s: the promise of %s says little", longest, tt.promised)
			}
		})
	}
}

// neverSynced is a source that the agent has no right to read.
type neverSynced struct{}

func (neverSynced) Start(context.Context, workqueue.TypedRateLimitingInterface[Key]) error {
	return nil
}
func (neverSynced) WaitForSync(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// An agent without rights waits for them: restarts would hide the alert on agents that are not ready.
func TestAnAgentWaitsForRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := (&Agent{}).controllerOptions()
		options.Logger, options.SkipNameValidation = logr.Discard(), new(bool)
		*options.SkipNameValidation = true
		c, err := controller.NewTypedUnmanaged("setpoint", options)
		fatal.If(t, err)
		fatal.If(t, c.Watch(neverSynced{}))
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		began := time.Now()
		err = c.Start(ctx)
		if waited := time.Since(began); waited < 24*time.Hour {
			t.Errorf("it ended after %s: %v", waited, err)
		}
	})
}

// An agent that waits for rights can be stopped: the manager would go on for ever, and use a processor. One that waits for its
// definition ends without an error, too.
func TestAnAgentStopsWithoutRights(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sources []Source
		asked   string // when it is stopped
	}{
		"without a right":    {[]Source{HPA}, "/apis/autoscaling/v2/horizontalpodautoscalers"},
		"without definition": {[]Source{HPA, Autoscaler}, "/apis/autoscaling/v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == tt.asked {
					select {
					case asked <- struct{}{}:
					default:
					}
				}
				refuseAll(w, r)
			}))
			defer server.Close()
			a, err := New(&rest.Config{Host: server.URL}, Options{Cluster: "demo", Sources: tt.sources, SyncPeriod: period, Workers: 1, RequestTimeout: period, DrainTimeout: period, Log: testLog(t)})
			fatal.If(t, err)
			loop, err := agent.New(a.Platform(), agent.Service{Calls: struct{ agent.Recommender }{}}, agent.Options{Cluster: "demo", Sources: kinds, Period: period, Log: testLog(t)}, a.Queue())
			fatal.If(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx, loop) }()
			<-asked
			stop()
			select {
			case err := <-ended:
				if err != nil || a.Ready() == nil {
					t.Errorf("it ended with %v, ready: %v", err, a.Ready())
				}
			case <-time.After(30 * time.Second):
				t.Error("it does not stop")
			}
		})
	}
}

// refuseAll answers as an API server that says which kinds it has, without Autoscalers, and refuses all else.
func refuseAll(w http.ResponseWriter, r *http.Request) {
	answer, ok := map[string]string{
		"/readyz":              "ok",
		"/api":                 `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/api/v1":              `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "namespaced": true}]}`,
		"/apis":                `{"kind": "APIGroupList", "groups": [{"name": "autoscaling", "versions": [{"groupVersion": "autoscaling/v2", "version": "v2"}], "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"}}]}`,
		"/apis/autoscaling/v2": `{"kind": "APIResourceList", "groupVersion": "autoscaling/v2", "resources": [{"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler", "namespaced": true}]}`,
	}[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusForbidden)
	}
	_, _ = io.WriteString(w, answer) // the client sees it
}
