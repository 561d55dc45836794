package agentcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// guarded serves with TLS, a token "secret" and a grant in namespaces of cluster demo, and returns its address
// and the file of its authority.
func guarded(t *testing.T, namespace, verbs string) (address, caFile string) {
	t.Helper()
	ca := testpki.New("authority")
	caFile = clitest.File(t, "ca.crt", string(ca.CertPEM()))
	// The SHA-256 of "secret".
	tokens := "tokens:\n- identity: agent\n  sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n"
	authenticator, err := auth.New(auth.Options{TokensFile: clitest.File(t, "tokens.yaml", tokens)})
	fatal.If(t, err)
	t.Cleanup(authenticator.Close)
	grants, err := policy.Open(clitest.File(t, "policy.yaml",
		fmt.Sprintf("grants:\n- identities: [\"token:agent\"]\n  clusters: [demo]\n  namespaces: [%q]\n  verbs: [%s]\n", namespace, verbs)), files.Options{})
	fatal.If(t, err)
	options := server.DefaultOptions()
	options.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("server").TLS()}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	options.Access = &server.Access{Authenticator: authenticator, Policy: grants}
	_, port, _ := net.SplitHostPort(clitest.StartServerWith(t, options))
	return "localhost:" + port, caFile
}

func TestDoctorSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	address, ca := guarded(t, "*", "recommend, delete")
	few, caOfFew := guarded(t, "*", "recommend")
	open := clitest.StartServer(t)
	_, openPort, _ := net.SplitHostPort(open)
	token := clitest.File(t, "token", "secret")
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	free := nobody.Addr().String()
	_ = nobody.Close()
	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"all is well", []string{"--server=" + address, "--tls-ca-file=" + ca, "--token-file=" + token, "--cluster=demo"}, 0, []string{
			"ok       service      " + address + " answers after",
			"ok       health       the service is ready",
			"ok       tls          the certificate is trusted, of localhost",
			"ok       token        the service knows the caller as token:agent",
			"ok       cluster      the caller may recommend and delete in cluster demo, namespaces *",
			"ok       clock        the service's clock differs by",
			"ok       fake         as it must be", "no problem found",
		}},
		{"an open service", []string{"--server=" + open, "--insecure", "--cluster=any"}, 0, []string{
			"ok       tls          not used (--insecure)", "everybody may do everything", "may recommend and delete in cluster any",
		}},
		{"nobody is there", []string{"--server=" + free, "--insecure", "--cluster=demo"}, 1, []string{
			"PROBLEM  service      " + free + " does not answer", "connection refused", "→ is the service running there",
			"skipped  cluster      not checked, because of the problem with: token", "ok       fake", "1 problem found",
		}},
		{"an unknown authority", []string{"--server=" + address, "--tls-ca-file=" + caOfFew, "--token-file=" + token, "--cluster=demo"}, 1, []string{"unknown authority", "→ --tls-ca-file must have the CA"}},
		{"another name", []string{"--server=" + strings.Replace(address, "localhost", "127.0.0.1", 1), "--tls-server-name=setpoint", "--tls-ca-file=" + ca, "--cluster=demo"}, 1, []string{"→ use one of these names in --server"}},
		{"TLS is not spoken", []string{"--server=" + address, "--insecure", "--cluster=demo"}, 1, []string{"→ the service may talk TLS only"}},
		{"TLS is asked for", []string{"--server=localhost:" + openPort, "--tls-ca-file=" + ca, "--cluster=demo"}, 1, []string{"→ the service talks without TLS: --insecure"}},
		{"no token", []string{"--server=" + address, "--tls-ca-file=" + ca, "--cluster=demo"}, 1, []string{
			"ok       service", "PROBLEM  token        the service refuses the caller: a bearer token is needed", "→ set --token-file",
		}},
		{"another token", []string{"--server=" + address, "--tls-ca-file=" + ca, "--cluster=demo", "--token-file=" + clitest.File(t, "other", "other")}, 1, []string{
			"→ the service's tokens file must have the token of --token-file",
		}},
		{"another cluster", []string{"--server=" + address, "--tls-ca-file=" + ca, "--token-file=" + token, "--cluster=prod"}, 1, []string{
			"PROBLEM  cluster      the policy lets the caller recommend for clusters demo, not for prod",
		}},
		{"it may not delete", []string{"--server=" + few, "--tls-ca-file=" + caOfFew, "--token-file=" + token, "--cluster=demo"}, 0, []string{"note     cluster      the caller may recommend in cluster demo, but not delete"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			platform := fake(&agenttest.Fake{})
			platform.Checks = []doctor.Check{{Name: "fake", Run: func(context.Context) []doctor.Finding { return doctor.Good("as it must be") }}}
			result := clitest.Run(t, root(program(platform)), "", append([]string{"doctor", "--request-timeout=5s"}, tt.args...)...)
			if result.Code != tt.code {
				t.Errorf("exit code %d, want %d", result.Code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(result.Stdout, want) {
					t.Errorf("missing: %s", want)
				}
			}
			if t.Failed() {
				t.Log(result.Stdout, result.Stderr)
			}
		})
	}
}

