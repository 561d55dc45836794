//go:build linux

package kubernetes

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// agent is setpoint agent kubernetes with an account of its own. Its flags stay the
// same while its process comes and goes.
type agent struct {
	*process.Process // nil: none runs
	t                testing.TB
	account          *kubetest.Account
	command          process.Command
	admin            string
}

// recommender is a service for an agent.
type recommender interface{ GRPCAddr() string }

// newAgent makes one that serves a namespace's autoscalers, and does not start it.
// Flags win over the kit's own.
func newAgent(t testing.TB, c *kubetest.Cluster, namespace string, s recommender, flags ...string) *agent {
	t.Helper()
	name := "agent-" + strings.ToLower(fmt.Sprintf("%x", time.Now().UnixNano()))
	account := c.Account(t, namespace, name)
	c.Grant(t, account, leastRules(t)...)
	return newAgentAs(t, account, namespace, s, flags...)
}

// newAgentAs makes one with an account that is there.
func newAgentAs(t testing.TB, account *kubetest.Account, namespace string, s recommender, flags ...string) *agent {
	t.Helper()
	program, err := service.Kubernetes()
	must(t, err)
	own, err := process.Reserve(1)
	must(t, err)
	t.Cleanup(own.Release)
	a := &agent{t: t, account: account, admin: own.Address(0)}
	a.command = process.Command{
		Name: "setpoint-kubernetes", Program: program, Log: filepath.Join(t.TempDir(), "agent.log"),
		Env: []string{"GORACE=halt_on_error=1"},
		Args: append([]string{
			"agent", "--cluster=test", "--kubeconfig=" + account.Kubeconfig, "--namespace=" + namespace,
			"--server=" + s.GRPCAddr(), "--insecure", "--log-format=console", "--sync-period=" + syncPeriod.String(), "--admin-address=" + a.admin,
		}, flags...),
	}
	t.Cleanup(a.end)
	return a
}

// startAgent starts one and waits until it is ready.
func startAgent(t testing.TB, c *kubetest.Cluster, namespace string, s recommender, flags ...string) *agent {
	t.Helper()
	a := newAgent(t, c, namespace, s, flags...)
	a.start()
	a.awaitReady()
	return a
}

func (a *agent) start() {
	a.t.Helper()
	var err error
	a.Process, err = process.Start(a.command)
	must(a.t, err)
}

func (a *agent) awaitReady() {
	a.t.Helper()
	must(a.t, a.Await("ready", within, func() error { return process.OK(&adminClient, "http://"+a.admin+"/readyz") }))
}

// kill ends the process as a crash does.
func (a *agent) kill() {
	if a.Process != nil {
		a.Kill()
		a.Process = nil
	}
}

// stop ends it by SIGTERM, after which it must exit with 0.
func (a *agent) stop() {
	a.t.Helper()
	if a.Process == nil {
		return
	}
	p := a.Process
	a.Process = nil
	if err := p.Stop(); err != nil {
		a.t.Error(err)
	}
}

// end is that of the test.
func (a *agent) end() {
	p := a.Process
	a.stop()
	if p == nil {
		return
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

func (a *agent) get(path string) (code int, body []byte, err error) {
	response, err := adminClient.Get("http://" + a.admin + path)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// metrics are the agent's, by name.
func (a *agent) metrics() map[string]*dto.MetricFamily {
	a.t.Helper()
	_, body, err := a.get("/metrics")
	must(a.t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	must(a.t, err)
	return families
}

// value sums a metric's counters and gauges whose labels have the values, "name=value".
func (a *agent) value(metric string, labels ...string) float64 {
	a.t.Helper()
	family, ok := a.metrics()[metric]
	if !ok {
		a.t.Fatalf("the agent has no metric %s", metric)
	}
	var sum float64
	for _, one := range family.GetMetric() {
		if hasLabels(one, labels) {
			sum += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func hasLabels(metric *dto.Metric, labels []string) bool {
	for _, label := range labels {
		name, value, _ := strings.Cut(label, "=")
		found := false
		for _, pair := range metric.GetLabel() {
			found = found || pair.GetName() == name && pair.GetValue() == value
		}
		if !found {
			return false
		}
	}
	return true
}
