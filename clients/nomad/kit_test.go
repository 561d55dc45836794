package nomad_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// world is a single Nomad server behind its HTTP API, and a source of metrics. It implements
// agenttest.World. Jobs have no update block unless a test registers one: otherwise a change of
// a count by others would keep the agent from writing its own.
type world struct {
	agenttest.Faults

	t        testing.TB
	server   *nomadtest.Server
	client   *api.Client // the agent's
	own      *api.Client // the test's
	options  nomad.Options
	requests *prometheus.Registry
	logged   *observer.ObservedLogs

	mu    sync.Mutex
	loads map[string]int32 // ten times the wanted replicas, by job; guarded by mu, as is all that follows
	// fail answers instead of Nomad; nil: nothing fails.
	fail func(r *http.Request) (status int, text string)
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, loads: map[string]int32{}, requests: prometheus.NewRegistry()}
	core, logged := observer.New(zap.InfoLevel)
	w.logged, w.options.Log, w.options.Sources = logged, zap.New(core), queues{w}
	w.server = &nomadtest.Server{Placement: &nomadtest.Placement{}}
	w.own = nomadtest.Client(t, w.server)
	w.client = w.connect(nomad.Config{Registerer: w.requests})
	return w
}

// connect connects to the server over pipes.
func (w *world) connect(c nomad.Config) *api.Client {
	w.t.Helper()
	pipe := agenttest.NewPipe()
	server := &http.Server{Handler: http.HandlerFunc(w.serve)}
	go func() { _ = server.Serve(pipe) }()
	w.t.Cleanup(func() { _ = server.Close() })
	c.Address, c.Dial = "http://nomad:4646", pipe.DialContext
	client, err := nomad.Connect(c)
	fatal.If(w.t, err)
	return client
}

// noted records the status of an answer.
type noted struct {
	http.ResponseWriter
	status int
}

func (n *noted) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// serve is Nomad as seen by the agent.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	write, counts := r.Method == http.MethodPut || r.Method == http.MethodPost, false
	if write {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var scaling api.ScalingRequest
		counts = json.Unmarshal(body, &scaling) == nil && scaling.Count != nil
	}
	w.mu.Lock()
	fail := w.fail
	w.mu.Unlock()
	var err error
	switch {
	case counts:
		w.BeginWrite()
		err = w.WriteErr()
	case !write && r.URL.Path != "/v1/scaling/policies":
		err = w.ReadErr()
	}
	status, text := 0, ""
	if fail != nil {
		status, text = fail(r)
	}
	if err != nil {
		status, text = http.StatusInternalServerError, err.Error()
	}
	if status > 0 {
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, text)
		return
	}
	answered := &noted{rw, http.StatusOK}
	w.server.ServeHTTP(answered, r)
	if counts && answered.status == http.StatusOK {
		w.Wrote()
	}
}

// failing makes requests fail as the function says; nil: none.
func (w *world) failing(fail func(r *http.Request) (status int, text string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

// Platform implements agenttest.World.
func (w *world) Platform() agent.Watched { return w.adapter() }

func (w *world) adapter() *nomad.Platform {
	p, err := nomad.New(w.client, w.options)
	fatal.If(w.t, err)
	return p
}

// start makes the world of a test of the adapter itself, with a watch that has seen the jobs
// registered by the function.
func start(t *testing.T, register func(w *world)) (*world, *nomad.Platform) {
	t.Helper()
	w := newWorld(t)
	register(w)
	p := w.adapter()
	w.watch(p)
	return w, p
}

// watch runs a platform's watch until the test ends, and records its notifications.
func (w *world) watch(p *nomad.Platform) *watched {
	told := &watched{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(ctx, told.changed) }()
	w.t.Cleanup(func() {
		cancel()
		told.err = <-ended
	})
	synctest.Wait()
	return told
}

// watched records a watch's notifications.
type watched struct {
	mu   sync.Mutex
	told []string
	err  error
}

func (w *watched) changed(key agent.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, key.Name)
}

// take returns the notifications since the last call.
func (w *watched) take() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.told)
	out := fmt.Sprint(w.told)
	w.told = nil
	return out
}

