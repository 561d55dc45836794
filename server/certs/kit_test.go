package certs_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server/certs"
)

// files are those of a Source.
type files struct {
	t                  testing.TB
	cert, key, ca, crl string
}

func newFiles(t testing.TB) *files {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	return &files{t, in("tls.crt"), in("tls.key"), in("ca.crt"), in("ca.crl")}
}

func (f *files) write(name string, parts ...[]byte) {
	f.t.Helper()
	fatal.If(f.t, os.WriteFile(name, bytes.Join(parts, nil), 0o600))
}

func (f *files) writePair(p *testpki.Pair) {
	f.t.Helper()
	f.write(f.cert, p.CertPEM())
	f.write(f.key, p.KeyPEM())
}

// options are those with the certificate; with CAs too if clients are looked at. Files need
// not settle: tests write them whole.
func (f *files) options(mode certs.ClientAuth) certs.Options {
	o := certs.Options{CertFile: f.cert, KeyFile: f.key, ClientAuth: mode, Settle: time.Nanosecond}
	if mode != certs.None {
		o.CAFile = f.ca
	}
	return o
}

func newSource(t testing.TB, o certs.Options) *certs.Source {
	t.Helper()
	s, err := certs.New(o)
	fatal.If(t, err)
	return s
}

func check(t testing.TB, s *certs.Source) {
	t.Helper()
	fatal.If(t, s.Check())
}

// echo serves an echo over TLS and returns its address. Handshakes that fail are sent to
// the channel, if there is one.
func echo(t testing.TB, s *certs.Source, failed chan<- error) string {
	t.Helper()
	config, err := s.ServerConfig()
	fatal.If(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				server := tls.Server(conn, config)
				defer func() { _ = server.Close() }()
				if err := server.Handshake(); err != nil {
					if failed != nil {
						failed <- err
					}
					return
				}
				_, _ = io.Copy(server, server)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// client is a client's configuration which trusts a CA.
func client(ca *testpki.Authority, own ...*testpki.Pair) *tls.Config {
	config := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
	for _, p := range own {
		// Sent whether the server says that it knows the CA or not.
		c := p.TLS()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
	}
	return config
}

// dial connects and exchanges something: with TLS 1.3 a client is done before the server
// has looked at its certificate.
func dial(t testing.TB, address string, config *tls.Config) (*tls.Conn, error) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, exchange(conn)
}

func exchange(conn *tls.Conn) error {
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != "hello" {
		return errors.New("got " + string(got))
	}
	return nil
}

func mustDial(t testing.TB, address string, config *tls.Config) *tls.Conn {
	t.Helper()
	conn, err := dial(t, address, config)
	fatal.If(t, err)
	return conn
}

// served is the name in the certificate that a server shows.
func served(conn *tls.Conn) string {
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// renew returns another certificate of the CA's name and key. change edits the template.
func renew(t testing.TB, ca *testpki.Authority, change ...func(*x509.Certificate)) []byte {
	t.Helper()
	template := *ca.Leaf
	template.SerialNumber = new(big.Int).Add(template.SerialNumber, big.NewInt(1))
	template.NotAfter = template.NotAfter.Add(24 * time.Hour)
	for _, c := range change {
		c(&template)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, ca.Key.Public(), ca.Key)
	fatal.If(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func serverState(t testing.TB, s *certs.Source, config *tls.Config) *tls.ConnectionState {
	t.Helper()
	own, err := s.ServerConfig()
	fatal.If(t, err)
	near, far := net.Pipe()
	server := tls.Server(near, own)
	var shaking sync.WaitGroup
	shaking.Go(func() { _ = tls.Client(far, config).Handshake() })
	fatal.If(t, server.Handshake())
	shaking.Wait()
	state := server.ConnectionState()
	_ = near.Close()
	return &state
}
