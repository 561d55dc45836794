package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/shadow"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret-of-the-cluster}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestAgentSettingsAreChecked(t *testing.T) {
	t.Parallel()
	config := file(t, "kubeconfig", kubeconfig)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"the cluster is required", nil, "--cluster: is required"},
		{"a cluster that is a path", []string{"--cluster=a/b"}, `--cluster: cluster "a/b"`},
		{"a source that there is not", []string{"--cluster=x", "--source=cronjob"}, `--source: "cronjob" is none of hpa, autoscaler, both`},
		{"a period that is too short", []string{"--cluster=x", "--sync-period=100ms"}, "--sync-period: 100ms is not from 1s to 1h"},
		{"no workers", []string{"--cluster=x", "--workers=0"}, "--workers: 0 is not above 0"},
		{"half a certificate", []string{"--cluster=x", "--tls-cert-file=x.pem"}, "--tls-cert-file: and --tls-key-file go together"},
		{"TLS without TLS", []string{"--cluster=x", "--insecure", "--tls-ca-file=x.pem"}, "--insecure: contradicts the --tls flags"},
		{"a token in the clear", []string{"--cluster=x", "--insecure", "--token-file=x"}, "--insecure: would send the token"},
		{"a CA that is not there", []string{"--cluster=x", "--check", "--kubeconfig=" + config, "--tls-ca-file=nowhere.pem"}, "open nowhere.pem"},
		{"a kubeconfig that is not there", []string{"--cluster=x", "--check", "--kubeconfig=nowhere"}, "--kubeconfig: stat nowhere"},
		{"a context that is not there", []string{"--cluster=x", "--check", "--kubeconfig=" + config, "--context=y"}, `--kubeconfig: context "y" does not exist`},
		{"times of the election in the wrong order", []string{"--cluster=x", "--leader-elect", "--leader-elect-lease-duration=5s"}, "--leader-elect-lease-duration: 5s is not above the renew deadline of 10s"},
		{"no room to record to", []string{"--cluster=x", "--record=f", "--record-max-files=0"}, "--record-max-files: 0 is not above 0"},
		{"a level that there is not", []string{"--cluster=x", "--log-level=loud"}, `--log-level: "loud"`},
		{"arguments", []string{"now"}, "unknown command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"agent", "kubernetes"}, tt.args...)...)
			if got.code != exitUsage || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("exit code %d, %q, want %q", got.code, got.stderr, tt.want)
			}
		})
	}
	got := run(t, "", "agent", "kubernetes", "--check", "--cluster=demo", "--kubeconfig="+config, "--insecure")
	if got.code != 0 || !strings.Contains(got.stdout, "cluster: \"demo\" # set") || strings.Contains(got.stdout, "secret-of-the-cluster") {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

func TestShadowReport(t *testing.T) {
	t.Parallel()
	ledger := shadow.NewLedger()
	for i := range 6 {
		ledger.Note(shadow.Key{Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: "web"}, "the built-in controller", shadow.Round{
			At: time.Unix(int64(1_700_000_000+15*i), 0), Period: 15 * time.Second, Ours: shadow.Side{Replicas: 5}, Theirs: shadow.Side{Replicas: 3},
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+shadowPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(ledger.Report(time.Unix(1_700_000_100, 0).UTC()))
	})
	admin := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- admin.Serve(listener) }()
	t.Cleanup(func() {
		_ = admin.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the stand-in for a server: %v", err)
		}
	})
	report := func(args ...string) result {
		return run(t, "", append([]string{"agent", "kubernetes", "--shadow", "--report", fmt.Sprint("--admin-address=", listener.Addr())}, args...)...)
	}
	text := report()
	for _, want := range []string{"HorizontalPodAutoscaler shop/web  the built-in controller  no      5 vs 3", "and goes on, 3 rounds, by up to 2: 5 here, 3 there"} {
		if text.code != 0 || !strings.Contains(text.stdout, want) {
			t.Errorf("exit code %d, want %q in\n%s%s", text.code, want, text.stdout, text.stderr)
		}
	}
	var back shadow.Report
	if err := json.Unmarshal([]byte(report("-o", "json").stdout), &back); err != nil || len(back.Objects) != 1 || back.Objects[0].Worst != 2 {
		t.Errorf("%v %+v", err, back)
	}
	nobody := run(t, "", "agent", "kubernetes", "--shadow", "--report", "--admin-address=127.0.0.1:1")
	if nobody.code != exitFailed || !strings.Contains(nobody.stderr, "no agent answers at --admin-address 127.0.0.1:1") {
		t.Errorf("exit code %d, %q", nobody.code, nobody.stderr)
	}
}
