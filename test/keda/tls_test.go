//go:build linux

package keda

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"

	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// holder issues a certificate for that name, of a server and a client.
func holder(by *testpki.Authority, name string) (certificate, key string) {
	pair := by.Issue(name, func(c *x509.Certificate) { c.DNSNames = []string{name} })
	return string(pair.CertPEM()), string(pair.KeyPEM())
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// KEDA sends the contents of a TriggerAuthentication, and its certificate identifies it: a
// caller without one, or with another tenant's, gets nothing.
func TestTLS(t *testing.T) {
	authority, stranger := testpki.New("authority"), testpki.New("authority")
	certificate, key := holder(authority, "setpoint")
	s := service.Start(t,
		"--tls-cert-file="+write(t, "cert.pem", certificate), "--tls-key-file="+write(t, "key.pem", key),
		"--tls-client-ca-file="+write(t, "ca.pem", string(authority.CertPEM())), "--policy-file="+write(t, "policy.yaml", `
grants:
  - {identities: ["certificate:dns:shop"], clusters: [demo], namespaces: [shop], verbs: [recommend]}
  - {identities: ["certificate:dns:other"], clusters: [demo], namespaces: [other], verbs: [recommend]}
`))
	with := func(by *testpki.Authority, name string) func(*scalersconfig.ScalerConfig) {
		return func(c *scalersconfig.ScalerConfig) {
			c.AuthParams["caCert"] = string(authority.CertPEM())
			if by != nil {
				c.AuthParams["tlsClientCert"], c.AuthParams["tlsClientKey"] = holder(by, name)
			}
		}
	}
	for _, tt := range []struct {
		who    string
		change func(*scalersconfig.ScalerConfig)
		want   codes.Code
		spec   bool
	}{
		{"a holder with a grant", with(authority, "shop"), codes.NotFound, true}, // no spec is stored
		{"a holder of another tenant", with(authority, "other"), codes.PermissionDenied, false},
		{"a holder whom nobody knows", with(authority, "somebody"), codes.PermissionDenied, false},
		{"who has no certificate", with(nil, ""), codes.Unauthenticated, false},
		{"who has a stranger's", with(stranger, "shop"), codes.Unavailable, false},
		{"who trusts another authority", func(c *scalersconfig.ScalerConfig) { c.AuthParams["caCert"] = string(stranger.CertPEM()) }, codes.Unavailable, false},
		{"who speaks in the clear", func(*scalersconfig.ScalerConfig) {}, codes.Unavailable, false},
	} {
		scaler := external(t, scaledObject(s.GRPCAddr(), "web", tt.change))
		if _, _, err := count(t, scaler); status.Code(err) != tt.want {
			t.Errorf("%s: %v, want %s", tt.who, err, tt.want)
		}
		if got := len(scaler.GetMetricSpecForScaling(t.Context())); (got == 1) != tt.spec {
			t.Errorf("%s has %d metric specs", tt.who, got)
		}
	}
}

// A token in the trigger's metadata, which KEDA sends unchanged, identifies a caller without a
// certificate.
func TestTokensInMetadata(t *testing.T) {
	authority := testpki.New("authority")
	certificate, key := holder(authority, "setpoint")
	digest := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])
	}
	s := service.Start(t,
		"--tls-cert-file="+write(t, "cert.pem", certificate), "--tls-key-file="+write(t, "key.pem", key), "--keda-metadata-tokens",
		"--auth-tokens-file="+write(t, "tokens.yaml", fmt.Sprintf("tokens:\n  - {identity: shop, sha256: %q}\n  - {identity: other, sha256: %q}\n", digest("of-shop"), digest("of-other"))),
		"--policy-file="+write(t, "policy.yaml", `
grants:
  - {identities: ["token:shop"], clusters: [demo], namespaces: [shop], verbs: [recommend]}
  - {identities: ["token:other"], clusters: [demo], namespaces: [other], verbs: [recommend]}
`))
	for token, want := range map[string]codes.Code{
		"of-shop":  codes.NotFound, // no spec is stored
		"of-other": codes.PermissionDenied,
		"unknown":  codes.Unauthenticated,
		"":         codes.Unauthenticated,
	} {
		scaler := external(t, scaledObject(s.GRPCAddr(), "web", func(c *scalersconfig.ScalerConfig) {
			c.AuthParams["caCert"] = string(authority.CertPEM())
			if token != "" {
				c.TriggerMetadata["token"] = token
			}
		}))
		if _, _, err := count(t, scaler); status.Code(err) != want {
			t.Errorf("with the token %q: %v, want %s", token, err, want)
		}
	}
}
