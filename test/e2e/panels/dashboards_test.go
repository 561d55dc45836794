//go:build linux

package panels_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server/signin/signintest"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/panels"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// No panel of the dashboards is empty: a real Prometheus scrapes a service with TLS, tokens of
// an issuer, a policy and Redis, and an agent that scales with it, and runs the panels'
// queries.
func TestDashboardsShowWhatIsThere(t *testing.T) {
	t.Parallel()
	panels.Require(t, "prometheus")
	ca, callers, issuer, folder := testpki.New("servers"), testpki.New("callers"), signintest.Start(t), t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		fatal.If(t, os.WriteFile(path, content, 0o600))
		return path
	}
	own, token := ca.Issue("setpoint", testpki.Usage(x509.ExtKeyUsageServerAuth)), issuer.Token()
	p := service.New(t, service.Settings{Shipped: true, Flags: []string{
		"--redis=" + redistest.Start(t, redistest.Config{}).URL(), "--target-metrics",
		"--tls-cert-file=" + file("tls.crt", own.CertPEM()), "--tls-key-file=" + file("tls.key", own.KeyPEM()),
		"--tls-client-ca-file=" + file("clients.crt", callers.CertPEM()), "--tls-client-crl-file=" + file("clients.crl", callers.Revoke(time.Now().Add(time.Hour))),
		"--auth-oidc-file=" + file("oidc.yaml", []byte(issuer.File())),
		"--policy-file=" + file("policy.yaml", []byte("grants:\n  - {identities: [\"oidc:corp:alice\"], clusters: [red], verbs: [recommend, read, delete, override, configure]}\n")),
	}})
	p.Restart()
	caFile := file("server-ca.crt", ca.CertPEM())
	agent := startWebhookAgent(t, p, folder, caFile, file("token", []byte(token)), file("keys", []byte("k1:0123456789abcdef0123456789abcdef\n")))
	url := panels.Prometheus(t, map[string]string{"setpoint": p.AdminAddr(), "setpoint-agent": agent})

	// Rates need calls, and a fleet has metrics while one of its members calls.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	client, err := setpoint.New(p.GRPCAddr(), setpoint.WithTLS(setpoint.TLS{CAFile: caFile}), setpoint.WithToken(token))
	fatal.If(t, err)
	_, err = setpointv1.NewTargetServiceClient(client.Conn()).SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{
		Name: fleetName, TargetSpec: &setpointv1.TargetSpec{Spec: wants(3).GetSpec(), Fleet: fleetOfTwo},
	})
	fatal.If(t, err)
	go func() {
		defer close(done)
		for n := 3; ctx.Err() == nil; n++ {
			_, _ = client.Recommend(ctx, wants(n%7+3))
			member := wants(n%7 + 3)
			member.Target, member.Fleet = fleetOfTwo.GetMembers()[0].GetTarget(), fleetName
			_, _ = client.Recommend(ctx, member)
			time.Sleep(50 * time.Millisecond) // the pace of a caller; nothing waits for it
		}
	}()
	t.Cleanup(func() { cancel(); <-done; _ = client.Close() })

	// There is somebody who holds something.
	_, err = setpointv1.NewOverrideServiceClient(client.Conn()).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{
		Parent: "clusters/red/namespaces/shop/targets/other", Override: &setpointv1.Override{Hold: true, Reason: "test", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))},
	})
	fatal.If(t, err)
	one := map[string]string{"job": "setpoint", "cluster": "red", "namespace": "shop", "target": "web"}
	panels.AwaitFilled(t, url, "setpoint-targets.json", nil, nil)
	panels.AwaitFilled(t, url, "setpoint-target.json", nil, one)
	panels.AwaitFilled(t, url, "setpoint-service.json", nil, nil)
	panels.AwaitFilled(t, url, "setpoint-store.json", nil, nil)
	// test/e2e/kubernetes checks the others beside a cluster.
	panels.AwaitFilled(t, url, "setpoint-agent.json", func(row string) bool { return !panels.OfKubernetes(row) }, nil)
}

// fleetOfTwo is the fleet of that name.
const fleetName = "clusters/red/namespaces/shop/targets/fleet"

var fleetOfTwo = &setpointv1.FleetSpec{
	Members: []*setpointv1.FleetMember{{Target: "clusters/red/namespaces/shop/targets/east"}, {Target: "clusters/red/namespaces/shop/targets/west"}},
	Scopes:  map[string]string{"External:queue-depth": "PER_MEMBER"},
}

// wants is a request that wants so many replicas.
func wants(replicas int) *setpointv1.RecommendRequest {
	queue := &setpointv1.MetricIdentifier{Name: "queue-depth"}
	return &setpointv1.RecommendRequest{
		Target: "clusters/red/namespaces/shop/targets/web",
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: 100,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: queue, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}}},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 3},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: queue, Value: fmt.Sprint(10 * replicas)}},
	}
}

// startWebhookAgent starts the example's server of workers, and the agent that scales them by the
// service, and returns the agent's admin address. Jobs are waiting, so that it scales.
func startWebhookAgent(t *testing.T, p *service.Instance, folder, caFile, tokenFile, keys string) string {
	t.Helper()
	ports, err := process.Reserve(1)
	fatal.If(t, err)
	t.Cleanup(ports.Release)
	jobs := filepath.Join(folder, "jobs")
	fatal.If(t, os.Mkdir(jobs, 0o700))
	for n := range 60 {
		fatal.If(t, os.WriteFile(filepath.Join(jobs, fmt.Sprintf("%d.job", n)), nil, 0o600))
	}
	script, err := filepath.Abs("../../../examples/webhook/server.py")
	fatal.If(t, err)
	server, err := process.Start(process.Command{
		Name: "python3", Program: "python3", Log: filepath.Join(folder, "server.log"),
		Args: []string{script, "--key-file", keys, "--folder", jobs, "--port", ports.Number(0), "--seconds", "30"},
	})
	fatal.If(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	agent := service.NewAgent(t, "webhook", p, "--cluster=red", "--tls-ca-file="+caFile, "--token-file="+tokenFile, "--list-every=1s",
		"--webhook-url=http://"+ports.Address(0), "--webhook-key-file="+keys)
	agent.Start()
	agent.AwaitReady()
	return agent.Admin
}
