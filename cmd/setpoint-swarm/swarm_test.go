package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/clients/swarm/nodes"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/errorlog"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

const secret = "0123456789abcdef0123456789abcdef"

func run(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, newRoot(), "", args...)
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	good, short := clitest.File(t, "secret", secret), clitest.File(t, "short", "hunter2")
	sources := clitest.File(t, "sources.yaml", "sources: {prom: {prometheus: {url: 'http://127.0.0.1:1'}}, jobs: {redis: {addresses: ['127.0.0.1:1']}}}")
	agent := []string{"agent", "--check", "--cluster=demo", "--insecure"}
	node := []string{"node", "--check"}
	for _, tt := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"reports of anybody", append(agent, "--nodes-address=:1"), "--nodes-address: needs either --nodes-secret-file or", cli.ExitSettings},
		{"reports at no address", append(agent, "--nodes-address=abc", "--nodes-secret-file="+good), `--nodes-address: "abc" is not host:port`, cli.ExitSettings},
		{"a secret for nothing", append(agent, "--nodes-secret-file="+good), "--nodes-address: is required", cli.ExitSettings},
		{"a secret and certificates", append(agent, "--nodes-address=:1", "--nodes-secret-file="+good, "--nodes-tls-ca-file=a", "--nodes-tls-cert-file=b", "--nodes-tls-key-file=c"), "--nodes-secret-file: can't be used together with the --nodes-tls flags", cli.ExitSettings},
		{"half a certificate", append(agent, "--nodes-address=:1", "--nodes-tls-cert-file=b"), "--nodes-tls-ca-file: must be given together with --nodes-tls-cert-file and --nodes-tls-key-file", cli.ExitSettings},
		{"a secret that is short", append(agent, "--nodes-address=:1", "--nodes-secret-file="+short), "fewer than 16 bytes", cli.ExitUsage},
		{"usage from both", append(agent, "--nodes-address=:1", "--nodes-secret-file="+good, "--usage-source=prom"), "--usage-source: can't be used together with --nodes-address", cli.ExitSettings},
		{"a source that there is not", append(agent, "--usage-source=prom"), `--usage-source: source: there is no source "prom"`, cli.ExitSettings},
		{"a source that can't tell", append(agent, "--usage-source=jobs", "--sources-file="+sources), "--usage-source: query: is for a source of prometheus", cli.ExitSettings},
		{"a range of nothing", append(agent, "--usage-window=1ms"), "--usage-window: 1ms is not from 1s to 1h", cli.ExitSettings},
		{"an engine that is none", append(agent, "--docker-host=nowhere"), "--docker-host: ", cli.ExitSettings},
		{"an engine by ssh", append(agent, "--docker-host=ssh://x"), `--docker-host: "ssh://x": must begin with unix://`, cli.ExitSettings},
		{"an engine by ssh, with a password", append(agent, "--docker-host=ssh://root:hunter2@x"), `--docker-host: "ssh://x": must begin with unix://`, cli.ExitSettings},
		{"an engine with a password", append(agent, "--docker-host=tcp://root:hunter2@x:2376"), "--docker-host: must contain no user or password", cli.ExitSettings},
		{"an engine that could only be read", append(agent, "--docker-host=http://x:2375"), `--docker-host: "http://x:2375": must begin with unix:// or tcp://`, cli.ExitSettings},
		{"an engine behind a path", append(agent, "--docker-host=tcp://x:2375/docker"), `--docker-host: "tcp://x:2375/docker": must be tcp://HOST:PORT`, cli.ExitSettings},
		{"an engine at no port", append(agent, "--docker-host=tcp://x"), `--docker-host: "tcp://x": must be tcp://HOST:PORT`, cli.ExitSettings},
		{"an engine at no socket", append(agent, "--docker-host=unix://"), `--docker-host: "unix://": names no socket`, cli.ExitSettings},
		{"nobody to report to", append(node, "--secret-file="+good), "--agent-address: must be host:port", cli.ExitSettings},
		{"reports of nobody", append(node, "--agent-address=a:1"), "--secret-file: give either this or all of", cli.ExitSettings},
		{"a node's half certificate", append(node, "--agent-address=a:1", "--agent-tls-cert-file=b"), "--agent-tls-ca-file: must be given together with --agent-tls-cert-file and", cli.ExitSettings},
		{"an interval that is too short", append(node, "--agent-address=a:1", "--secret-file="+good, "--interval=10ms"), "--interval: 10ms is not from 1s to 10m", cli.ExitSettings},
		{"a certificate that is not there", append(node, "--agent-address=a:1", "--agent-tls-ca-file=x", "--agent-tls-cert-file=x", "--agent-tls-key-file=x"), "--agent-tls-ca-file: open x", cli.ExitUsage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.args...)
			if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) || strings.Contains(got.Stderr, "hunter2") {
				t.Errorf("exit code %d, %q, want %q", got.Code, got.Stderr, tt.want)
			}
		})
	}
	for _, args := range [][]string{
		append(agent, "--nodes-address=:1", "--nodes-secret-file="+good), append(agent, "--usage-source=prom", "--sources-file="+sources),
		append(node, "--agent-address=agent:9093", "--secret-file="+good),
	} {
		if got := run(t, args...); got.Code != 0 || !strings.Contains(got.Stdout, "# The configuration is valid") || strings.Contains(got.Stdout, secret) {
			t.Errorf("%v: exit code %d\n%s%s", args, got.Code, got.Stdout, got.Stderr)
		}
	}
}

