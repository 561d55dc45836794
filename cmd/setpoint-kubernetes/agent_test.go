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

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret-of-the-cluster}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// HorizontalPodAutoscalers name no sources: an agent of these alone says that it has none.
func TestSourcesWithoutEffectAreTold(t *testing.T) {
	t.Parallel()
	config := clitest.File(t, "kubeconfig", kubeconfig)
	sources := clitest.File(t, "sources.yaml", "sources: {prom: {prometheus: {url: 'http://127.0.0.1:1'}}}")
	for source, told := range map[string]bool{"--source=hpa": true, "--shadow": true, "--source=autoscaler": false, "--source=both": false} {
		got := run(t, "", "agent", "--check", "--cluster=x", "--insecure", "--kubeconfig="+config, source, "--sources-file="+sources)
		if got.Code != 0 || strings.Contains(got.Stderr, "--sources-file has no effect without --source=autoscaler or both") != told {
			t.Errorf("%s: exit code %d: %s", source, got.Code, got.Stderr)
		}
	}
}

func TestAgentSettingsAreChecked(t *testing.T) {
	t.Parallel()
	config := clitest.File(t, "kubeconfig", kubeconfig)
	for _, tt := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"the cluster is required", nil, "--cluster: is required", cli.ExitSettings},
		{"a cluster that is a path", []string{"--cluster=a/b"}, `--cluster: cluster "a/b"`, cli.ExitSettings},
		{"no source", []string{"--cluster=x"}, "--source: is required: hpa acts on HorizontalPodAutoscalers, for which the built-in controller must be off, autoscaler on Autoscalers", cli.ExitSettings},
		{"what to do about rivals that there is not", []string{"--cluster=x", "--source=hpa", "--on-rival=fight"}, `--on-rival: "fight" is not one of give-way, keep-on`, cli.ExitSettings},
		{"a source that there is not", []string{"--cluster=x", "--source=cronjob"}, `--source: "cronjob" is not one of hpa, autoscaler, both`, cli.ExitSettings},
		{"a period that is too short", []string{"--cluster=x", "--source=hpa", "--sync-period=100ms"}, "--sync-period: 100ms is not from 1s to 1h", cli.ExitSettings},
		{"no workers", []string{"--cluster=x", "--source=hpa", "--workers=0"}, "--workers: 0 is not above 0", cli.ExitSettings},
		{"half a certificate", []string{"--cluster=x", "--source=hpa", "--tls-cert-file=x.pem"}, "--tls-cert-file: must be given together with --tls-key-file", cli.ExitSettings},
		{"TLS without TLS", []string{"--cluster=x", "--source=hpa", "--insecure", "--tls-ca-file=x.pem"}, "--insecure: contradicts the --tls flags", cli.ExitSettings},
		{"a token in the clear", []string{"--cluster=x", "--source=hpa", "--server=setpoint:9090", "--insecure", "--token-file=x"}, "--insecure: would send the token", cli.ExitSettings},
		{"a CA that is not there", []string{"--cluster=x", "--source=hpa", "--check", "--kubeconfig=" + config, "--tls-ca-file=nowhere.pem"}, "open nowhere.pem", cli.ExitUsage},
		{"a token that is not there", []string{"--cluster=x", "--source=hpa", "--check", "--kubeconfig=" + config, "--token-file=nowhere"}, "--token-file: stat nowhere: no such file", cli.ExitUsage},
		{"a kubeconfig that is not there", []string{"--cluster=x", "--source=hpa", "--check", "--kubeconfig=nowhere"}, "--kubeconfig: stat nowhere", cli.ExitUsage},
		{"a kubeconfig of nothing", []string{"--cluster=x", "--source=hpa", "--check", "--kubeconfig=" + clitest.File(t, "empty", "")}, "--kubeconfig: no cluster is configured: give --kubeconfig, or set $KUBECONFIG; a pod needs", cli.ExitUsage},
		{"a context that is not there", []string{"--cluster=x", "--source=hpa", "--check", "--kubeconfig=" + config, "--context=y"}, `--kubeconfig: context "y" does not exist`, cli.ExitUsage},
		{"times of the election in the wrong order", []string{"--cluster=x", "--source=hpa", "--leader-elect", "--leader-elect-lease-duration=5s"}, "--leader-elect-lease-duration: 5s is not above the renew deadline of 10s", cli.ExitSettings},
		{"a Lease of no second", []string{"--cluster=x", "--source=hpa", "--leader-elect", "--leader-elect-lease-duration=900ms", "--leader-elect-renew-deadline=600ms", "--leader-elect-retry-period=200ms"}, "--leader-elect-lease-duration: 900ms is below 1s", cli.ExitSettings},
		{"a Lease without a name", []string{"--cluster=x", "--source=hpa", "--leader-elect", "--leader-elect-name="}, "--leader-elect-name: is required with --leader-elect", cli.ExitSettings},
		{"an empty namespace", []string{"--cluster=x", "--source=hpa", "--namespace=,"}, "--namespace: ", cli.ExitSettings},
		{"no room to record to", []string{"--cluster=x", "--source=hpa", "--record=f", "--record-max-files=0"}, "--record-max-files: 0 is not above 0", cli.ExitSettings},
		{"a level that there is not", []string{"--cluster=x", "--source=hpa", "--log-level=loud"}, `--log-level: "loud"`, cli.ExitSettings},
		{"arguments", []string{"now"}, "unexpected argument", cli.ExitSettings},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"agent"}, tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) {
				t.Errorf("exit code %d, %q, want %q", got.Code, got.Stderr, tt.want)
			}
		})
	}
	got := run(t, "", "agent", "--check", "--cluster=demo", "--source=autoscaler", "--kubeconfig="+config, "--insecure")
	if got.Code != 0 || !strings.Contains(got.Stdout, "cluster: \"demo\" # set") || strings.Contains(got.Stdout, "secret-of-the-cluster") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// A profile brings its version's period, unless the user sets one, under whichever name.
