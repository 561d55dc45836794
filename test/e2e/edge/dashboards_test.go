//go:build linux

package edge

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/panels"
)

// No panel of the dashboards is empty: a real Prometheus scrapes a service with TLS, tokens of
// an issuer, a policy and Redis, and an agent that scales with it, and runs the panels'
// queries.
func TestDashboardsShowWhatIsThere(t *testing.T) {
	t.Parallel()
	panels.Require(t, "prometheus")
	f, ca, callers := newFolder(t), newAuthority("servers"), newAuthority("callers")
	key := newSigningKey(t, "first")
	i := newIssuer(t, ca, key)
	redis := startRedis(t)
	flags := append(f.writePair(ca.issueNow("")),
		"--redis=redis://"+redis, "--target-metrics",
		"--tls-client-ca-file="+f.write("clients.crt", callers.CertPEM()), "--tls-client-crl-file="+f.write("clients.crl", callers.revoke()),
		"--auth-oidc-file="+f.write("oidc.yaml", i.file(f.write("issuer-ca.crt", ca.CertPEM()))),
		"--policy-file="+f.write("policy.yaml", []byte("grants:\n  - {identities: [\"oidc:corp:alice\"], clusters: [red], verbs: [recommend, read, delete]}\n")))
	p := start(t, flags...)
	agent := startWebhookAgent(t, p, f, f.write("server-ca.crt", ca.CertPEM()), f.write("token", []byte(i.token(key, "alice"))))
	url := panels.Prometheus(t, map[string]string{"setpoint": p.admin, "setpoint-agent": agent})

	// Rates need calls.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	c := newCaller(t, p, &tls.Config{RootCAs: ca.Pool()}, i.token(key, "alice"))
	go func() {
		defer close(done)
		for n := int32(3); ctx.Err() == nil; n++ {
			_ = c.recommend(wants(targetIn("red"), "", 3+n%7))
			time.Sleep(50 * time.Millisecond) // the pace of a caller; nothing waits for it
		}
	}()
	t.Cleanup(func() { cancel(); <-done })

	one := map[string]string{"cluster": "red", "namespace": "shop", "target": "web"}
	panels.AwaitFilled(t, url, "setpoint-fleet.json", nil, nil)
	panels.AwaitFilled(t, url, "setpoint-target.json", nil, one)
	panels.AwaitFilled(t, url, "setpoint-service.json", nil, nil)
	panels.AwaitFilled(t, url, "setpoint-store.json", nil, nil)
	// test/e2e/kubernetes checks the rows of Kubernetes and of sources beside a cluster.
	panels.AwaitFilled(t, url, "setpoint-agent.json", func(row string) bool {
		return row != "Kubernetes" && row != "Metric sources (--sources-file)"
	}, nil)
}

// startRedis starts a Redis that ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	ports, err := process.Reserve(1)
	must(t, err)
	t.Cleanup(ports.Release)
	dir := t.TempDir()
	server, err := process.Start(process.Command{
		Name: "redis-server", Program: "redis-server", Log: filepath.Join(dir, "redis.log"),
		Args: []string{"--port", ports.Number(0), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir},
	})
	must(t, err)
	t.Cleanup(server.Kill)
	return ports.Address(0)
}

// startWebhookAgent starts the example's server of workers, and the agent that scales them by the
// service, and returns the agent's admin address. Jobs are waiting, so that it scales.
func startWebhookAgent(t *testing.T, p *instance, f folder, caFile, tokenFile string) string {
	t.Helper()
	ports, err := process.Reserve(2)
	must(t, err)
	t.Cleanup(ports.Release)
	keys, jobs := f.write("keys", []byte("k1:0123456789abcdef0123456789abcdef\n")), filepath.Join(f.path, "jobs")
	must(t, os.Mkdir(jobs, 0o700))
	for n := range 60 {
		must(t, os.WriteFile(filepath.Join(jobs, fmt.Sprintf("%d.job", n)), nil, 0o600))
	}
	script, err := filepath.Abs("../../../examples/webhook/server.py")
	must(t, err)
	server, err := process.Start(process.Command{
		Name: "python3", Program: "python3", Log: filepath.Join(f.path, "server.log"),
		Args: []string{script, "--key-file", keys, "--folder", jobs, "--port", ports.Number(0), "--seconds", "30"},
	})
	must(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	program, err := process.Build("setpoint-webhook", false)
	must(t, err)
	agent, err := process.Start(process.Command{
		Name: "setpoint-webhook", Program: program, Log: filepath.Join(f.path, "agent.log"),
		Args: []string{
			"agent", "--cluster=red", "--server=" + p.grpc, "--tls-ca-file=" + caFile, "--token-file=" + tokenFile, "--list-every=1s",
			"--webhook-url=http://" + ports.Address(0), "--webhook-key-file=" + keys, "--admin-address=" + ports.Address(1),
		},
	})
	must(t, err)
	t.Cleanup(func() {
		_ = agent.Stop()
		if t.Failed() {
			t.Logf("log of the agent:\n%s", agent.Log())
		}
	})
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	must(t, agent.Await("healthy", process.Patience, func() error { return process.OK(client, "http://"+ports.Address(1)+"/healthz") }))
	return ports.Address(1)
}
