package serve

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/certs"
)

// gathered returns an edge's metrics: values by name and labels, name{label=value,…}.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	fatal.If(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName()
			if labels != nil {
				slices.Sort(labels)
				name += "{" + strings.Join(labels, ",") + "}"
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

const aPolicy = "grants:\n  - {identities: [\"token:*\"], clusters: [\"*\"], verbs: [\"*\"]}\n"

func TestTheEdgeIsCounted(t *testing.T) {
	t.Parallel()
	notAfter := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	var s edgeSettings
	s.TLS.CertFile, s.TLS.KeyFile = clitest.Certificate(t, t.TempDir(), notAfter)
	s.TLS.CAFile = s.TLS.CertFile
	s.Auth.TokensFile = clitest.File(t, "tokens.yaml", "tokens:\n  - {identity: a, sha256: "+strings.Repeat("0f", 32)+"}\n"+
		"  - {identity: a, sha256: "+strings.Repeat("1f", 32)+", expires: 2027-01-01T00:00:00Z}\n"+
		"  - {identity: b, sha256: "+strings.Repeat("2f", 32)+", expires: 2028-01-01T00:00:00Z}\n"+
		"  - {identity: b, sha256: "+strings.Repeat("3f", 32)+", expires: 2027-01-01T00:00:00Z}\n")
	s.Auth.OIDCFile = clitest.File(t, "oidc.yaml", "issuers:\n  - {issuer: \"http://127.0.0.1:1\", audiences: [setpoint]}\n")
	s.PolicyFile = clitest.File(t, "policy.yaml", aPolicy)
	began := time.Now()
	edge, err := s.open(zap.NewNop(), 0)
	fatal.If(t, err)
	defer edge.close()
	for range 3 {
		if _, err := edge.access.Authenticator.Authenticate(t.Context(), auth.Credentials{Authorization: []string{"Bearer sp_wrong"}}); err == nil {
			t.Fatal("an unknown token is accepted")
		}
	}
	fatal.If(t, os.WriteFile(s.PolicyFile, []byte("grants: 7\n"), 0o600))
	if err := edge.access.Policy.Reload(); err == nil {
		t.Fatal("a broken policy is taken")
	}
	got := gathered(t, edge.counts)
	for name, want := range map[string]float64{
		"setpoint_certificate_expiry_timestamp_seconds{certificate=server}":    float64(notAfter.Unix()),
		"setpoint_certificate_expiry_timestamp_seconds{certificate=client_ca}": float64(notAfter.Unix()),
		"setpoint_auth_tokens": 4,
		"setpoint_auth_token_expiry_timestamp_seconds{identity=token:b}":                       float64(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC).Unix()),
		"setpoint_auth_failures_total{reason=unknown_token}":                                   3,
		"setpoint_auth_failures_total{reason=expired}":                                         0,
		"setpoint_auth_issuer_keys{issuer=http://127.0.0.1:1}":                                 0,
		"setpoint_file_reloads_total{file=policy,outcome=failure}":                             1,
		"setpoint_file_reloads_total{file=policy,outcome=success}":                             0,
		"setpoint_file_reloads_total{file=tokens,outcome=success}":                             0,
		"setpoint_file_reloads_total{file=certificates,outcome=failure}":                       0,
		"setpoint_file_last_reload_successful{file=policy}":                                    0,
		"setpoint_file_last_reload_successful{file=tokens}":                                    1,
		"setpoint_file_last_reload_successful{file=issuers}":                                   1,
		"setpoint_file_last_reload_successful{file=certificates}":                              1,
		"setpoint_auth_issuer_last_fetch_success_timestamp_seconds{issuer=http://127.0.0.1:1}": 0,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v (there: %v), want %v", name, value, there, want)
		}
	}
	if at, there := got["setpoint_auth_token_expiry_timestamp_seconds{identity=token:a}"]; there {
		t.Errorf("a token that never expires is said to expire at %v", at)
	}
	for _, name := range []string{"policy", "tokens", "issuers", "certificates"} {
		if at := got["setpoint_file_last_reload_success_timestamp_seconds{file="+name+"}"]; at < float64(began.Unix()) || at > float64(time.Now().Unix()+1) {
			t.Errorf("%s was taken at %v", name, at)
		}
	}
	fatal.If(t, os.WriteFile(s.PolicyFile, []byte(aPolicy+"\n"), 0o600))
	fatal.If(t, edge.access.Policy.Reload())
	got = gathered(t, edge.counts)
	if got["setpoint_file_last_reload_successful{file=policy}"] != 1 || got["setpoint_file_reloads_total{file=policy,outcome=success}"] != 1 {
		t.Errorf("the mended policy is not told: %v", got)
	}
}

// Unused parts have no series: an alert on an absent certificate would never end.
func TestAnEdgeThatIsNotUsedIsNotCounted(t *testing.T) {
	t.Parallel()
	var s edgeSettings
	edge, err := s.open(zap.NewNop(), 0)
	fatal.If(t, err)
	defer edge.close()
	if got := gathered(t, edge.counts); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	s.Auth.TokensFile = clitest.File(t, "tokens.yaml", "tokens: []\n")
	tokensOnly, err := s.open(zap.NewNop(), 0)
	fatal.If(t, err)
	defer tokensOnly.close()
	for name := range gathered(t, tokensOnly.counts) {
		if !strings.HasPrefix(name, "setpoint_auth_failures_total{") && !strings.Contains(name, "{file=tokens") && name != "setpoint_auth_tokens" {
			t.Errorf("%s is there", name)
		}
	}
}

// The files are checked at the documented interval.
func TestTheFilesAreLookedAtAsOftenAsIsSaid(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../../docs/operate/security.md")
	for what, interval := range map[string]time.Duration{"certificates": certs.DefaultInterval, "other files": files.DefaultInterval} {
		if interval != 5*time.Second || !strings.Contains(page, "checks these files and the TLS files every 5 seconds") {
			t.Errorf("%s are looked at every %s", what, interval)
		}
	}
}

// A revoked certificate is a failed authentication, whether a handshake refuses it or a call.
func TestRefusedHandshakesAreCounted(t *testing.T) {
	t.Parallel()
	got := gathered(t, edgeCollector{
		certs: func() certs.Status { return certs.Status{Refused: 2} },
		auth:  func() auth.Stats { return auth.Stats{Refused: map[auth.Reason]uint64{auth.ReasonRevoked: 1}} },
	})
	if n := got["setpoint_auth_failures_total{reason=revoked_certificate}"]; n != 3 {
		t.Errorf("%v are counted, want 3", n)
	}
}
