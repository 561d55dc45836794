//go:build linux

package edge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is a CA.
type authority struct {
	t      testing.TB
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{t: t, cert: cert, key: key, serial: 1}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// pair is a certificate with its key.
type pair struct {
	cert, key []byte // PEM
	leaf      *x509.Certificate
	tls       tls.Certificate
}

// issue issues a certificate that is valid as long; spiffe names its holder, "": it is
// that of a server on loopback.
func (a *authority) issue(spiffe string, from, until time.Time) *pair {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	a.serial++
	template := &x509.Certificate{SerialNumber: big.NewInt(a.serial), NotBefore: from, NotAfter: until}
	if spiffe == "" {
		template.Subject.CommonName = "setpoint"
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	} else {
		name, err := url.Parse(spiffe)
		must(a.t, err)
		template.URIs = []*url.URL{name}
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(a.t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	p := &pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	p.leaf, err = x509.ParseCertificate(der)
	must(a.t, err)
	p.tls, err = tls.X509KeyPair(p.cert, p.key)
	must(a.t, err)
	return p
}

// issueNow issues a certificate that is valid for an hour.
func (a *authority) issueNow(spiffe string) *pair {
	a.t.Helper()
	return a.issue(spiffe, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// revoke returns a revocation list of these certificates.
func (a *authority) revoke(pairs ...*pair) []byte {
	a.t.Helper()
	a.serial++
	template := &x509.RevocationList{Number: big.NewInt(a.serial), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour)}
	for _, p := range pairs {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: p.leaf.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, a.cert, a.key)
	must(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
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
	must(f.t, os.WriteFile(path+".new", content, 0o600))
	must(f.t, os.Rename(path+".new", path))
	return path
}

// writePair writes tls.crt and tls.key, and returns the flags that name them.
func (f folder) writePair(p *pair) []string {
	f.t.Helper()
	return []string{"--tls-key-file=" + f.write("tls.key", p.key), "--tls-cert-file=" + f.write("tls.crt", p.cert)}
}
