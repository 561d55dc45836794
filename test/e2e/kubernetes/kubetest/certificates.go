//go:build linux

package kubetest

import (
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// Certificate writes a self-signed certificate of a server on loopback and its key to files of
// the test.
func Certificate(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	fatal.If(t, testpki.New("test").Write(certFile, keyFile))
	return certFile, keyFile
}

// FrontProxy makes the certificate with which an API server vouches to aggregated servers for
// its callers, and returns the flags that have it do so.
func FrontProxy(t testing.TB) (apiServerFlags []string) {
	t.Helper()
	cert, key := Certificate(t)
	return []string{
		"--requestheader-client-ca-file=" + cert, "--proxy-client-cert-file=" + cert, "--proxy-client-key-file=" + key,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
}
