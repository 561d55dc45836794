//go:build linux

package swarm

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// world is a swarm with a service and an agent.
type world struct {
	*swarm
	t     *testing.T
	serve *service.Instance
	ports *process.Ports // of the agent, for nodes
	gate  *gate
	agent *service.Agent
	// period is the agent's --sync-period.
	period string
	// queue is what the agent's source reads, if it has one: below 0 it can't be read.
	queue *atomic.Int64
}

// newQueue serves a queue, and returns the file of a source of it.
func newQueue(t *testing.T) (queue *atomic.Int64, sources string) {
	t.Helper()
	queue = new(atomic.Int64)
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if depth := queue.Load(); depth >= 0 {
			_, _ = fmt.Fprintf(w, `{"depth": %d}`, depth)
			return
		}
		http.Error(w, "the queue is away", http.StatusServiceUnavailable)
	}))
	t.Cleanup(served.Close)
	sources = filepath.Join(t.TempDir(), "sources.yaml")
	fatal.If(t, os.WriteFile(sources, []byte(`sources: {queue: {http: {url: "`+served.URL+`"}, reuse: 0s}}`), 0o600))
	return queue, sources
}

func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	return newWorldOf(t, service.Start(t), flags...)
}

// newWorldOf is newWorld with a service that is there.
func newWorldOf(t *testing.T, serve *service.Instance, flags ...string) *world {
	t.Helper()
	w := &world{t: t, swarm: startSwarm(t), serve: serve, period: "1s"}
	for _, flag := range flags {
		if period, ok := strings.CutPrefix(flag, "--sync-period="); ok {
			w.period = period
		}
	}
	var err error
	w.ports, err = process.Reserve(1)
	fatal.If(t, err)
	t.Cleanup(w.ports.Release)
	w.gate = newGate(t, w.socket(1), filepath.Join(w.folder, "gate.sock"))
	w.agent = service.NewAgent(t, "swarm", serve, slices.Concat([]string{
		"--cluster=e2e", "--insecure", "--docker-host=unix://" + w.gate.path, "--nodes-address=" + w.ports.Address(0), "--sync-period=1s", "--usage-max-age=15s",
		"--state-dir=" + w.folder,
	}, flags, w.tlsOf("nodes-", 1))...)
	w.startAgent()
	for n := 1; n <= 2; n++ {
		w.startNode(n)
	}
	return w
}

// tlsOf are flags for the certificate that the swarm gave to a node.
func (w *world) tlsOf(prefix string, n int) []string {
	at := w.certificates(n)
	return []string{
		"--" + prefix + "tls-ca-file=" + at + "/swarm-root-ca.crt", "--" + prefix + "tls-cert-file=" + at + "/swarm-node.crt", "--" + prefix + "tls-key-file=" + at + "/swarm-node.key",
	}
}

func (w *world) startAgent() {
	w.t.Helper()
	w.agent.Start()
	w.agent.AwaitReady()
}

// startNode starts the usage reporter of a node.
func (w *world) startNode(n int) {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), fmt.Sprintf("node%d.log", n))
	p, err := process.Start(process.Command{
		Name: "setpoint-swarm", Program: w.agent.Command.Program, Log: name,
		Args: append([]string{
			"node", "--docker-host=unix://" + w.socket(n), "--agent-address=" + w.ports.Address(0), "--agent-tls-server-name=swarm-manager",
			"--interval=" + w.period, "--admin-address=",
		}, w.tlsOf("agent-", n)...),
	})
	fatal.If(w.t, err)
	w.t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			w.t.Error(err)
		}
		if text, err := os.ReadFile(name); w.t.Failed() && err == nil {
			w.t.Logf("log of node %d:\n%s", n, process.End(text))
		}
	})
}

// workload is a service of the swarm.
type workload struct {
	*world
	name, id, load string
}

// The tests' services: a task reserves 20 thousandths of a core, with a target of half of that;
// these are loads far above it, and none.
const (
	much  = 40
	idle  = 0
	least = 1
	most  = 6
)

// behavior allows two more tasks per five seconds, and holds a count for six.
const behavior = `{scaleUp: {policies: [{type: Pods, value: 2, periodSeconds: 5}]}, scaleDown: {stabilizationWindowSeconds: 6}}`

