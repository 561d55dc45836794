//go:build linux

package edge

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// authority is a CA that issues what the tests need.
type authority struct{ *testpki.Authority }

func newAuthority(name string) *authority { return &authority{testpki.New(name)} }

// issue issues a certificate of that validity: for a client with that SPIFFE name, "": for a
// server on loopback.
func (a *authority) issue(spiffe string, from, until time.Time) *testpki.Pair {
	names := testpki.URI(spiffe)
	if spiffe == "" {
		names = testpki.Usage(x509.ExtKeyUsageServerAuth)
	}
	return a.Issue("setpoint", names, testpki.Valid(from, until))
}

// issueNow issues a certificate that is valid for an hour.
func (a *authority) issueNow(spiffe string) *testpki.Pair {
	return a.issue(spiffe, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// revoke returns a revocation list, PEM.
func (a *authority) revoke(pairs ...*testpki.Pair) []byte {
	return a.Revoke(time.Now().Add(time.Hour), pairs...)
}

// folder is where a test keeps the files of a service.
type folder struct {
	t    testing.TB
	path string
}

func newFolder(t testing.TB) folder { return folder{t, t.TempDir()} }

// write replaces a file at once, and returns its path.
func (f folder) write(name string, content []byte) string {
	f.t.Helper()
	path := filepath.Join(f.path, name)
	kit.Must(f.t, os.WriteFile(path+".new", content, 0o600))
	kit.Must(f.t, os.Rename(path+".new", path))
	return path
}

// writePair writes tls.crt and tls.key, and returns the flags that name them.
func (f folder) writePair(p *testpki.Pair) []string {
	f.t.Helper()
	return []string{"--tls-key-file=" + f.write("tls.key", p.KeyPEM()), "--tls-cert-file=" + f.write("tls.crt", p.CertPEM())}
}
