package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/server/auth"
)

func BenchmarkAuthenticate(b *testing.B) {
	rsaKey, ecKey := newKey(b, "rsa", jose.RS256), newKey(b, "ec", jose.ES256)
	i := newIssuer(b, rsaKey, ecKey)
	tokens, oidc := write(b, "tokens.yaml", entry("ci", "sp_x", "")), i.file(b)
	a := start(b, auth.Options{Certificates: true, TokensFile: tokens, OIDCFile: oidc})
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "agent"}, NotAfter: time.Now().Add(time.Hour)}
	chain := []*x509.Certificate{leaf, {NotAfter: time.Now().Add(time.Hour)}}
	state := &tls.ConnectionState{PeerCertificates: chain[:1], VerifiedChains: [][]*x509.Certificate{chain}}
	tests := []struct {
		name   string
		c      auth.Credentials
		forget bool
	}{
		{"token", bearer("sp_x"), false},
		{"certificate", auth.Credentials{TLS: state}, false},
		{"JWT remembered", bearer(rsaKey.sign(b, i.claims())), false},
		{"JWT by RS256", bearer(rsaKey.sign(b, i.claims("sub", "rsa"))), true},
		{"JWT by ES256", bearer(ecKey.sign(b, i.claims("sub", "ec"))), true},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Authenticate(b.Context(), tt.c); err != nil {
					b.Fatal(err)
				}
				if tt.forget {
					b.StopTimer()
					if err := a.Reload(); err != nil { // forgets all JWTs
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
	}
	b.Run("unknown token", func(b *testing.B) {
		b.ReportAllocs()
		unknown := bearer("sp_y")
		for b.Loop() {
			if _, err := a.Authenticate(b.Context(), unknown); err == nil {
				b.Fatal("let in")
			}
		}
	})
}
