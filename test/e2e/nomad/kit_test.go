//go:build linux

package nomad

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// nomad is a namespace of a server, with a queue that the agent's source reads.
type nomad struct {
	t         testing.TB
	server    *server
	client    *api.Client // that of management, in the namespace
	namespace string
	url       string       // what the agent asks: the server, behind the tests' faults
	queue     atomic.Int64 // below 0: it can't be read

	mu   sync.Mutex
	fail func(r *http.Request) (status int, text string) // guarded by mu; nil: nothing fails
}

// newNomad makes a namespace with the name of the test.
func newNomad(t testing.TB, s *server) *nomad {
	n := &nomad{t: t, server: s, namespace: strings.ReplaceAll(strings.ReplaceAll(t.Name(), "/", "-"), "_", "-")}
	at, err := url.Parse(s.url)
	fatal.If(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) }
	proxied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/queue" {
			depth := n.queue.Load()
			if depth < 0 {
				http.Error(w, "the queue is away", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, `{"depth": %d}`, depth)
			return
		}
		n.mu.Lock()
		fail := n.fail
		n.mu.Unlock()
		if fail != nil {
			if status, text := fail(r); status != 0 {
				http.Error(w, text, status)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(proxied.Close)
	n.url = proxied.URL
	n.client, err = api.NewClient(&api.Config{Address: s.url, SecretID: management, Namespace: n.namespace})
	fatal.If(t, err)
	n.prepare()
	t.Cleanup(func() {
		if s.process.Alive() {
			fatal.If(t, s.purge(n.namespace))
		}
	})
	return n
}

// prepare makes the namespace, and the policy of agents.
func (n *nomad) prepare() {
	n.t.Helper()
	_, err := n.client.Namespaces().Register(&api.Namespace{Name: n.namespace}, nil)
	fatal.If(n.t, err)
	n.allow("agent", "")
}

// allow sets a policy for agents' tokens: that of deploy/, without a capability.
func (n *nomad) allow(policy, without string) {
	n.t.Helper()
	rights, err := os.ReadFile("../../../deploy/nomad/agent.policy.hcl")
	fatal.If(n.t, err)
	text := strings.ReplaceAll(string(rights), `"`+without+`"`, `"read-fs"`)
	_, err = n.client.ACLPolicies().Upsert(&api.ACLPolicy{Name: policy, Rules: text}, nil)
	fatal.If(n.t, err)
}

// token makes one of a policy.
func (n *nomad) token(policy string) *api.ACLToken {
	n.t.Helper()
	token, _, err := n.client.ACLTokens().Create(&api.ACLToken{Name: n.namespace, Type: "client", Policies: []string{policy}}, nil)
	fatal.If(n.t, err)
	return token
}

// failing makes the agent's requests fail as the function says; nil: none.
func (n *nomad) failing(fail func(r *http.Request) (status int, text string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = fail
}

// group is a task group with a policy of Setpoint's, in YAML. Its deployments last as long as
// healthy says, none without it. Its task only is there.
func (n *nomad) group(name string, count int, policy string) *api.TaskGroup {
	return &api.TaskGroup{
		Name: &name, Count: &count, Update: &api.UpdateStrategy{MaxParallel: new(0)}, EphemeralDisk: &api.EphemeralDisk{SizeMB: new(10)},
		Scaling: &api.ScalingPolicy{Min: new(int64(1)), Max: new(int64(10)), Policy: map[string]any{"setpoint": policy}},
		Tasks:   []*api.Task{n.idle()},
	}
}

// idle is a task that only is there, for long.
func (n *nomad) idle() *api.Task {
	task := &api.Task{
		Name: "app", Driver: n.server.driver, Resources: &api.Resources{CPU: new(1), MemoryMB: new(10)}, KillTimeout: new(time.Millisecond),
		Config: map[string]any{"command": "/bin/sleep", "args": []string{"1h"}},
	}
	if task.Driver == "mock_driver" {
		task.Config = map[string]any{"run_for": "1h"}
	}
	return task
}

// deploys gives a group deployments in which an allocation is healthy after that time.
func deploys(g *api.TaskGroup, healthy time.Duration) *api.TaskGroup {
	g.Update = &api.UpdateStrategy{
		MaxParallel: new(10), HealthCheck: new("task_states"), MinHealthyTime: &healthy,
		HealthyDeadline: new(time.Minute), ProgressDeadline: new(2 * time.Minute),
	}
	return g
}

// register registers a job of these groups.
func (n *nomad) register(name string, groups ...*api.TaskGroup) *api.Job {
	n.t.Helper()
	job := &api.Job{ID: &name, Name: &name, Namespace: &n.namespace, Type: new("service"), TaskGroups: groups, Datacenters: []string{"*"}}
	n.run(job)
	return job
}

// run registers a job whose tasks log nothing, which would take a process each.
func (n *nomad) run(job *api.Job) {
	n.t.Helper()
	for _, g := range job.TaskGroups {
		for _, task := range g.Tasks {
			task.LogConfig = &api.LogConfig{MaxFiles: new(1), MaxFileSizeMB: new(1), Disabled: new(true)}
		}
	}
	_, _, err := n.client.Jobs().Register(job, nil)
	fatal.If(n.t, err)
}

// byQueue scales by one allocation for each ten in the queue.
const byQueue = `
metric: {queue: {source: queue, path: /queue, valuePath: "{.depth}", average: 10}}
behavior:
  scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 3, periodSeconds: 5}]}
  scaleDown: {stabilizationWindowSeconds: 8, policies: [{type: Pods, value: 10, periodSeconds: 1}]}
`

// scaleStatus is the state of a group; "JOB" has a group of its own name.
func (n *nomad) scaleStatus(name string) api.TaskGroupScaleStatus {
	n.t.Helper()
	job, group, two := strings.Cut(name, ".")
	if !two {
		group = job
	}
	status, _, err := n.client.Jobs().ScaleStatus(job, nil)
	fatal.If(n.t, err)
	return status.TaskGroups[group]
}

func (n *nomad) count(name string) int { return n.scaleStatus(name).Desired }

// patience is for a busy machine.
const patience = 3 * time.Minute

// eventually waits until there is no problem.
func (n *nomad) eventually(problem func() error) {
	n.t.Helper()
	kit.Eventually(n.t, patience, "as wanted", problem)
}

// await waits until the count is the one wanted.
func (n *nomad) await(name string, want int) {
	n.t.Helper()
	n.eventually(func() error {
		if got := n.count(name); got != want {
			return fmt.Errorf("%s: %d allocations, want %d; events %s", name, got, want, n.events(name))
		}
		return nil
	})
}

// awaitIdle waits until no deployment of a job is active.
func (n *nomad) awaitIdle(job string) {
	n.t.Helper()
	n.eventually(func() error {
		d, _, err := n.client.Jobs().LatestDeployment(job, nil)
		if err != nil || d == nil || d.Status == "successful" || d.Status == "failed" || d.Status == "cancelled" {
			return err
		}
		return errors.New("its deployment is " + d.Status)
	})
}

// scaleBy sets a count as a person would, once no deployment is in its way.
func (n *nomad) scaleBy(name string, count int) {
	n.t.Helper()
	n.eventually(func() error {
		_, _, err := n.client.Jobs().Scale(name, name, &count, "by hand", false, nil, nil)
		if err != nil && !strings.Contains(err.Error(), "active deployment") {
			fatal.If(n.t, err)
		}
		return err
	})
}

// events are the counts that were written, oldest first, as text.
func (n *nomad) events(name string) string {
	events := n.scaleStatus(name).Events
	var out []string
	for i := len(events) - 1; i >= 0; i-- {
		if e := events[i]; e.Count != nil {
			out = append(out, fmt.Sprintf("%d→%d", e.PreviousCount, *e.Count))
		}
	}
	return strings.Join(out, " ")
}

// tasks are the states of a job's allocations, and what became of their tasks, as text.
func (n *nomad) tasks(job string) string {
	n.t.Helper()
	allocations, _, err := n.client.Jobs().Allocations(job, false, nil)
	fatal.If(n.t, err)
	var out []string
	for _, a := range allocations {
		text := a.DesiredStatus + "/" + a.ClientStatus
		for name, task := range a.TaskStates {
			for _, e := range task.Events {
				text += " " + name + ": " + e.DisplayMessage + ";"
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// awaitEvents waits until the counts that were written are those wanted: Nomad stores an event a
// moment after the count.
func (n *nomad) awaitEvents(name, want string) {
	n.t.Helper()
	n.eventually(func() error {
		if got := n.events(name); got != want {
			return fmt.Errorf("%s: the counts that were written are %s, want %s", name, got, want)
		}
		return nil
	})
}

// agent is setpoint-nomad.
type agent struct {
	*service.Agent
	t         testing.TB
	tokenFile string
	token     *api.ACLToken
}

// startAgent starts one and waits until it has seen the policies.
func startAgent(t testing.TB, n *nomad, s *service.Instance, flags ...string) *agent {
	t.Helper()
	folder := t.TempDir()
	a := &agent{t: t, tokenFile: filepath.Join(folder, "token"), token: n.token("agent")}
	fatal.If(t, os.WriteFile(a.tokenFile, []byte(a.token.SecretID+"\n"), 0o600))
	sources := sourcesOf(t, "sources: {queue: {http: {url: \""+n.url+"\"}, reuse: 0s}}")
	a.Agent = service.NewAgent(t, "nomad", s, append([]string{
		"--insecure", "--sync-period=1s", "--nomad-address=" + n.url, "--nomad-token-file=" + a.tokenFile, "--nomad-namespace=" + n.namespace,
		"--sources-file=" + sources, "--state-dir=" + folder,
	}, flags...)...)
	a.Start()
	a.AwaitReady()
	return a
}

// sourcesOf writes a file of sources.
func sourcesOf(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sources.yaml")
	fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// requests are how many requests to Nomad the agent has made, by a label.
func (a *agent) requests(label string) map[string]float64 {
	a.t.Helper()
	out := map[string]float64{}
	for _, m := range a.Metrics()["setpoint_nomad_requests_total"].GetMetric() {
		out[service.Label(m, label)] += m.GetCounter().GetValue()
	}
	return out
}

// page is a page of the admin address.
func (a *agent) page(path string) []byte {
	a.t.Helper()
	_, text, err := a.Get(path)
	fatal.If(a.t, err)
	return text
}

// state is the status of a group.
type state = status.Object

// problem is what the status page says of the agent as a whole, "": nothing.
func (a *agent) problem() string {
	a.t.Helper()
	var all struct{ Problem string }
	fatal.If(a.t, json.Unmarshal(a.page("/status.json"), &all))
	return all.Problem
}

// status is that of a group, "JOB.GROUP", empty if the agent does not know it.
func (a *agent) status(name string) state {
	if o, err := a.Object(name); err == nil {
		return *o
	}
	return state{}
}

// awaitState waits until the status of a group is as wanted.
func (a *agent) awaitState(name string, problem func(state) error) {
	a.t.Helper()
	fatal.If(a.t, a.Await("as wanted", patience, func() error {
		s := a.status(name)
		if err := problem(s); err != nil {
			return fmt.Errorf("%s: %w: %+v, %+v, %+v", name, err, s, s.Hold, s.Decision)
		}
		return nil
	}))
}

// held is awaitState for a hold with that reason.
func held(reason string) func(state) error {
	return func(s state) error {
		if s.Hold == nil || s.Hold.Reason != reason {
			return errors.New("it is not held for " + reason)
		}
		return nil
	}
}

// awaitReconciles waits until the agent has had so many more.
func (a *agent) awaitReconciles(more float64) {
	a.t.Helper()
	fatal.If(a.t, a.Await("ready", patience, a.Ready))
	before := a.Metric("setpoint_agent_reconciles_total")
	fatal.If(a.t, a.Await("in reconciles", patience, func() error {
		if had := a.Metric("setpoint_agent_reconciles_total"); had < before+more {
			return fmt.Errorf("it has had %v", had-before)
		}
		return nil
	}))
}
