package swarm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// world is a swarm of one manager behind its engine's HTTP API, and a source of metrics. It
// implements agenttest.World.
//
// Of the engine it has what docs and a real one of 20.10 say: versions, the error of a stale
// one, filters, events; and it counts the tasks that an update would replace.
type world struct {
	agenttest.Faults

	t      testing.TB
	engine *swarm.Engine
	// platform is the adapter's options.
	options swarm.Options

	mu       sync.Mutex
	services map[string]*fakeService // by name; guarded by mu, as is all that follows
	index    uint64
	made     int
	// replaced counts spec changes that make Swarm replace tasks.
	replaced int
	loads    map[string]int32 // ten times the wanted replicas, by service
	watchers map[chan string]bool
	requests []string
	// hang is the path whose requests are left unanswered; empty: none.
	hang string
	// speaks is the only version of the API that the engine takes.
	speaks string
	// worker makes the node no manager any more.
	worker bool
	// lost answers reads of services by name that there is none: as an engine does that could not list names, but
	// then ids.
	lost bool
	// instead is the service that they find then, by a prefix of its id; empty: none.
	instead string
	// unanswered makes updates that are not answered, and does what it says after each.
	unanswered func()
}

type fakeService struct {
	id      string
	index   uint64
	created time.Time
	spec    map[string]any
	status  map[string]any
	tasks   []map[string]any
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, speaks: "1.41", services: map[string]*fakeService{}, loads: map[string]int32{}, watchers: map[chan string]bool{}}
	w.options.Sources = queues{w}
	pipe := agenttest.NewPipe()
	server := &http.Server{Handler: w}
	go func() { _ = server.Serve(pipe) }()
	engine, err := swarm.Connect(client.WithHost("tcp://engine:2375"), client.WithDialContext(pipe.DialContext))
	fatal.If(t, err)
	w.engine = engine
	t.Cleanup(func() {
		engine.Close()
		_ = server.Close()
	})
	return w
}

// Platform implements agenttest.World.
func (w *world) Platform() agent.Watched {
	return swarm.New(w.engine, w.options)
}

const atOnce = `{stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 100, periodSeconds: 1}]}`

// Create implements agenttest.World.
func (w *world) Create(wl agenttest.Workload) agent.Key {
	labels := map[string]any{
		"com.docker.stack.namespace": "shop",
		"setpoint.enable":            "true", "setpoint.min": fmt.Sprint(agenttest.MinReplicas), "setpoint.max": fmt.Sprint(agenttest.MaxReplicas),
		"setpoint.metric.queue.source": "queues", "setpoint.metric.queue.query": wl.Name, "setpoint.metric.queue.average": "10",
	}
	if wl.Shadow {
		labels["setpoint.shadow"] = "true"
	}
	if !wl.Steady {
		labels["setpoint.behavior"] = "scaleUp: " + atOnce + "\nscaleDown: " + atOnce
	}
	w.Want(wl.Name, wl.Replicas)
	w.create(wl.Name, labels, map[string]any{"Replicated": map[string]any{"Replicas": float64(wl.Replicas)}})
	return agent.Key{Kind: swarm.Kind, Namespace: "shop", Name: wl.Name}
}

// create creates a service. Its image has no tag, and its spec a field that no client knows.
func (w *world) create(name string, labels, mode map[string]any) *fakeService {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	w.index++
	s := &fakeService{
		id: fmt.Sprintf("service%018d", w.made), index: w.index, created: time.Now(),
		spec: map[string]any{
			"Name": name, "Labels": labels, "Mode": mode, "OfTomorrow": map[string]any{"Kept": true},
			"TaskTemplate": map[string]any{"ContainerSpec": map[string]any{"Image": "web"}, "ForceUpdate": 0.0, "OfTomorrow": "kept"},
		},
	}
	w.services[name] = s
	w.run(s)
	w.changed(s.id)
	return s
}

// run starts or stops tasks to match a service's count. The lock is held.
func (w *world) run(s *fakeService) {
	n := int(s.replicas())
	for slot := len(s.tasks) + 1; slot <= n; slot++ {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		s.tasks = append(s.tasks, map[string]any{
			"ID": fmt.Sprintf("task%03d%s", slot, s.id), "ServiceID": s.id, "Slot": slot, "CreatedAt": now, "DesiredState": "running",
			"Status": map[string]any{"State": "running", "Timestamp": now},
		})
	}
	s.tasks = s.tasks[:n]
}

