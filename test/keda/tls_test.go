//go:build linux

package keda

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"

	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// issuer issues certificates.
type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	i := &issuer{certificate: template}
	i.pem, _, i.key = issue(t, template, i)
	var err error
	block, _ := pem.Decode([]byte(i.pem))
	if i.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return i
}

// issue returns a certificate and its key, by the issuer, or by itself where that has no key.
func issue(t *testing.T, template *x509.Certificate, by *issuer) (certificate, key string, private *ecdsa.PrivateKey) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := by.key
	if signer == nil {
		signer = private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, &private.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})), private
}

// holder issues a certificate to whoever has that name, as client and as server.
func (i *issuer) holder(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	certificate, key, _ = issue(t, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, i)
	return certificate, key
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// KEDA sends what a TriggerAuthentication has, and is known by its certificate: whoever has
// none, or one of another tenant, is told nothing.
func TestTLS(t *testing.T) {
	authority, stranger := newIssuer(t), newIssuer(t)
	certificate, key := authority.holder(t, "setpoint")
	s := service.Start(t,
		"--tls-cert-file="+write(t, "cert.pem", certificate), "--tls-key-file="+write(t, "key.pem", key),
		"--tls-client-ca-file="+write(t, "ca.pem", authority.pem), "--policy-file="+write(t, "policy.yaml", `
grants:
  - {identities: ["certificate:dns:shop"], clusters: [demo], namespaces: [shop], verbs: [recommend]}
  - {identities: ["certificate:dns:other"], clusters: [demo], namespaces: [other], verbs: [recommend]}
`))
	with := func(by *issuer, name string) func(*scalersconfig.ScalerConfig) {
		return func(c *scalersconfig.ScalerConfig) {
			c.AuthParams["caCert"] = authority.pem
			if by != nil {
				c.AuthParams["tlsClientCert"], c.AuthParams["tlsClientKey"] = by.holder(t, name)
			}
		}
	}
	for _, tt := range []struct {
		who    string
		change func(*scalersconfig.ScalerConfig)
		want   codes.Code
		spec   bool
	}{
		{"a holder with a grant", with(authority, "shop"), codes.NotFound, true}, // for nobody stored a spec
		{"a holder of another tenant", with(authority, "other"), codes.PermissionDenied, false},
		{"a holder whom nobody knows", with(authority, "somebody"), codes.PermissionDenied, false},
		{"who has no certificate", with(nil, ""), codes.Unauthenticated, false},
		{"who has a stranger's", with(stranger, "shop"), codes.Unavailable, false},
		{"who trusts another authority", func(c *scalersconfig.ScalerConfig) { c.AuthParams["caCert"] = stranger.pem }, codes.Unavailable, false},
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

// A token in the trigger's metadata, which KEDA sends as it is, says who calls where there is
// no certificate.
func TestTokensInMetadata(t *testing.T) {
	authority := newIssuer(t)
	certificate, key := authority.holder(t, "setpoint")
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
		"of-shop":  codes.NotFound, // for nobody stored a spec
		"of-other": codes.PermissionDenied,
		"unknown":  codes.Unauthenticated,
		"":         codes.Unauthenticated,
	} {
		scaler := external(t, scaledObject(s.GRPCAddr(), "web", func(c *scalersconfig.ScalerConfig) {
			c.AuthParams["caCert"] = authority.pem
			if token != "" {
				c.TriggerMetadata["token"] = token
			}
		}))
		if _, _, err := count(t, scaler); status.Code(err) != want {
			t.Errorf("with the token %q: %v, want %s", token, err, want)
		}
	}
}