// What has no effect is told at the start: it may be meant for the other source of usage.
func TestSettingsWithoutEffectAreTold(t *testing.T) {
	t.Parallel()
	good := clitest.File(t, "secret", secret)
	sources := clitest.File(t, "sources.yaml", "sources: {prom: {prometheus: {url: 'http://127.0.0.1:1'}}}")
	reports, scraped := []string{"--nodes-address=:1", "--nodes-secret-file=" + good}, []string{"--usage-source=prom", "--sources-file=" + sources}
	const age, window = "--usage-max-age has no effect without --nodes-address\n", "--usage-window has no effect without --usage-source\n"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{append(scraped, "--usage-max-age=1h"), age},
		{append(reports, "--usage-max-age=1h"), ""},
		{append(reports, "--usage-window=5m"), window},
		{append(scraped, "--usage-window=5m"), ""},
		{[]string{"--usage-max-age=1h", "--usage-window=5m"}, age + window},
		{[]string{"--usage-max-age=45s", "--usage-window=1m"}, ""},
	} {
		if got := run(t, append([]string{"agent", "--check", "--cluster=demo", "--insecure"}, tt.args...)...); got.Code != 0 || got.Stderr != tt.want {
			t.Errorf("%v: exit code %d, %q, want %q", tt.args, got.Code, got.Stderr, tt.want)
		}
	}
}

// An operator's shell may have the variables of the command-line client.
func TestANodeStartsBesideTheClientsVariables(t *testing.T) {
	for name, value := range map[string]string{"SETPOINT_SERVER": "setpoint:9090", "SETPOINT_TOKEN_FILE": "nowhere", "SETPOINT_TLS_CA_FILE": "nowhere"} {
		t.Setenv(name, value)
	}
	if got := run(t, "node", "--check", "--agent-address=agent:9093", "--secret-file="+clitest.File(t, "secret", secret)); got.Code != 0 {
		t.Errorf("exit code %d\n%s", got.Code, got.Stderr)
	}
}

func TestGeneratedDocumentsAreUpToDate(t *testing.T) {
	t.Parallel()
	for page, args := range map[string][]string{"cli/setpoint-swarm.md": {"man", "--markdown"}, "swarm.md": {"reference"}} {
		committed := testpages.Read(t, filepath.Join("../../docs/reference", page))
		if got := run(t, args...); got.Stdout != committed {
			t.Errorf("docs/reference/%s is out of date: run make generate", page)
		}
	}
}

// The agent's address accepts its nodes' reports and refuses others, and idle connections are
// closed.
func TestReportsAreServed(t *testing.T) {
	t.Parallel()
	name := clitest.File(t, "secret", secret)
	secrets, config, err := credentials(name, nodes.TLS{}, "secret-file", "tls-ca-file")
	if err != nil || config != nil {
		t.Fatal(err)
	}
	store := nodes.NewStore(0)
	handler, err := nodes.NewHandler(store, secrets, nodes.TLS{}, nil)
	fatal.If(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveReports(ctx, listener, handler, nil, zap.NewNop()) }()
	sender, err := nodes.NewSender(listener.Addr().String(), secrets, nil, time.Minute)
	fatal.If(t, err)
	defer sender.Close()
	if err := sender.Send(ctx, &nodes.Report{Node: "node1", At: time.Now()}); err != nil {
		t.Error(err)
	}
	stranger, err := nodes.NewSender(listener.Addr().String(), func() ([][]byte, error) { return [][]byte{bytes.Repeat([]byte("x"), 32)}, nil }, nil, time.Minute)
	fatal.If(t, err)
	defer stranger.Close()
	if err := stranger.Send(ctx, &nodes.Report{Node: "node2", At: time.Now()}); err == nil || !strings.Contains(err.Error(), http.StatusText(http.StatusForbidden)) {
		t.Errorf("a stranger's report: %v", err)
	}
	if n := store.Reporting(time.Now()); n != 1 {
		t.Errorf("%d nodes have reported", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The log has each kind of error once, and one that lasts from time to time.
func TestRepeatedErrorsOfReportsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var l lastError
	now := time.Now()
	refused := func(port int) error { return fmt.Errorf("dial tcp 127.0.0.1:%d: connection refused", port) }
	for i, tt := range []struct {
		after time.Duration
		err   error
		news  bool
		fail  int
	}{
		{0, nil, true, 0},
		{0, nil, false, 0},
		{0, refused(1), true, 1},
		{0, refused(23), false, 2},
		{0, errors.New("the agent answers 403"), true, 3},
		{0, errors.New("the agent answers 409"), false, 4},
		{0, refused(4), false, 5},
		{againAfter, refused(5), true, 6},
		{0, nil, true, 6},
		{0, refused(6), true, 1},
	} {
		now = now.Add(tt.after)
		if news, failed := l.set(tt.err, now); news != tt.news || failed != tt.fail {
			t.Errorf("%d, %v: got %t and %d", i, tt.err, news, failed)
		}
	}
	told := 0
	for i := range 1000 {
		if news, _ := l.set(errors.New("error "+strings.Repeat("x", i)), now); news {
			told++
		}
	}
	if told > mostKinds {
		t.Errorf("%d lines of 1000 kinds of errors at once", told)
	}
}

// Repeated connections without a certificate do not fill the log.
func TestHandshakesThatFailDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.DebugLevel)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := time.Now(), make(chan error, 1)
	go func() {
		ended <- serveReports(ctx, listener, http.NotFoundHandler(), nodes.TLS{}.Server(), zap.New(core))
	}()
	for range 50 {
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_ = conn.Close()
			t.Fatal("a handshake without files")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	most := errorlog.Burst + int(time.Since(began)/errorlog.Pause)
	if n := logged.FilterMessage("TLS handshake failed").Len(); n == 0 || n > most || logged.Len() > most+1 {
		t.Errorf("%d lines, at most %d wanted: %v", n, most, logged.All())
	}
}
