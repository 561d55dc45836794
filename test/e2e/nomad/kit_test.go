//go:build linux

package nomad

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const token = "token:agent"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// nomad is a server of the tests, with a queue that the agent's source reads.
type nomad struct {
	t      testing.TB
	server *nomadtest.Server
	client *api.Client
	url    string
	queue  atomic.Int64

	mu   sync.Mutex
	fail func(r *http.Request) (status int, text string) // guarded by mu; nil: nothing fails
}

func newNomad(t testing.TB, server *nomadtest.Server) *nomad {
	n := &nomad{t: t, server: server}
	server.Intercept = func(r *http.Request) (int, string) {
		if r.Header.Get("X-Nomad-Token") != token {
			return 0, "" // it is the test's
		}
		n.mu.Lock()
		fail := n.fail
		n.mu.Unlock()
		if fail == nil {
			return 0, ""
		}
		return fail(r)
	}
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/queue" {
			fmt.Fprintf(w, `{"depth": %d}`, n.queue.Load())
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	rights, err := os.ReadFile("../../../deploy/nomad/agent.policy.hcl")
	must(t, err)
	server.UseACL()
	server.SetToken(token, string(rights))
	n.url = served.URL
	n.client, err = api.NewClient(&api.Config{Address: served.URL, SecretID: nomadtest.Management})
	must(t, err)
	return n
}

// failing makes the agent's requests fail as the function says; nil: none.
func (n *nomad) failing(fail func(r *http.Request) (status int, text string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = fail
}

// register registers a job with one group, web, whose task has 500 MHz.
func (n *nomad) register(name string, count int, policy string) {
	n.t.Helper()
	_, _, err := n.client.Jobs().Register(&api.Job{
		ID: &name, Namespace: new("default"), Type: new("service"),
		TaskGroups: []*api.TaskGroup{{
			Name: new("web"), Count: &count, Update: &api.UpdateStrategy{MaxParallel: new(1)},
			Scaling: &api.ScalingPolicy{Min: new(int64(1)), Max: new(int64(10)), Policy: map[string]any{"setpoint": policy}},
			Tasks:   []*api.Task{{Name: "app", Resources: &api.Resources{CPU: new(500), MemoryMB: new(128)}}},
		}},
	}, nil)
	must(n.t, err)
}

// byQueue scales by one allocation for each ten in the queue.
const byQueue = `
metric: {queue: {source: queue, path: /queue, valuePath: "{.depth}", average: 10}}
behavior:
  scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 3, periodSeconds: 5}]}
  scaleDown: {stabilizationWindowSeconds: 8, policies: [{type: Pods, value: 10, periodSeconds: 1}]}
`

func (n *nomad) group(name string) api.TaskGroupScaleStatus {
	n.t.Helper()
	status, _, err := n.client.Jobs().ScaleStatus(name, nil)
	must(n.t, err)
	return status.TaskGroups["web"]
}

func (n *nomad) count(name string) int { return n.group(name).Desired }

// patience is for a busy machine.
const patience = 2 * time.Minute

// await waits until the count is the one wanted.
func (n *nomad) await(name string, want int) {
	n.t.Helper()
	began := time.Now()
	for n.count(name) != want {
		if time.Since(began) > patience {
			n.t.Fatalf("%s: %d allocations after %s, want %d; events %s", name, n.count(name), patience, want, n.events(name))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// events are the counts that were written, oldest first, as text.
func (n *nomad) events(name string) string {
	events := n.group(name).Events
	var out []string
	for i := len(events) - 1; i >= 0; i-- {
		if e := events[i]; e.Count != nil {
			out = append(out, fmt.Sprintf("%d→%d", e.PreviousCount, *e.Count))
		}
	}
	return strings.Join(out, " ")
}

// agent is setpoint-nomad. Its flags stay the same while its process comes and goes.
type agent struct {
	*process.Process // nil: none runs
	t                testing.TB
	command          process.Command
	admin, tokenFile string
}

// startAgent starts one and waits until it has seen the policies.
func startAgent(t testing.TB, n *nomad, s *service.Instance, flags ...string) *agent {
	t.Helper()
	program, err := process.Build("setpoint-nomad", os.Getenv("SETPOINT_E2E_RACE") != "")
	must(t, err)
	own, err := process.Reserve(1)
	must(t, err)
	t.Cleanup(own.Release)
	folder := t.TempDir()
	a := &agent{t: t, admin: own.Address(0), tokenFile: filepath.Join(folder, "token")}
	must(t, os.WriteFile(a.tokenFile, []byte(token+"\n"), 0o600))
	sources := filepath.Join(folder, "sources.yaml")
	must(t, os.WriteFile(sources, []byte("sources: {queue: {http: {url: \""+n.url+"\"}, reuse: 0s}}\n"), 0o600))
	a.command = process.Command{
		Name: "setpoint-nomad", Program: program, Log: filepath.Join(folder, "agent.log"), Env: []string{"GORACE=halt_on_error=1"},
		Args: append([]string{
			"agent", "--cluster=test", "--server=" + s.GRPCAddr(), "--insecure", "--log-format=console", "--sync-period=1s",
			"--admin-address=" + a.admin, "--nomad-address=" + n.url, "--nomad-token-file=" + a.tokenFile, "--sources-file=" + sources, "--state-dir=" + folder,
		}, flags...),
	}
	t.Cleanup(a.end)
	a.start()
	must(t, a.Await("ready", process.Patience, func() error { return process.OK(&adminClient, "http://"+a.admin+"/readyz") }))
	return a
}

func (a *agent) start() {
	a.t.Helper()
	var err error
	a.Process, err = process.Start(a.command)
	must(a.t, err)
}

// end is that of the test.
func (a *agent) end() {
	if a.Process == nil {
		return
	}
	if err := a.Stop(); err != nil {
		a.t.Error(err)
	}
	text, err := os.ReadFile(a.command.Log)
	must(a.t, err)
	if crash := process.Crash(text); crash != "" {
		a.t.Errorf("the agent logged:\n%s", crash)
	}
	if a.t.Failed() {
		a.t.Logf("log of the agent:\n%s", process.End(text))
	}
}

var adminClient = http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (a *agent) get(path string) []byte {
	a.t.Helper()
	response, err := adminClient.Get("http://" + a.admin + path)
	must(a.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(a.t, err)
	return body
}

// metric is the sum of a counter by a label, "" for all.
func (a *agent) metric(name, label string) map[string]float64 {
	a.t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(a.get("/metrics"))))
	must(a.t, err)
	out := map[string]float64{}
	for _, m := range families[name].GetMetric() {
		out[valueOf(m, label)] += m.GetCounter().GetValue()
	}
	return out
}

func valueOf(m *dto.Metric, label string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == label {
			return l.GetValue()
		}
	}
	return ""
}

// status is the status page's text about a group.
func (a *agent) status(name string) (state struct {
	Hold *struct{ Reason, Message string }
}) {
	a.t.Helper()
	var all struct {
		Objects []json.RawMessage
	}
	must(a.t, json.Unmarshal(a.get("/status.json"), &all))
	for _, one := range all.Objects {
		if strings.Contains(string(one), `"`+name+`"`) {
			must(a.t, json.Unmarshal(one, &state))
		}
	}
	return state
}