func (s *fakeService) replicas() int32 {
	mode, _ := s.spec["Mode"].(map[string]any)
	replicated, _ := mode["Replicated"].(map[string]any)
	n, _ := replicated["Replicas"].(float64)
	return int32(n)
}

// Remove implements agenttest.World.
func (w *world) Remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.services[name].id
	delete(w.services, name)
	w.changed(id)
}

// Want implements agenttest.World.
func (w *world) Want(name string, replicas int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads[name] = 10 * replicas
}

// Scale implements agenttest.World.
func (w *world) Scale(name string, replicas int32) {
	w.edit(name, func(s *fakeService) {
		s.spec["Mode"] = map[string]any{"Replicated": map[string]any{"Replicas": float64(replicas)}}
	})
}

// edit changes a service as another user would.
func (w *world) edit(name string, change func(*fakeService)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.services[name]
	change(s)
	w.index++
	s.index = w.index
	w.run(s)
	w.changed(s.id)
}

// label changes a label.
func (w *world) label(name, label, value string) {
	w.edit(name, func(s *fakeService) { s.spec["Labels"].(map[string]any)[label] = value })
}

// quietly makes a change without an event.
func (w *world) quietly(do func()) {
	w.mu.Lock()
	watchers := w.watchers
	w.watchers = map[chan string]bool{}
	w.mu.Unlock()
	do()
	w.mu.Lock()
	w.watchers = watchers
	w.mu.Unlock()
}

// Replicas implements agenttest.World.
func (w *world) Replicas(name string) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.services[name].replicas()
}

// changed notifies the watchers. The lock is held.
func (w *world) changed(id string) {
	for watcher := range w.watchers {
		watcher <- id
	}
}

// ServeHTTP is the engine.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	speaks := w.speaks
	w.mu.Unlock()
	if r.URL.Path == "/_ping" {
		rw.Header().Set("Api-Version", speaks)
		return
	}
	path, versioned := strings.CutPrefix(r.URL.Path, "/v"+speaks)
	w.mu.Lock()
	w.requests = append(w.requests, r.Method+" "+path)
	worker, hang := w.worker, path == w.hang
	w.mu.Unlock()
	name, update := strings.CutSuffix(strings.TrimPrefix(path, "/services/"), "/update")
	switch {
	case !versioned:
		fail(rw, http.StatusBadRequest, "client version is too old. Minimum supported API version is "+speaks+", please upgrade your client to a newer version")
	case hang:
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the connection ends
		<-r.Context().Done()
	case worker:
		fail(rw, http.StatusServiceUnavailable, "This node is not a swarm manager. Worker nodes can't be used to view or modify cluster state.")
	case r.Method == http.MethodGet && path == "/events":
		w.events(rw, r)
	case r.Method == http.MethodGet && path == "/swarm":
		answer(rw, map[string]any{"ID": "swarm1"})
	case r.Method == http.MethodGet && path == "/services":
		w.list(rw, r)
	case r.Method == http.MethodGet && path == "/tasks":
		w.listTasks(rw, r)
	case r.Method == http.MethodPost && update:
		w.update(rw, r, name)
	case r.Method == http.MethodGet && strings.HasPrefix(path, "/services/"):
		w.inspect(rw, name)
	default:
		fail(rw, http.StatusNotFound, "page not found")
	}
}

func fail(rw http.ResponseWriter, status int, message string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(map[string]string{"message": message})
}

func answer(rw http.ResponseWriter, with any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(with)
}

func (s *fakeService) describe() map[string]any {
	out := map[string]any{
		"ID": s.id, "Version": map[string]any{"Index": s.index}, "CreatedAt": s.created.UTC().Format(time.RFC3339Nano),
		"Spec": s.spec, "Endpoint": map[string]any{"Spec": map[string]any{}},
	}
	if s.status != nil {
		out["UpdateStatus"] = s.status
	}
	return out
}