// What the service refuses is a problem before the agent runs, and each object is named.
func TestDoctorNamesWhatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	spec := func(most int32) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: most, MinReplicas: new(int32(2))}}
	}
	late := spec(3)
	late.Stages = &setpointv1.Stages{Schedules: []*setpointv1.Schedule{{Name: "never", TimeZone: "UTC", Cron: "0 0 30 2 *", Duration: durationpb.New(time.Hour), MinReplicas: new(int32(2))}}}
	key := func(name string) agent.Key { return agent.Key{Kind: "service", Namespace: "shop", Name: name} }
	good := Ask{key("good"), spec(3)}
	for _, tt := range []struct {
		name string
		asks []Ask
		code int
		want []string
	}{
		{"nothing", nil, 0, nil},
		{"all are right", []Ask{good, {key("too"), spec(5)}}, 0, []string{"ok       specs        the service accepts what 2 objects set"}},
		{"two are not", []Ask{{key("few"), spec(1)}, good, {key("late"), late}}, 1, []string{
			"PROBLEM  specs        the service refuses what shop/few sets: spec.maxReplicas: ", "PROBLEM  specs        the service refuses what shop/late sets: stages.schedules[0].cron: ", "2 problems found",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			platform := fake(&agenttest.Fake{})
			platform.Asks = func(context.Context) []Ask { return tt.asks }
			result := clitest.Run(t, root(program(platform)), "", "doctor", "--request-timeout=5s", "--server="+clitest.StartServer(t), "--insecure", "--cluster=demo")
			if result.Code != tt.code || tt.asks == nil && strings.Contains(result.Stdout, "specs") {
				t.Errorf("exit code %d, want %d", result.Code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(result.Stdout, want) {
					t.Errorf("missing: %s", want)
				}
			}
			if t.Failed() {
				t.Log(result.Stdout, result.Stderr)
			}
		})
	}
}

// What the policy does not let the agent ask is no fault of the object, and where that is all, one problem says so.
func TestDoctorNamesWhatThePolicyRefuses(t *testing.T) {
	t.Parallel()
	address, ca := guarded(t, "shop", "recommend, delete")
	token := clitest.File(t, "token", "secret")
	for cluster, want := range map[string]string{
		"demo": "PROBLEM  specs        the service does not decide about other/web: ",
		"prod": "skipped  specs        not checked, because of the problem with: cluster",
	} {
		platform := fake(&agenttest.Fake{})
		platform.Asks = func(context.Context) (asks []Ask) {
			for _, namespace := range []string{"shop", "other"} {
				asks = append(asks, Ask{agent.Key{Kind: "service", Namespace: namespace, Name: "web"}, &setpointv1.RecommendRequest{Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 3}}})
			}
			return asks
		}
		result := clitest.Run(t, root(program(platform)), "", "doctor", "--request-timeout=5s", "--server="+address, "--tls-ca-file="+ca, "--token-file="+token, "--cluster="+cluster)
		if !strings.Contains(result.Stdout, want) || !strings.Contains(result.Stdout, "1 problem found") || strings.Contains(result.Stdout, "correct it there") {
			t.Errorf("%s: missing %s in\n%s%s", cluster, want, result.Stdout, result.Stderr)
		}
	}
}

// Only Kubernetes has NetworkPolicies.
func TestRemediesAreThoseOfThePlatform(t *testing.T) {
	t.Parallel()
	a := asked{unresolved: "look at the swarm's names", unanswered: "look at the swarm's ports"}
	for text, want := range map[string]string{"lookup server: no such host": a.unresolved, "code = DeadlineExceeded": a.unanswered} {
		if got := a.remedy(errors.New(text)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestDoctorComparesClocks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		ahead time.Duration
		want  doctor.Level
	}{
		{0, doctor.OK}, {maxSkew, doctor.OK}, {-time.Minute, doctor.Note}, {time.Minute, doctor.Note},
		{setpoint.MaxClockSkew + 2*time.Second, doctor.Problem}, {-time.Hour, doctor.Problem},
	} {
		a := asked{began: now, took: time.Second, caller: &setpointv1.Caller{CurrentTime: timestamppb.New(now.Add(tt.ahead))}}
		if got := a.clock(t.Context()); got[0].Level != tt.want {
			t.Errorf("%s ahead: %+v, want %s", tt.ahead, got, tt.want)
		}
	}
}

// A service that is not ready lacks its store, or ends soon.
func TestDoctorTellsAServiceThatIsNotReady(t *testing.T) {
	t.Parallel()
	a := asked{state: &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}}
	if got := a.health(t.Context()); got[0].Level != doctor.Problem || !strings.Contains(got[0].Text, "Redis") || !strings.Contains(got[0].Text, "about to stop") {
		t.Errorf("%+v", got)
	}
	a = asked{stateErr: status.Error(codes.Unimplemented, "unknown service")}
	if got := a.health(t.Context()); got[0].Level != doctor.Note {
		t.Errorf("%+v", got)
	}
}