// step is the policy's, and window how long a count is held.
const (
	step       = 2
	stepPeriod = 5 * time.Second
	window     = 6 * time.Second
)

// create makes a service of so many tasks that is scaled by their use of processors.
func (w *world) create(t *testing.T, name, image string, replicas int, labels ...string) *workload {
	t.Helper()
	return w.createLabelled(t, name, image, replicas, append([]string{fmt.Sprintf("setpoint.max=%d", most), "setpoint.cpu=50", "setpoint.behavior=" + behavior}, labels...)...)
}

// createLabelled makes a service of so many tasks that has opted in. Arguments of the program may follow the image,
// and other flags be among the labels.
func (w *world) createLabelled(t *testing.T, name, image string, replicas int, labels ...string) *workload {
	t.Helper()
	s := &workload{world: w, name: name, load: filepath.Join(w.folder, "load-"+name)}
	fatal.If(t, os.MkdirAll(s.load, 0o755))
	args := []string{
		"service", "create", "--quiet", "--detach", "--no-resolve-image", "--network=host", "--name=" + name, fmt.Sprintf("--replicas=%d", replicas),
		"--reserve-cpu=0.02", "--mount=type=bind,src=" + s.load + ",dst=/load,ro", "--stop-grace-period=1s", "--restart-delay=1s",
	}
	for _, label := range append([]string{"setpoint.enable=true"}, labels...) {
		if !strings.HasPrefix(label, "--") {
			label = "--label=" + label
		}
		args = append(args, label)
	}
	s.id = w.must(t, 1, append(args, strings.Fields(image)...)...)
	return s
}

func (s *workload) remove(t *testing.T) {
	t.Helper()
	s.must(t, 1, "service", "rm", s.name)
}

// use has each task use so many thousandths of a core.
func (s *workload) use(t *testing.T, milli int) {
	t.Helper()
	fatal.If(t, os.WriteFile(filepath.Join(s.load, "milli"), []byte(strconv.Itoa(milli)), 0o644))
}

// label sets a label, or takes it away.
func (s *workload) label(t *testing.T, name, value string) {
	t.Helper()
	flag := "--label-add=" + name + "=" + value
	if value == "" {
		flag = "--label-rm=" + name
	}
	s.must(t, 1, "service", "update", "--quiet", "--detach", flag, s.name)
}

// replicas is the count.
func (s *workload) replicas(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(s.must(t, 1, "service", "inspect", "--format={{.Spec.Mode.Replicated.Replicas}}", s.name))
	fatal.If(t, err)
	return n
}

func (s *workload) becomes(t *testing.T, n int) {
	t.Helper()
	kit.Eventually(t, patience, fmt.Sprintf("%d replicas of %s", n, s.name), func() error {
		if got := s.replicas(t); got != n {
			o, _ := s.agent.Object(s.name)
			said, _ := json.Marshal(o)
			return fmt.Errorf("there are %d; the agent says %s", got, said)
		}
		return nil
	})
}

// gate is between the agent and the manager's engine, and records requests.
type gate struct {
	path string

	mu sync.Mutex
	// before and after are called for a request when it comes and when it is answered, before
	// the answer goes back. Guarded by mu.
	before, after func(*http.Request)
}

func newGate(t *testing.T, engine, path string) *gate {
	t.Helper()
	g := &gate{path: path}
	listener, err := net.Listen("unix", path)
	fatal.If(t, err)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.FlushInterval = -1 // events
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", engine)
	}}
	proxy.ModifyResponse = func(r *http.Response) error {
		g.call(false, r.Request)
		return nil
	}
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.call(true, r)
		proxy.ServeHTTP(w, r)
	}), ErrorLog: quiet()}
	proxy.ErrorLog = quiet()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return g
}

func (g *gate) set(before, after func(*http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after = before, after
}

func (g *gate) call(before bool, r *http.Request) {
	g.mu.Lock()
	call := g.after
	if before {
		call = g.before
	}
	g.mu.Unlock()
	if call != nil {
		call(r)
	}
}
