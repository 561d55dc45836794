//go:build linux

package samples

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// patience bounds the wait for something that must happen. It takes seconds on an idle machine.
const patience = 2 * time.Minute

// exporter exports the test's gauges, and counters that grow with each scrape.
type exporter struct {
	*httptest.Server
	mu      sync.Mutex
	gauges  string // guarded by mu
	scrapes int    // guarded by mu
}

func newExporter(t *testing.T, gauges string) *exporter {
	e := &exporter{gauges: gauges}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

// ServeHTTP implements http.Handler.
func (e *exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scrapes++
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "%s\nrequests_total{pod=\"web-1\"} %d\nrequests_total{pod=\"web-2\"} %d\n", e.gauges, 10*e.scrapes, 20*e.scrapes)
}

// tell replaces the gauges.
func (e *exporter) tell(gauges string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gauges = gauges
}

// server is a Prometheus that scrapes an exporter every half second.
type server struct {
	t       *testing.T
	address string
	args    []string
	process *process.Process
	log     string
	client  *http.Client
	scheme  string
}

// start starts a Prometheus, which ends with the test; web is its web configuration, empty:
// none, and client checks its readiness.
func start(t *testing.T, e *exporter, web string, client *http.Client) *server {
	t.Helper()
	reserved, err := process.Reserve(1)
	fatal.If(t, err)
	t.Cleanup(reserved.Release)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	config := file("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs:
- job_name: exporter
  static_configs: [{targets: [%q]}]
`, strings.TrimPrefix(e.URL, "http://")))
	s := &server{t: t, address: reserved.Address(0), client: client, scheme: "http"}
	s.args = []string{
		"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + s.address, "--log.level=warn",
	}
	if web != "" {
		s.args = append(s.args, "--web.config.file="+file("web.yml", web))
		s.scheme = "https"
	}
	s.log = filepath.Join(dir, "log")
	t.Cleanup(func() {
		s.kill()
		if text, err := os.ReadFile(s.log); t.Failed() && err == nil {
			t.Logf("log of prometheus:\n%s", text)
		}
		client.CloseIdleConnections()
	})
	s.run()
	return s
}

// run starts the process and waits until it serves.
func (s *server) run() {
	s.t.Helper()
	var err error
	s.process, err = process.Start(process.Command{Name: "prometheus", Program: "prometheus", Args: s.args, Log: s.log})
	fatal.If(s.t, err)
	fatal.If(s.t, s.process.Await("ready", patience, func() error { return process.OK(s.client, s.url()+"/-/ready") }))
}

func (s *server) url() string { return s.scheme + "://" + s.address }

// kill ends the process, if it runs.
func (s *server) kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.process = nil
}
