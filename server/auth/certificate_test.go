package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server/auth"
)

// bubble is when synctest bubbles begin.
var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newAuthority() *testpki.Authority {
	return testpki.New("authority", testpki.Valid(bubble.AddDate(-1, 0, 0), bubble.AddDate(100, 0, 0)))
}

// issue issues a certificate that is valid in bubbles unless the template says otherwise.
func issue(by *testpki.Authority, template x509.Certificate) *testpki.Pair {
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = bubble.Add(-time.Hour), bubble.AddDate(100, 0, 0)
	}
	return by.Issue("", func(c *x509.Certificate) { *c = template })
}

// handshake returns the server's state of a connection after a real handshake with a
// client, where the server trusts ca, over the network at the start time of bubbles.
func handshake(t *testing.T, ca *testpki.Authority, ask tls.ClientAuthType, client *testpki.Pair) (*tls.ConnectionState, error) {
	t.Helper()
	server := issue(ca, x509.Certificate{DNSNames: []string{"setpoint"}})
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{server.TLS()}, ClientAuth: ask, ClientCAs: ca.Pool(), Time: func() time.Time { return bubble },
	})
	fatal.If(t, err)
	defer listener.Close()
	config := &tls.Config{ServerName: "setpoint", RootCAs: ca.Pool(), Time: func() time.Time { return bubble }}
	if client != nil {
		config.Certificates = []tls.Certificate{client.TLS()}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		connection, err := tls.Dial("tcp", listener.Addr().String(), config)
		if err == nil {
			_, _ = connection.Read(make([]byte, 1))
			_ = connection.Close()
		}
	}()
	connection, err := listener.Accept()
	fatal.If(t, err)
	err = connection.(*tls.Conn).HandshakeContext(t.Context())
	state := connection.(*tls.Conn).ConnectionState()
	_ = connection.Close()
	<-done
	return &state, err
}

func forClients(template x509.Certificate) x509.Certificate {
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return template
}

func TestCertificates(t *testing.T) {
	ca := newAuthority()
	spiffe, _ := url.Parse("spiffe://example.com/ns/shop/sa/agent")
	second, _ := url.Parse("spiffe://example.com/second")
	all := x509.Certificate{Subject: pkix.Name{CommonName: "agent"}, DNSNames: []string{"agent.shop.svc", "b"}, URIs: []*url.URL{spiffe, second}}
	tests := []struct {
		name     string
		template x509.Certificate
		kinds    []auth.NameKind
		want     string // "": refused as unnamed
	}{
		{"a URI comes first", all, nil, "certificate:uri:spiffe://example.com/ns/shop/sa/agent"},
		{"then a DNS name", x509.Certificate{Subject: all.Subject, DNSNames: all.DNSNames}, nil, "certificate:dns:agent.shop.svc"},
		{"then the common name", x509.Certificate{Subject: all.Subject}, nil, "certificate:cn:agent"},
		{"a common name can't pass for a URI", x509.Certificate{Subject: pkix.Name{CommonName: spiffe.String()}}, nil, "certificate:cn:spiffe://example.com/ns/shop/sa/agent"},
		{"a common name can't pass for a token", x509.Certificate{Subject: pkix.Name{CommonName: "token:ci"}}, nil, "certificate:cn:token:ci"},
		{"kinds may be others", all, []auth.NameKind{auth.CommonName, auth.URIName}, "certificate:cn:agent"},
		{"a kind that is not wanted", x509.Certificate{Subject: all.Subject, DNSNames: all.DNSNames}, []auth.NameKind{auth.URIName}, ""},
		{"no name", x509.Certificate{Subject: pkix.Name{Organization: []string{"shop"}}}, nil, ""},
		{"of a DNS name that is too long, another kind is no substitute", x509.Certificate{Subject: all.Subject, DNSNames: []string{strings.Repeat("long.", 300)}}, nil, ""},
		{"a name that would break log lines", x509.Certificate{Subject: pkix.Name{CommonName: "agent\nroot"}}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := issue(ca, forClients(tt.template))
			state, err := handshake(t, ca, tls.RequireAndVerifyClientCert, client)
			fatal.If(t, err)
			synctest.Test(t, func(t *testing.T) {
				a := start(t, auth.Options{Certificates: true, CertificateNames: tt.kinds})
				c := auth.Credentials{TLS: state, Authorization: []string{"Basic abc"}} // which nobody has asked for
				if tt.want == "" {
					if err := refusal(t, a, c, auth.ReasonUnnamed); !strings.Contains(err.Error(), "printable") { // it may have a name
						t.Error(err)
					}
				} else {
					wantName(t, a, c, tt.want)
				}
			})
		})
	}
}

