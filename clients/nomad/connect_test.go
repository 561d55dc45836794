package nomad_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	fatal.If(t, os.WriteFile(name+".new", data, 0o600))
	fatal.If(t, os.Rename(name+".new", name))
}

func connect(t *testing.T, c nomad.Config) *api.Client {
	t.Helper()
	client, err := nomad.Connect(c)
	fatal.If(t, err)
	return client
}

// The token is rotated in its file.
func TestATokenThatIsRotated(t *testing.T) {
	t.Parallel()
	server := &nomadtest.Server{}
	server.UseACL()
	served := httptest.NewServer(server)
	defer served.Close()
	file := filepath.Join(t.TempDir(), "token")
	server.SetToken("token:one", agentRights)
	write(t, file, []byte("token:one\n"))
	client := connect(t, nomad.Config{Address: served.URL, TokenFile: file})
	list := func() error {
		_, _, err := client.Scaling().ListPolicies(nil)
		return err
	}
	fatal.If(t, list())
	server.Revoke("token:one")
	server.SetToken("token:two", agentRights)
	if err := list(); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("with the old token: %v", err)
	}
	write(t, file, []byte("token:two"))
	if err := list(); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	fatal.If(t, os.Remove(file))
	if err := list(); err != nil {
		t.Errorf("while the file is replaced: %v", err)
	}
	write(t, file, []byte("two\nlines"))
	if err := list(); err == nil || !strings.Contains(err.Error(), "more than one line") || strings.Contains(err.Error(), "two\n") {
		t.Errorf("with two lines: %v", err)
	}
}

// The cluster gets another authority, and every party another certificate.
func TestCertificatesThatAreRenewed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ca, cert, key := filepath.Join(folder, "ca.pem"), filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	var of atomic.Pointer[testpki.Authority]
	renew := func(a *testpki.Authority) {
		of.Store(a)
		write(t, ca, a.CertPEM())
		fatal.If(t, a.Issue("client.global.nomad").Write(cert, key))
	}
	renew(testpki.New("first"))
	served := httptest.NewUnstartedServer(&nomadtest.Server{})
	served.Config.ErrorLog = nil
	served.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		a := of.Load()
		own := a.Issue("server", testpki.Names("server.global.nomad"))
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.TLS()}, ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}, nil
	}}
	served.StartTLS()
	defer served.Close()
	client := connect(t, nomad.Config{Address: served.URL, TLS: nomad.TLS{CAFile: ca, CertFile: cert, KeyFile: key, ServerName: "server.global.nomad"}})
	list := func() error {
		_, _, err := client.Scaling().ListPolicies(nil)
		return err
	}
	fatal.If(t, list())
	next := testpki.New("second")
	of.Store(next)
	served.CloseClientConnections()
	if err := list(); err == nil {
		t.Error("a server of another authority was believed")
	}
	renew(next)
	if err := list(); err != nil {
		t.Errorf("after the renewal: %v", err)
	}
}

// The token does not follow a redirect.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var stolen atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen.Store(r.Header.Get("X-Nomad-Token") != "")
	}))
	defer thief.Close()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer served.Close()
	client := connect(t, nomad.Config{Address: served.URL, Token: "secret"})
	if _, _, err := client.Scaling().ListPolicies(nil); err == nil || stolen.Load() {
		t.Errorf("a redirect was followed: %v, with the token: %t", err, stolen.Load())
	}
}

func TestASocket(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "api.sock")
	listener, err := net.Listen("unix", name)
	fatal.If(t, err)
	server := &http.Server{Handler: &nomadtest.Server{}, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	if _, _, err := connect(t, nomad.Config{Address: "unix://" + name}).Scaling().ListPolicies(nil); err != nil {
		t.Error(err)
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, nil)
	for name, c := range map[string]nomad.Config{
		"the address \"nomad:4646\"": {Address: "nomad:4646"}, "the address \"ftp://nomad\"": {Address: "ftp://nomad"},
		"the address contains credentials": {Address: "http://u:p@nomad"}, "the address \"http://\"": {Address: "http://"},
		"is empty": {TokenFile: empty}, "token: stat": {TokenFile: empty + "-absent"},
		"a client certificate needs": {TLS: nomad.TLS{CertFile: empty}}, "must be certificates in PEM": {Address: "https://nomad", TLS: nomad.TLS{CAFile: empty}},
	} {
		if _, err := nomad.Connect(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