// job is a job to register.
type job struct {
	name     string
	count    int
	policy   any // under Key
	min, max int64
	update   bool // has deployments
	change   func(*api.Job)
}

func (w *world) register(j job) {
	w.t.Helper()
	if j.max == 0 {
		j.min, j.max = 1, 10
	}
	group := &api.TaskGroup{
		Name: new("web"), Count: &j.count, Scaling: &api.ScalingPolicy{Min: &j.min, Max: &j.max, Policy: map[string]any{nomad.Key: j.policy}},
		Tasks: []*api.Task{{Name: "app", Resources: &api.Resources{CPU: new(500), MemoryMB: new(256)}}},
	}
	if j.update {
		group.Update = &api.UpdateStrategy{MaxParallel: new(1)}
	}
	registered := &api.Job{ID: &j.name, Namespace: new("default"), Type: new("service"), TaskGroups: []*api.TaskGroup{group}}
	if j.change != nil {
		j.change(registered)
	}
	if _, _, err := w.own.Jobs().Register(registered, nil); err != nil {
		w.t.Fatal(err)
	}
}

func keyOf(name string) agent.Key {
	return nomad.KeyOf(nomad.Group{Namespace: "default", Job: name, Name: "web"})
}

const atOnce = `{stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 100, periodSeconds: 1}]}`

// Create implements agenttest.World.
func (w *world) Create(wl agenttest.Workload) agent.Key {
	policy := fmt.Sprintf("metric: {queue: {source: queues, query: %s, average: 10}}\nshadow: %t\n", wl.Name, wl.Shadow)
	if !wl.Steady {
		policy += "behavior: {scaleUp: " + atOnce + ", scaleDown: " + atOnce + "}\n"
	}
	w.Want(wl.Name, wl.Replicas)
	w.register(job{name: wl.Name, count: int(wl.Replicas), policy: policy, min: agenttest.MinReplicas, max: agenttest.MaxReplicas})
	return keyOf(wl.Name)
}

// Remove implements agenttest.World.
func (w *world) Remove(name string) {
	if _, _, err := w.own.Jobs().Deregister(name, true, nil); err != nil {
		w.t.Error(err)
	}
}

// Want implements agenttest.World.
func (w *world) Want(name string, replicas int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads[name] = 10 * replicas
}

// Scale implements agenttest.World.
func (w *world) Scale(name string, replicas int32) {
	if _, _, err := w.own.Jobs().Scale(name, "web", new(int(replicas)), "by hand", false, nil, nil); err != nil {
		w.t.Error(err)
	}
}

// Replicas implements agenttest.World.
func (w *world) Replicas(name string) int32 { return int32(w.group(name).Desired) }

func (w *world) group(name string) api.TaskGroupScaleStatus {
	status, _, err := w.own.Jobs().ScaleStatus(name, nil)
	if err != nil {
		w.t.Error(err)
		return api.TaskGroupScaleStatus{}
	}
	return status.TaskGroups["web"]
}

// queues is the world's source, named queues, whose queries are names of jobs.
type queues struct{ *world }

func (q queues) Check(metrics []samples.Metric) error {
	var p typed.Problems
	for _, m := range metrics {
		if m.Query.Source != "queues" {
			p.Add(samples.Subject(m.Spec)+".source", "there is no such source")
		}
	}
	return p.Err()
}

func (q queues) Read(_ context.Context, metrics []samples.Metric, _ []string) (out samples.Readings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range metrics {
		out.ExternalMetrics = append(out.ExternalMetrics, &setpointv1.ExternalMetric{
			Metric: m.Spec.GetExternal().GetMetric(), Value: fmt.Sprint(q.loads[m.Query.Query]),
		})
	}
	return out
}
