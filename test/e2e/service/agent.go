//go:build linux

package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// Agent is the agent of a platform. Its command stays the same while its process comes and goes. Its methods fail the
// test that it was made for.
type Agent struct {
	*process.Process // nil: none runs
	Command          process.Command
	// Admin is host and port of metrics, health and status.
	Admin string
	t     testing.TB
}

// NewAgent makes the agent of a platform, for a service, and does not start it. The last of several equal flags counts.
func NewAgent(t testing.TB, platform string, s interface{ GRPCAddr() string }, flags ...string) *Agent {
	t.Helper()
	name := "setpoint-" + platform
	program, err := process.Build(name, race())
	fatal.If(t, err)
	own, err := process.Reserve(1)
	fatal.If(t, err)
	t.Cleanup(own.Release)
	a := &Agent{t: t, Admin: own.Address(0)}
	a.Command = process.Command{
		Name: name, Program: program, Log: filepath.Join(t.TempDir(), "agent.log"), Env: []string{"GORACE=halt_on_error=1"},
		Args: append([]string{"agent", "--cluster=test", "--server=" + s.GRPCAddr(), "--log-format=console", "--admin-address=" + a.Admin}, flags...),
	}
	t.Cleanup(a.end)
	return a
}

// Start starts the process, and does not wait until it is ready.
func (a *Agent) Start() {
	a.t.Helper()
	var err error
	a.Process, err = process.Start(a.Command)
	fatal.If(a.t, err)
}

// startPatience is for the start of an agent beside a platform's own servers, on a busy machine.
const startPatience = 2 * time.Minute

// AwaitReady waits until the agent is ready.
func (a *Agent) AwaitReady() {
	a.t.Helper()
	fatal.If(a.t, a.Await("ready", startPatience, a.Ready))
}

// Ready returns nil if the agent says that it is ready.
func (a *Agent) Ready() error { return process.OK(&adminClient, "http://"+a.Admin+"/readyz") }

// Kill kills the process like a crash, if it runs.
func (a *Agent) Kill() {
	if a.Process != nil {
		a.Process.Kill()
		a.Process = nil
	}
}

// Stop ends the process by SIGTERM, if it runs. It must exit with 0.
func (a *Agent) Stop() {
	a.t.Helper()
	if p := a.Process; p != nil {
		a.Process = nil
		if err := p.Stop(); err != nil {
			a.t.Error(err)
		}
	}
}

// end is that of the test.
func (a *Agent) end() {
	if a.Process == nil {
		return
	}
	a.Stop()
	checkLog(a.t, "the agent", []byte(a.Log()))
}

// Log returns all that it has logged.
func (a *Agent) Log() string { return logged(a.t, a.Command.Log) }

// Get requests a page of the admin address.
func (a *Agent) Get(path string) (code int, body []byte, err error) {
	return get(a.Admin, path)
}

// Object returns the status of an object.
func (a *Agent) Object(name string) (*status.Object, error) {
	_, body, err := a.Get("/status.json")
	if err != nil {
		return nil, err
	}
	var all status.Status
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for _, o := range all.Objects {
		if o.Name == name {
			return o, nil
		}
	}
	return nil, fmt.Errorf("the agent knows no %s", name)
}

// Metrics are the agent's, by name.
func (a *Agent) Metrics() map[string]*dto.MetricFamily {
	a.t.Helper()
	_, body, err := a.Get("/metrics")
	fatal.If(a.t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	fatal.If(a.t, err)
	return families
}

// Metric sums a metric's series whose labels have the values, "name=value". There must be such a metric.
func (a *Agent) Metric(name string, labels ...string) float64 {
	a.t.Helper()
	family, ok := a.Metrics()[name]
	if !ok {
		a.t.Fatalf("the agent has no metric %s", name)
	}
	var sum float64
	for _, one := range family.GetMetric() {
		if !slices.ContainsFunc(labels, func(label string) bool {
			name, value, _ := strings.Cut(label, "=")
			return Label(one, name) != value
		}) {
			sum += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// Label returns the value of a metric's label, "" without it.
func Label(metric *dto.Metric, name string) string {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

var adminClient = http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// checkLog fails the test if a program's log has a crash, and shows its end if the test has failed.
func checkLog(t testing.TB, what string, text []byte) {
	if crash := process.Crash(text); crash != "" {
		t.Errorf("%s logged:\n%s", what, crash)
	}
	if t.Failed() {
		t.Logf("log of %s:\n%s", what, process.End(text))
	}
}
