//go:build unix

package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// TLS names PEM files of certificates of one authority. Servers that use them require a
// client certificate of the same authority.
type TLS struct {
	CAFile         string
	ServerCertFile string // for 127.0.0.1 and localhost
	ServerKeyFile  string
	ClientCertFile string
	ClientKeyFile  string

	client *tls.Config
}

// NewTLS makes an authority and its certificates in a directory of the test.
func NewTLS(t testing.TB) *TLS {
	t.Helper()
	dir := t.TempDir()
	files := &TLS{
		CAFile:         filepath.Join(dir, "ca.crt"),
		ServerCertFile: filepath.Join(dir, "server.crt"),
		ServerKeyFile:  filepath.Join(dir, "server.key"),
		ClientCertFile: filepath.Join(dir, "client.crt"),
		ClientKeyFile:  filepath.Join(dir, "client.key"),
	}
	files.Renew(t)
	return files
}

// Renew puts another authority and its certificates into the files. Servers that run keep the
// old ones until they restart, and can't be reached by Client meanwhile: stop them before.
func (f *TLS) Renew(t testing.TB) {
	t.Helper()
	ca := testpki.New("redistest CA")
	// Replicas, the nodes of a cluster and sentinels are each other's clients.
	server := ca.Issue("redistest server")
	client := ca.Issue("redistest client", testpki.Usage(x509.ExtKeyUsageClientAuth))
	fatal.If(t, errors.Join(os.WriteFile(f.CAFile, ca.CertPEM(), 0o600),
		server.Write(f.ServerCertFile, f.ServerKeyFile), client.Write(f.ClientCertFile, f.ClientKeyFile)))
	f.client = &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{client.TLS()}}
}

// Config returns the configuration of a client that presents its certificate.
func (f *TLS) Config() *tls.Config { return f.client.Clone() }