// find finds a service by id, name or the beginning of its id, as the engine does. The lock
// is held.
func (w *world) find(key string) *fakeService {
	for _, s := range w.services {
		if s.id == key {
			return s
		}
	}
	if s := w.services[key]; s != nil {
		return s
	}
	if like := w.like(key); len(like) == 1 {
		return like[0]
	}
	return nil
}

// like are the services whose ids begin so. The lock is held.
func (w *world) like(id string) (like []*fakeService) {
	for _, s := range w.services {
		if strings.HasPrefix(s.id, id) {
			like = append(like, s)
		}
	}
	return like
}

func (w *world) inspect(rw http.ResponseWriter, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, like := w.find(key), len(w.like(key))
	if other := w.services[w.instead]; other != nil && s != nil && s.id != key {
		s = other
	}
	switch {
	case w.ReadErr() != nil:
		fail(rw, http.StatusInternalServerError, w.ReadErr().Error())
	case s == nil && like > 1:
		fail(rw, http.StatusInternalServerError, fmt.Sprintf("service %s is ambiguous (%d matches found)", key, like))
	case s == nil, w.lost && s.id != key:
		fail(rw, http.StatusNotFound, "service "+key+" not found")
	default:
		answer(rw, s.describe())
	}
}

func filters(r *http.Request) map[string]map[string]bool {
	var out map[string]map[string]bool
	_ = json.Unmarshal([]byte(r.URL.Query().Get("filters")), &out)
	return out
}

func (w *world) list(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		labels, _ := w.services[name].spec["Labels"].(map[string]any)
		matches := true
		for label := range filters(r)["label"] {
			_, there := labels[label]
			matches = matches && there
		}
		for prefix := range filters(r)["name"] {
			matches = matches && strings.HasPrefix(name, prefix)
		}
		if matches {
			out = append(out, w.services[name].describe())
		}
	}
	answer(rw, out)
}

func (w *world) listTasks(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ReadErr() != nil {
		fail(rw, http.StatusInternalServerError, w.ReadErr().Error())
		return
	}
	out := []any{}
	for _, s := range w.services {
		if filters(r)["service"][s.id] {
			for _, task := range s.tasks {
				out = append(out, task)
			}
		}
	}
	answer(rw, out)
}

func (w *world) update(rw http.ResponseWriter, r *http.Request, key string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(rw, http.StatusBadRequest, err.Error())
		return
	}
	w.BeginWrite()
	w.mu.Lock()
	defer w.mu.Unlock()
	version, err := strconv.ParseUint(r.URL.Query().Get("version"), 10, 64)
	s := w.find(key)
	var spec map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	switch {
	case err != nil:
		fail(rw, http.StatusBadRequest, "invalid service version '"+r.URL.Query().Get("version")+"'")
	case decoder.Decode(&spec) != nil:
		fail(rw, http.StatusBadRequest, "EOF")
	case w.WriteErr() != nil:
		fail(rw, http.StatusInternalServerError, w.WriteErr().Error())
	case s == nil:
		fail(rw, http.StatusNotFound, "service "+key+" not found")
	case version != s.index:
		fail(rw, http.StatusInternalServerError, "rpc error: code = Unknown desc = update out of sequence")
	default:
		was := maps.Clone(s.spec)
		now := maps.Clone(spec)
		delete(was, "Mode")
		delete(now, "Mode")
		if !reflect.DeepEqual(was, now) {
			w.replaced++
		}
		w.index++
		w.Wrote()
		s.spec, s.index, s.status = spec, w.index, nil
		w.run(s)
		w.changed(s.id)
		if w.unanswered != nil {
			w.unanswered()
			panic(http.ErrAbortHandler)
		}
		answer(rw, map[string]any{"Warnings": nil})
	}
}

func (w *world) events(rw http.ResponseWriter, r *http.Request) {
	ids := make(chan string, 1000)
	w.mu.Lock()
	w.watchers[ids] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watchers, ids)
	}()
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(rw).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case id := <-ids:
			_ = json.NewEncoder(rw).Encode(map[string]any{"Type": "service", "Action": "update", "Actor": map[string]any{"ID": id}})
			_ = http.NewResponseController(rw).Flush()
		}
	}
}

// queues is the world's source, named queues, whose queries are names of services.
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