func TestProfilesBringTheirPeriods(t *testing.T) {
	t.Parallel()
	periods := func(args ...string) map[string]time.Duration {
		s, all, flags := defaults(), agentcmd.Defaults(), pflag.NewFlagSet("agent", pflag.ContinueOnError)
		all.List(s.list()).Bind(flags)
		changeFlags(flags)
		s.Settings = &all
		fatal.If(t, flags.Parse(args))
		return s.options(&agentcmd.Parts{Settings: &all, Flags: flags}).ProfilePeriods
	}
	usual := periods()
	for profile, want := range map[string]time.Duration{"v1.36": 15 * time.Second, "v1.15": 15 * time.Second, "cooldown": 30 * time.Second, "design-2015": 30 * time.Second} {
		if got := usual[profile]; got != want {
			t.Errorf("%s: %s, want %s", profile, got, want)
		}
	}
	for _, flag := range []string{"--sync-period=15s", "--horizontal-pod-autoscaler-sync-period=15s"} {
		if got := periods(flag); got != nil {
			t.Errorf("with %s: %v", flag, got)
		}
	}
}

func TestShadowReport(t *testing.T) {
	t.Parallel()
	ledger := shadow.NewLedger()
	for i := range 6 {
		ledger.Note(shadow.Key{Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: "web"}, "the built-in controller", shadow.Reconcile{
			At: time.Unix(int64(1_700_000_000+15*i), 0), Period: 15 * time.Second, Ours: shadow.Side{Replicas: 5}, Theirs: shadow.Side{Replicas: 3},
		})
	}
	ledger.Note(shadow.Key{Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: "api"}, "the built-in controller",
		shadow.Reconcile{At: time.Unix(1_700_000_000, 0), Period: 15 * time.Second})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentcmd.ShadowPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(ledger.Report(time.Unix(1_700_000_100, 0).UTC()))
	})
	admin := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- admin.Serve(listener) }()
	t.Cleanup(func() {
		_ = admin.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the stand-in for a server: %v", err)
		}
	})
	report := func(args ...string) clitest.Result {
		return run(t, "", append([]string{"agent", "--shadow", "--report", fmt.Sprint("--admin-address=", listener.Addr())}, args...)...)
	}
	text := report()
	for _, want := range []string{"HorizontalPodAutoscaler shop/web  the built-in controller  no      5 vs 3", "and goes on, 3 reconciles, by up to 2: 5 here, 3 there"} {
		if text.Code != 0 || !strings.Contains(text.Stdout, want) {
			t.Errorf("exit code %d, want %q in\n%s%s", text.Code, want, text.Stdout, text.Stderr)
		}
	}
	var back shadow.Report
	if err := json.Unmarshal([]byte(report("-o", "json").Stdout), &back); err != nil || len(back.Objects) != 2 || back.Objects[1].Worst != 2 {
		t.Errorf("%v %+v", err, back)
	}
	back = shadow.Report{}
	if err := json.Unmarshal([]byte(report("--report-differing", "-o", "json").Stdout), &back); err != nil || len(back.Objects) != 1 || back.Objects[0].Name != "web" {
		t.Errorf("of what differs: %v %+v", err, back)
	}
	differing := run(t, "", "agent", "--report-differing", fmt.Sprint("--admin-address=", listener.Addr()))
	const want = "HorizontalPodAutoscaler shop/web  no      5 vs 3  2   3 of 3      5 here, 3 there; "
	if differing.Code != 0 || !strings.Contains(differing.Stdout, want) || strings.Contains(differing.Stdout, "shop/api") ||
		!strings.HasSuffix(differing.Stdout, "\n1 of 2 shadows differ or did. 0 can't be compared now.\n") {
		t.Errorf("exit code %d, want %q in\n%s%s", differing.Code, want, differing.Stdout, differing.Stderr)
	}
	nobody := run(t, "", "agent", "--shadow", "--report", "--admin-address=127.0.0.1:1")
	if nobody.Code != cli.ExitFailed || !strings.Contains(nobody.Stderr, "no agent answers at --admin-address 127.0.0.1:1") {
		t.Errorf("exit code %d, %q", nobody.Code, nobody.Stderr)
	}
}