func TestCertificatesThatProveNothing(t *testing.T) {
	ca, stranger := newAuthority(), newAuthority()
	template := forClients(x509.Certificate{Subject: pkix.Name{CommonName: "agent"}})
	foreign := issue(stranger, template)
	forServers := issue(ca, x509.Certificate{Subject: template.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	synctest.Test(t, func(t *testing.T) {
		a := start(t, auth.Options{Certificates: true})
		wantReason(t, a, auth.Credentials{}, auth.ReasonMissing)
	})
	t.Run("none was sent", func(t *testing.T) {
		state, err := handshake(t, ca, tls.VerifyClientCertIfGiven, nil)
		fatal.If(t, err)
		wantReason(t, start(t, auth.Options{Certificates: true}), auth.Credentials{TLS: state}, auth.ReasonMissing)
		wantName(t, start(t, auth.Options{Certificates: true, AllowAnonymous: true}), auth.Credentials{TLS: state}, "anonymous")
	})
	t.Run("the listener did not verify it", func(t *testing.T) {
		state, err := handshake(t, ca, tls.RequestClientCert, foreign)
		fatal.If(t, err)
		a := start(t, auth.Options{Certificates: true, AllowAnonymous: true})
		wantReason(t, a, auth.Credentials{TLS: state}, auth.ReasonUnverified)
		wantName(t, start(t, auth.Options{}), auth.Credentials{TLS: state}, "anonymous")
	})
	t.Run("by another authority, and for servers: the handshake fails", func(t *testing.T) {
		for _, client := range []*testpki.Pair{foreign, forServers} {
			if _, err := handshake(t, ca, tls.VerifyClientCertIfGiven, client); err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Errorf("got %v", err)
			}
		}
	})
	t.Run("the connection outlives it", func(t *testing.T) {
		template := template
		template.NotBefore, template.NotAfter = bubble.Add(-time.Hour), bubble.Add(time.Hour)
		short := issue(ca, template)
		state, err := handshake(t, ca, tls.RequireAndVerifyClientCert, short)
		fatal.If(t, err)
		synctest.Test(t, func(t *testing.T) {
			a := start(t, auth.Options{Certificates: true})
			identity, err := a.Authenticate(t.Context(), auth.Credentials{TLS: state})
			if err != nil || !identity.Expires.Equal(bubble.Add(time.Hour)) || identity.Method != auth.MethodCertificate {
				t.Fatalf("got %+v, %v", identity, err)
			}
			time.Sleep(time.Hour)
			wantName(t, a, auth.Credentials{TLS: state}, "certificate:cn:agent")
			time.Sleep(time.Second)
			failure := refusal(t, a, auth.Credentials{TLS: state}, auth.ReasonExpired)
			if !strings.Contains(failure.Error(), "expired at 2000-01-01T01:00:00Z") {
				t.Errorf("got %v", failure)
			}
		})
	})
}

func TestATokenComesBeforeACertificate(t *testing.T) {
	ca := newAuthority()
	client := issue(ca, forClients(x509.Certificate{Subject: pkix.Name{CommonName: "mesh"}}))
	state, err := handshake(t, ca, tls.RequireAndVerifyClientCert, client)
	fatal.If(t, err)
	file := write(t, "tokens.yaml", entry("ci", "sp_x", ""))
	a := start(t, auth.Options{Certificates: true, TokensFile: file})
	both := bearer("sp_x")
	both.TLS = state
	wantName(t, a, both, "token:ci")
	wrong := bearer("sp_y")
	wrong.TLS = state
	wantReason(t, a, wrong, auth.ReasonUnknownToken)
	wantName(t, a, auth.Credentials{TLS: state}, "certificate:cn:mesh")
}
