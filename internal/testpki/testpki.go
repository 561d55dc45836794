// Package testpki issues certificates for tests.
//
//	ca := testpki.New("authority")
//	pair := ca.Issue("server")                      // of localhost, for 30 days
//	config := &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}
//
// Its functions panic instead of returning errors, which only a wrong template can cause.
package testpki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"
)

// Pair is a certificate and its key.
type Pair struct {
	Leaf *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// Authority is a CA. It is safe for concurrent use.
type Authority struct{ Pair }

// New returns an authority. Its certificate can also serve on localhost, as one that is
// self-signed. change edits the template;
// a zero NotAfter or serial number gets its default.
func New(name string, change ...func(*x509.Certificate)) *Authority {
	t := template(name)
	t.IsCA, t.BasicConstraintsValid, t.NotAfter = true, true, t.NotBefore.AddDate(1, 0, 0)
	t.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return &Authority{*issue(t, nil, change)}
}

// Issue issues a certificate of a server on localhost that is also a client. change edits the
// template, as in New.
func (a *Authority) Issue(name string, change ...func(*x509.Certificate)) *Pair {
	t := template(name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return issue(t, a, change)
}

// Names makes DNS names the only names of a certificate beside its common name.
func Names(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, nil }
}

// Usage makes a certificate one for that use only.
func Usage(usage x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{usage} }
}

// Valid sets the validity of a certificate.
func Valid(from, until time.Time) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, until }
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 30),
	}
}

// issue issues a certificate; by nil: it is self-signed.
func issue(t *x509.Certificate, by *Authority, change []func(*x509.Certificate)) *Pair {
	for _, c := range change {
		c(t)
	}
	if t.NotAfter.IsZero() {
		t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, 30)
	}
	if t.SerialNumber == nil {
		t.SerialNumber = must(rand.Int(rand.Reader, big.NewInt(1<<62)))
	}
	p := &Pair{Leaf: t, Key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	signer := p
	if by != nil {
		signer = &by.Pair
	}
	p.Leaf = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, t, signer.Leaf, p.Key.Public(), signer.Key))))
	return p
}

// Revoke returns a revocation list, PEM.
func (a *Authority) Revoke(nextUpdate time.Time, pairs ...*Pair) []byte {
	return a.RevokeAs(func(l *x509.RevocationList) { l.NextUpdate = nextUpdate }, pairs...)
}

// RevokeAs is Revoke, whose template change edits.
func (a *Authority) RevokeAs(change func(*x509.RevocationList), pairs ...*Pair) []byte {
	list := &x509.RevocationList{
		Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now().Add(-48 * time.Hour), NextUpdate: time.Now().Add(24 * time.Hour),
	}
	for _, p := range pairs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: p.Leaf.SerialNumber, RevocationTime: time.Now()})
	}
	change(list)
	return encode("X509 CRL", must(x509.CreateRevocationList(rand.Reader, list, a.Leaf, a.Key)))
}

// Pool returns a pool that trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Leaf)
	return pool
}

// CertPEM returns the certificate, PEM.
func (p *Pair) CertPEM() []byte { return encode("CERTIFICATE", p.Leaf.Raw) }

// KeyPEM returns the key in PKCS #8, PEM.
func (p *Pair) KeyPEM() []byte {
	return encode("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(p.Key)))
}

// TLS returns the pair for a tls.Config.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Leaf.Raw}, PrivateKey: p.Key, Leaf: p.Leaf}
}

// Write writes both to files that only the user may read.
func (p *Pair) Write(certFile, keyFile string) error {
	return errors.Join(os.WriteFile(certFile, p.CertPEM(), 0o600), os.WriteFile(keyFile, p.KeyPEM(), 0o600))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
