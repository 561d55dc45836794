//go:build unix

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
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

// NewTLS makes an authority and its certificates, valid for an hour, in a
// directory of the test.
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
	if err := files.write(); err != nil {
		t.Fatal(err)
	}
	return files
}

// Config returns the configuration of a client that presents its certificate.
func (f *TLS) Config() *tls.Config { return f.client.Clone() }

func (f *TLS) write() error {
	caTemplate := template("redistest CA")
	caTemplate.IsCA, caTemplate.BasicConstraintsValid, caTemplate.KeyUsage = true, true, x509.KeyUsageCertSign
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca, err := sign(caTemplate, caTemplate, caKey, caKey)
	if err != nil {
		return err
	}
	if err := writePEM(f.CAFile, "CERTIFICATE", ca.Raw); err != nil {
		return err
	}

	server := template("redistest server")
	server.DNSNames, server.IPAddresses = []string{"localhost"}, []net.IP{net.ParseIP(host)}
	// Replicas, the nodes of a cluster and sentinels are each other's clients.
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if err := writePair(f.ServerCertFile, f.ServerKeyFile, server, ca, caKey); err != nil {
		return err
	}
	client := template("redistest client")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if err := writePair(f.ClientCertFile, f.ClientKeyFile, client, ca, caKey); err != nil {
		return err
	}

	pair, err := tls.LoadX509KeyPair(f.ClientCertFile, f.ClientKeyFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	f.client = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	return nil
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), // tolerates clocks that are slow
		NotAfter:  now.Add(time.Hour),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

// sign returns a certificate for key, signed by the parent's key.
func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// writePair creates a key and a certificate for it, and writes both.
func writePair(certFile, keyFile string, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert, err := sign(template, ca, key, caKey)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", cert.Raw); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(keyFile, "PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
