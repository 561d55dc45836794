//go:build linux

package kubetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair is a certificate of a server on loopback that vouches for itself, and its key.
type pair struct{ cert, key []byte } // PEM

func newPair(name string) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return pair{}, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}, nil
}

// Certificate writes the certificate of a server on loopback, which vouches for
// itself, and its key to files of the test.
func Certificate(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	pair, err := newPair("test")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	if err := errors.Join(os.WriteFile(certFile, pair.cert, 0o600), os.WriteFile(keyFile, pair.key, 0o600)); err != nil {
		t.Fatal(err)
	}
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
