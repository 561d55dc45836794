package certs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	watched "github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server/certs"
)

func TestReplacedCertificateMeetsNewConnections(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	f.writePair(ca.Issue("first"))
	var changes []error
	o := f.options(certs.None)
	o.OnChange = func(e watched.Event) { changes = append(changes, e.Err) }
	s := newSource(t, o)
	address := echo(t, s, nil)
	old := mustDial(t, address, client(ca))

	second := ca.Issue("second", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(90 * 24 * time.Hour) })
	f.writePair(second)
	if got := served(mustDial(t, address, client(ca))); got != "first" {
		t.Errorf("%s is served before anybody looked", got)
	}
	check(t, s)
	if got := served(mustDial(t, address, client(ca))); got != "second" {
		t.Errorf("%s is served", got)
	}
	if err := exchange(old); err != nil || served(old) != "first" {
		t.Errorf("the old connection: %v, of %s", err, served(old))
	}
	check(t, s)
	if got := s.Status(); got.Reloads != 1 || got.Failures != 0 || got.Err != nil || !got.NotAfter.Equal(second.Leaf.NotAfter) || !got.CAsNotAfter.IsZero() {
		t.Errorf("%+v", got)
	}
	if len(changes) != 1 || changes[0] != nil {
		t.Errorf("told %v", changes)
	}
}

func TestBrokenFilesChangeNothing(t *testing.T) {
	ca, other := testpki.New("ca"), testpki.New("other")
	second := ca.Issue("second")
	for _, test := range []struct {
		name  string
		spoil func(*files)
		want  string
	}{
		{"key of another one", func(f *files) { f.write(f.cert, second.CertPEM()) }, "private key does not match"},
		{"half a certificate", func(f *files) {
			f.write(f.cert, second.CertPEM()[:len(second.CertPEM())/2])
			f.write(f.key, second.KeyPEM())
		}, "failed to find any PEM data"},
		{"empty", func(f *files) { f.write(f.cert); f.write(f.key) }, "failed to find any PEM data"},
		{"no key", func(f *files) { _ = os.Remove(f.key) }, "no such file"},
		{"expired", func(f *files) {
			f.writePair(ca.Issue("second", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
		}, "has expired"},
		{"not valid yet", func(f *files) {
			f.writePair(ca.Issue("second", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }))
		}, "is not valid before"},
		{"no CAs", func(f *files) { f.write(f.ca, []byte("nothing\n")) }, `no PEM block "CERTIFICATE"`},
		{"half a bundle", func(f *files) {
			f.write(f.ca, ca.CertPEM(), other.CertPEM()[:len(other.CertPEM())-40])
		}, "1 of 2 PEM blocks can't be read"},
		{"a bundle with half a certificate in it", func(f *files) {
			f.write(f.ca, other.CertPEM()[:len(other.CertPEM())-40], []byte("\n"), ca.CertPEM())
		}, "1 of 2 PEM blocks can't be read"},
		{"half a chain", func(f *files) {
			f.write(f.cert, second.CertPEM(), ca.CertPEM()[:len(ca.CertPEM())-40])
			f.write(f.key, second.KeyPEM())
		}, "1 of 2 PEM blocks can't be read"},
		{"a key among the CAs", func(f *files) { f.write(f.ca, ca.CertPEM(), second.KeyPEM()) }, `block 2 is "PRIVATE KEY"`},
		{"no certificate among the CAs", func(f *files) { f.write(f.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})) }, "block 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFiles(t)
			f.writePair(ca.Issue("first"))
			f.write(f.ca, ca.CertPEM())
			var changes []error
			o := f.options(certs.Optional)
			o.OnChange = func(e watched.Event) { changes = append(changes, e.Err) }
			s := newSource(t, o)
			address := echo(t, s, nil)
			test.spoil(f)
			for range 3 {
				if err := s.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v", err)
				}
			}
			if got := served(mustDial(t, address, client(ca, ca.Issue("client")))); got != "first" {
				t.Errorf("%s is served", got)
			}
			if len(changes) != 1 || changes[0] == nil {
				t.Errorf("told %v", changes)
			}
			if got := s.Status(); got.Err == nil || got.Failures != 1 || got.Reloads != 0 {
				t.Errorf("%+v", got)
			}
			if _, err := certs.New(o); err == nil {
				t.Error("one could begin with that")
			}
			f.writePair(second)
			f.write(f.ca, ca.CertPEM())
			check(t, s)
			if got := served(mustDial(t, address, client(ca, ca.Issue("client")))); got != "second" {
				t.Errorf("%s is served once all is well", got)
			}
			if len(changes) < 2 || slices.ContainsFunc(changes[1:], func(err error) bool { return err != nil }) || s.Status().Err != nil {
				t.Errorf("told %v", changes)
			}
		})
	}
}

// A broken file that is put back as it was is no reload, but the problem is over.
func TestBrokenAndPutBack(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	first := ca.Issue("first")
	f.writePair(first)
	var changes []error
	o := f.options(certs.None)
	o.OnChange = func(e watched.Event) { changes = append(changes, e.Err) }
	s := newSource(t, o)
	f.write(f.key)
	_ = s.Check()
	f.write(f.key, first.KeyPEM())
	check(t, s)
	if len(changes) != 2 || changes[0] == nil || changes[1] != nil || s.Status().Reloads != 0 || s.Status().Err != nil {
		t.Errorf("told %v, %+v", changes, s.Status())
	}
}

// Kubernetes puts a new folder beside the old one and swaps a link to it.
func TestSecretWhoseLinksAreSwapped(t *testing.T) {
	ca, dir := testpki.New("ca"), t.TempDir()
	swap := func(folder string, p *testpki.Pair) {
		fatal.If(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
		f := &files{t: t}
		f.write(filepath.Join(dir, folder, "tls.crt"), p.CertPEM())
		f.write(filepath.Join(dir, folder, "tls.key"), p.KeyPEM())
		fatal.If(t, os.Symlink(folder, filepath.Join(dir, "..tmp")))
		fatal.If(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	swap("..2026_01", ca.Issue("first"))
	for _, name := range []string{"tls.crt", "tls.key"} {
		fatal.If(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	s := newSource(t, certs.Options{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")})
	address := echo(t, s, nil)
	swap("..2026_02", ca.Issue("second"))
	fatal.If(t, os.RemoveAll(filepath.Join(dir, "..2026_01")))
	check(t, s)
	if got := served(mustDial(t, address, client(ca))); got != "second" {
		t.Errorf("%s is served", got)
	}
}

func TestClientCertificates(t *testing.T) {
	ca, other := testpki.New("ca"), testpki.New("ca") // of the same name
	good, wrong := ca.Issue("good"), other.Issue("wrong")
	expired := ca.Issue("expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	early := ca.Issue("early", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })
	server := ca.Issue("server only", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	clients := map[string][]*testpki.Pair{"no certificate": nil, "good": {good}, "wrong CA": {wrong}, "expired": {expired}, "not valid yet": {early}, "not for clients": {server}}
	for mode, accepted := range map[certs.ClientAuth]map[string]bool{
		certs.None:     {"no certificate": true, "good": true, "wrong CA": true, "expired": true, "not valid yet": true, "not for clients": true},
		certs.Optional: {"no certificate": true, "good": true},
		certs.Require:  {"good": true},
	} {
		f := newFiles(t)
		f.writePair(ca.Issue("server"))
		f.write(f.ca, ca.CertPEM())
		failed := make(chan error, 1)
		address := echo(t, newSource(t, f.options(mode)), failed)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for name, own := range clients {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, tls.VersionName(version), name), func(t *testing.T) {
					config := client(ca, own...)
					config.MaxVersion = version
					_, err := dial(t, address, config)
					if accepted[name] {
						fatal.If(t, err)
						return
					}
					if err == nil {
						t.Fatal("accepted")
					}
					t.Log(<-failed)
				})
			}
		}
	}
}

func TestReplacedCAs(t *testing.T) {
	ca, first, second := testpki.New("ca"), testpki.New("first"), testpki.New("second")
	f := newFiles(t)
	f.writePair(ca.Issue("server"))
	f.write(f.ca, first.CertPEM())
	s := newSource(t, f.options(certs.Require))
	address := echo(t, s, nil)
	ofFirst, ofSecond := client(ca, first.Issue("a")), client(ca, second.Issue("b"))
	open := mustDial(t, address, ofFirst)
	if _, err := dial(t, address, ofSecond); err == nil {
		t.Error("a client of the second CA is accepted")
	}
	f.write(f.ca, first.CertPEM(), second.CertPEM())
	check(t, s)
	mustDial(t, address, ofFirst)
	mustDial(t, address, ofSecond)
	f.write(f.ca, second.CertPEM())
	check(t, s)
	mustDial(t, address, ofSecond)
	if _, err := dial(t, address, ofFirst); err == nil {
		t.Error("a client of the first CA is accepted")
	}
	if err := exchange(open); err != nil {
		t.Errorf("its open connection: %v", err)
	}
}

// A client must not get around what has changed by resuming a session.
func TestSessionsAreNotResumed(t *testing.T) {
	ca, first, second := testpki.New("ca"), testpki.New("first"), testpki.New("second")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, mode := range []certs.ClientAuth{certs.None, certs.Optional, certs.Require} {
			t.Run(tls.VersionName(version)+"/"+string(mode), func(t *testing.T) {
				f := newFiles(t)
				f.writePair(ca.Issue("server"))
				f.write(f.ca, first.CertPEM())
				s := newSource(t, f.options(mode))
				address := echo(t, s, nil)
				config := client(ca, first.Issue("a"))
				config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
				config.MaxVersion = version
				for range 3 {
					mustDial(t, address, config)
				}
				// The sessions of clients that are not looked at may be resumed.
				if got := mustDial(t, address, config).ConnectionState().DidResume; got != (mode == certs.None) {
					t.Errorf("resumed: %v", got)
				}
				f.write(f.ca, second.CertPEM())
				check(t, s)
				if _, err := dial(t, address, config); (err == nil) != (mode == certs.None) {
					t.Errorf("with its CA gone: %v", err)
				}
			})
		}
	}
}

func TestRevokedCertificates(t *testing.T) {
	ca := testpki.New("ca")
	good, bad, server := ca.Issue("good"), ca.Issue("bad"), ca.Issue("server")
	f := newFiles(t)
	f.writePair(server)
	f.write(f.ca, ca.CertPEM())
	tomorrow := time.Now().Add(24 * time.Hour)
	f.write(f.crl, ca.Revoke(tomorrow))
	o := f.options(certs.Require)
	o.CRLFile = f.crl
	var changes []error
	o.OnChange = func(e watched.Event) { changes = append(changes, e.Err) }
	var warnings []string
	o.OnWarning = func(w string) { warnings = append(warnings, w) }
	s := newSource(t, o)
	address := echo(t, s, nil)
	mustDial(t, address, client(ca, bad))
	f.write(f.crl, ca.Revoke(tomorrow, bad))
	check(t, s)
	mustDial(t, address, client(ca, good))
	if _, err := dial(t, address, client(ca, bad)); err == nil {
		t.Error("a revoked certificate is accepted")
	}

	t.Run("a list of another CA changes nothing", func(t *testing.T) {
		f.write(f.crl, testpki.New("ca").Revoke(tomorrow))
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), "none of the CAs signed it") {
			t.Errorf("error %v", err)
		}
		if _, err := dial(t, address, client(ca, bad)); err == nil {
			t.Error("a revoked certificate is accepted")
		}
	})
	for name, list := range map[string]struct {
		text []byte
		want string
	}{
		"of changes":             {extended(ca, 27, "\x02\x01\x01"), "delta list"},
		"of CAs' certificates":   {extended(ca, 28, "\x30\x03\x82\x01\xff"), "only a part"},
		"of some reasons":        {extended(ca, 28, "\x30\x04\x83\x02\x06\x40"), "only a part"},
		"of other CAs, too":      {extended(ca, 28, "\x30\x03\x84\x01\xff"), "only a part"},
		"with what nobody knows": {extended(ca, 99, "\x05\x00"), "2.5.29.99"},
		"with another's entry": {ca.RevokeAs(func(l *x509.RevocationList) {
			l.RevokedCertificateEntries[0].ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 29}, Critical: true, Value: []byte("\x30\x00")}}
		}, good), "2.5.29.29"},
		"that is cut, before a whole one": {slices.Concat(ca.Revoke(tomorrow, bad)[:200], []byte("\n"), ca.Revoke(tomorrow)), "1 of 2"},
	} {
		t.Run("a list "+name+" changes nothing", func(t *testing.T) {
			f.write(f.crl, list.text)
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), list.want) {
				t.Errorf("error %v", err)
			}
			if _, err := dial(t, address, client(ca, bad)); err == nil {
				t.Error("a revoked certificate is accepted")
			}
		})
	}
	t.Run("a list of users' certificates, at an address", func(t *testing.T) {
		f.write(f.crl, extended(ca, 28, "\x30\x0b\xa0\x06\xa0\x04\x86\x02x:\x81\x01\xff", bad))
		check(t, s)
		if _, err := dial(t, address, client(ca, bad)); err == nil {
			t.Error("a revoked certificate is accepted")
		}
	})
	t.Run("two lists of one CA", func(t *testing.T) {
		f.write(f.crl, ca.Revoke(tomorrow, bad), ca.Revoke(tomorrow))
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), "a second list") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an outdated list is used, and reported", func(t *testing.T) {
		f.write(f.crl, ca.Revoke(time.Now().Add(-time.Hour), bad))
		changes, warnings = nil, nil
		check(t, s)
		check(t, s)
		if _, err := dial(t, address, client(ca, bad)); err == nil {
			t.Error("a revoked certificate is accepted")
		}
		mustDial(t, address, client(ca, good))
		if len(changes) != 1 || changes[0] != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "out of date") {
			t.Errorf("told %v, warned of %q", changes, warnings)
		}
	})
	t.Run("clients look at the server's", func(t *testing.T) {
		c := newSource(t, certs.Options{CAFile: f.ca, CRLFile: f.crl, CertFile: f.cert, KeyFile: f.key})
		mustDial(t, address, c.ClientConfig("localhost"))
		f.write(f.crl, ca.Revoke(tomorrow, server))
		check(t, c)
		if _, err := dial(t, address, c.ClientConfig("localhost")); err == nil || !strings.Contains(err.Error(), "is revoked") {
			t.Errorf("error %v", err)
		}
	})
}

// extended returns a revocation list with a critical extension of X.509.
func extended(ca *testpki.Authority, id int, value string, pairs ...*testpki.Pair) []byte {
	return ca.RevokeAs(func(l *x509.RevocationList) {
		l.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, id}, Critical: true, Value: []byte(value)}}
	}, pairs...)
}

// Lists that become outdated are warned of once, however many they are, and no reload has failed.
func TestOutdatedListsAreToldOnce(t *testing.T) {
	f := newFiles(t)
	var cas, lists [][]byte
	for i := range 8 {
		ca := testpki.New(fmt.Sprint("ca ", i))
		cas, lists = append(cas, ca.CertPEM()), append(lists, ca.Revoke(time.Now().Add(time.Hour)))
	}
	f.write(f.ca, cas...)
	f.write(f.crl, lists...)
	now := time.Now()
	var changes []watched.Event
	var warnings []string
	o := certs.Options{CAFile: f.ca, CRLFile: f.crl, Settle: time.Nanosecond, Clock: func() time.Time { return now }}
	o.OnChange, o.OnWarning = func(e watched.Event) { changes = append(changes, e) }, func(w string) { warnings = append(warnings, w) }
	s := newSource(t, o)
	for range 10 {
		now = now.Add(15 * time.Minute)
		check(t, s)
	}
	if got := s.Status(); len(changes) != 0 || len(warnings) != 8 || got.Err != nil || !slices.Equal(got.Warnings, warnings) {
		t.Errorf("told %v, warned of %q, %+v", changes, warnings, got)
	}
}

// A certificate for clients that takes the place of the server's is told, as at the start.
func TestACertificateForClientsIsToldAtAReload(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	f.writePair(ca.Issue("server"))
	var warnings []string
	o := f.options(certs.None)
	o.OnWarning = func(w string) { warnings = append(warnings, w) }
	s := newSource(t, o)
	f.writePair(ca.Issue("caller", testpki.Usage(x509.ExtKeyUsageClientAuth)))
	check(t, s)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "lacks serverAuth") {
		t.Errorf("warned of %q", warnings)
	}
}

func TestVersionsAndProtocols(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	f.writePair(ca.Issue("server"))
	f.write(f.ca, ca.CertPEM())
	for _, mode := range []certs.ClientAuth{certs.None, certs.Require} {
		address := echo(t, newSource(t, f.options(mode)), nil)
		config := client(ca, ca.Issue("client"))
		if got := mustDial(t, address, config).ConnectionState().Version; got != tls.VersionTLS13 {
			t.Errorf("%s: spoke %s", mode, tls.VersionName(got))
		}
		old := config.Clone()
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if _, err := dial(t, address, old); err == nil {
			t.Errorf("%s: spoke TLS 1.1", mode)
		}
		for offer, want := range map[string]string{"h2": "h2", "http/1.1": "http/1.1", "": ""} {
			c := config.Clone()
			if offer != "" {
				c.NextProtos = []string{offer}
			}
			if got := mustDial(t, address, c).ConnectionState().NegotiatedProtocol; got != want {
				t.Errorf("%s: %q for %q", mode, got, offer)
			}
		}
		c := config.Clone()
		c.NextProtos = []string{"spdy"}
		if _, err := dial(t, address, c); err == nil {
			t.Errorf("%s: spoke SPDY", mode)
		}
	}
}

// Whatever server name a client sends, it gets the only certificate.
func TestServerNameIsIrrelevant(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	f.writePair(ca.Issue("server"))
	address := echo(t, newSource(t, f.options(certs.None)), nil)
	for _, name := range []string{"localhost", "127.0.0.1", "elsewhere.example", ""} {
		config := client(ca)
		config.ServerName = name
		config.InsecureSkipVerify = true
		if got := served(mustDial(t, address, config)); got != "server" {
			t.Errorf("%q: %s is served", name, got)
		}
	}
}

func TestClientConfig(t *testing.T) {
	ca, other := testpki.New("ca"), testpki.New("other")
	serverFiles, f := newFiles(t), newFiles(t)
	serverFiles.writePair(ca.Issue("server"))
	serverFiles.write(serverFiles.ca, ca.CertPEM())
	server := newSource(t, serverFiles.options(certs.Require))
	address := echo(t, server, nil)
	_, port, _ := net.SplitHostPort(address)

	f.writePair(ca.Issue("client"))
	f.write(f.ca, ca.CertPEM())
	c := newSource(t, certs.Options{CertFile: f.cert, KeyFile: f.key, CAFile: f.ca})
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if got := mustDial(t, address, c.ClientConfig(name)).ConnectionState(); got.NegotiatedProtocol != "h2" || got.Version != tls.VersionTLS13 {
			t.Errorf("%s: %q over %s", name, got.NegotiatedProtocol, tls.VersionName(got.Version))
		}
	}
	mustDial(t, "localhost:"+port, c.ClientConfig(""))
	if _, err := dial(t, address, c.ClientConfig("elsewhere.example")); err == nil {
		t.Error("any server is taken for elsewhere.example")
	}
	if _, err := dial(t, address, c.ClientConfig("")); err == nil || !strings.Contains(err.Error(), "IP address") {
		t.Errorf("an address without a name: %v", err)
	}
	old := c.ClientConfig("localhost")
	old.MaxVersion, old.MinVersion = tls.VersionTLS11, 0
	if _, err := dial(t, address, old); err == nil {
		t.Error("spoke TLS 1.1")
	}

	config := c.ClientConfig("localhost") // follows the files
	f.write(f.ca, other.CertPEM())
	check(t, c)
	var unknown x509.UnknownAuthorityError
	if _, err := dial(t, address, config); !errors.As(err, &unknown) {
		t.Errorf("a server of an unknown CA: %v", err)
	}
	f.write(f.ca, ca.CertPEM())
	f.writePair(other.Issue("client"))
	check(t, c)
	if _, err := dial(t, address, config); err == nil {
		t.Error("the new certificate is not shown")
	}

	without := newSource(t, certs.Options{CAFile: f.ca})
	if _, err := dial(t, address, without.ClientConfig("localhost")); err == nil {
		t.Error("accepted without a certificate")
	}
	if _, err := without.ServerConfig(); err == nil {
		t.Error("a server without a certificate")
	}
}

// A resumed session is verified as well.
func TestClientsVerifyResumedSessions(t *testing.T) {
	ca, other := testpki.New("ca"), testpki.New("other")
	serverFiles, f := newFiles(t), newFiles(t)
	serverFiles.writePair(ca.Issue("server"))
	address := echo(t, newSource(t, serverFiles.options(certs.None)), nil)
	f.write(f.ca, ca.CertPEM())
	c := newSource(t, certs.Options{CAFile: f.ca})
	config := c.ClientConfig("localhost")
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	mustDial(t, address, config)
	if !mustDial(t, address, config).ConnectionState().DidResume {
		t.Fatal("not resumed")
	}
	f.write(f.ca, other.CertPEM())
	check(t, c)
	if _, err := dial(t, address, config); err == nil {
		t.Error("a server of an unknown CA is accepted")
	}
}

func TestGRPC(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	f.writePair(ca.Issue("server"))
	f.write(f.ca, ca.CertPEM())
	s := newSource(t, f.options(certs.Require))
	config, err := s.ServerConfig()
	fatal.If(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	healthv1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	call := func() error {
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(s.ClientConfig("localhost"))))
		fatal.If(t, err)
		defer func() { _ = conn.Close() }()
		_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		return err
	}
	fatal.If(t, call())
	f.writePair(ca.Issue("second"))
	check(t, s)
	fatal.If(t, call())
}

func TestWarnsBeforeExpiry(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	first := ca.Issue("first")
	f.writePair(first)
	now := time.Now()
	var warned []time.Time
	o := f.options(certs.None)
	o.Clock = func() time.Time { return now }
	o.OnExpiring = func(notAfter time.Time) { warned = append(warned, notAfter) }
	s := newSource(t, o)
	at := func(when time.Time, want int) {
		t.Helper()
		now = when
		check(t, s)
		if len(warned) != want {
			t.Fatalf("warned %d times, not %d", len(warned), want)
		}
	}
	expiry := first.Leaf.NotAfter
	at(expiry.Add(-8*24*time.Hour), 0)
	at(expiry.Add(-7*24*time.Hour), 1)
	at(expiry.Add(-7*24*time.Hour+time.Hour), 1)
	at(expiry.Add(-6*24*time.Hour), 2)
	at(expiry.Add(-time.Hour), 3)
	at(expiry, 4) // it is used all the same: there is no better one
	at(expiry.Add(59*time.Minute), 4)
	at(expiry.Add(time.Hour), 5)
	if !warned[0].Equal(expiry) {
		t.Errorf("warned of %v", warned[0])
	}
	f.writePair(ca.Issue("second", func(c *x509.Certificate) { c.NotAfter = expiry.Add(10 * 24 * time.Hour) }))
	at(expiry.Add(-time.Minute), 5)
	f.writePair(ca.Issue("third", func(c *x509.Certificate) { c.NotAfter = expiry.Add(time.Hour) }))
	at(expiry.Add(-time.Minute), 6)
}

// The chain is as good as its first certificate to expire.
func TestNotAfterOfAChain(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	leaf := ca.Issue("leaf")
	soon := ca.Issue("intermediate", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Hour) })
	f.write(f.cert, leaf.CertPEM(), soon.CertPEM())
	f.write(f.key, leaf.KeyPEM())
	if got := newSource(t, f.options(certs.None)).Status().NotAfter; !got.Equal(soon.Leaf.NotAfter) {
		t.Errorf("%v, not %v", got, soon.Leaf.NotAfter)
	}
}

// The status of the loaded files is for metrics: of several certificates it has the
// first to expire.
func TestStatusTellsWhatExpires(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	f.writePair(ca.Issue("leaf"))
	soon := ca.Issue("another", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Hour) })
	f.write(f.ca, ca.CertPEM(), soon.CertPEM())
	next := time.Now().Add(2 * time.Hour).Truncate(time.Second)
	f.write(f.crl, ca.Revoke(next))
	o := f.options(certs.Optional)
	o.CRLFile = f.crl
	now := time.Now()
	o.Clock = func() time.Time { return now }
	s := newSource(t, o)
	if got := s.Status(); !got.CAsNotAfter.Equal(soon.Leaf.NotAfter) || !got.CRLNextUpdate.Equal(next) || !got.Loaded.Equal(now) {
		t.Errorf("%+v", got)
	}
	began := now
	now = now.Add(time.Minute)
	check(t, s) // nothing new
	if got := s.Status().Loaded; !got.Equal(began) {
		t.Errorf("loaded at %v, want %v", got, began)
	}
	f.writePair(ca.Issue("second"))
	check(t, s)
	if got := s.Status().Loaded; !got.Equal(now) {
		t.Errorf("loaded at %v, want %v", got, now)
	}
}

// watching runs a test of a Source with a pair, whose files are watched in a bubble. The test
// gets a function that returns the served certificate.
func watching(t *testing.T, test func(t *testing.T, f *files, second *testpki.Pair, reloads func() uint64)) {
	ca, f := testpki.New("ca"), newFiles(t)
	first, second := ca.Issue("first"), ca.Issue("second")
	synctest.Test(t, func(t *testing.T) {
		f.writePair(first)
		o := f.options(certs.None)
		o.Interval, o.Settle = time.Minute, 0
		o.Clock = func() time.Time { return first.Leaf.NotBefore.Add(2 * time.Hour) }
		s := newSource(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			s.Run(ctx)
		}()
		test(t, f, second, func() uint64 {
			synctest.Wait()
			if status := s.Status(); status.Err != nil || status.Failures != 0 {
				t.Errorf("%+v", status)
			}
			return s.Status().Reloads
		})
		cancel()
		<-stopped
	})
}

func TestRunLooksAtIntervals(t *testing.T) {
	watching(t, func(t *testing.T, f *files, second *testpki.Pair, reloads func() uint64) {
		f.writePair(second)
		time.Sleep(time.Minute + watched.DefaultSettle - 1)
		if reloads() != 0 {
			t.Error("looked too early, or once only")
		}
		time.Sleep(time.Nanosecond)
		if reloads() != 1 {
			t.Error("did not look")
		}
	})
}

// A pair that is half written at a look is no mistake, nor are files that change between two.
func TestFilesAreLookedAtUntilTheyHaveSettled(t *testing.T) {
	watching(t, func(t *testing.T, f *files, second *testpki.Pair, reloads func() uint64) {
		f.write(f.cert, second.CertPEM()[:len(second.CertPEM())/2])
		time.Sleep(time.Minute + watched.DefaultSettle/2)
		f.write(f.cert, second.CertPEM()) // after the first look
		time.Sleep(watched.DefaultSettle)
		f.write(f.key, second.KeyPEM()) // after the second
		time.Sleep(3*watched.DefaultSettle/2 - 1)
		if reloads() != 0 {
			t.Error("not settled, and taken")
		}
		time.Sleep(time.Nanosecond)
		if reloads() != 1 {
			t.Error("not taken")
		}
	})
}

// Half a bundle of CAs is right, and lacks those that trust the caller.
func TestABundleThatIsHalfWrittenAtTheStart(t *testing.T) {
	ca, other, f := testpki.New("ca"), testpki.New("other"), newFiles(t)
	pair := ca.Issue("server")
	synctest.Test(t, func(t *testing.T) {
		f.write(f.cert, pair.CertPEM())
		f.write(f.key)
		f.write(f.ca, ca.CertPEM())
		o := f.options(certs.Require)
		o.Settle = 0
		o.Clock = func() time.Time { return pair.Leaf.NotBefore.Add(2 * time.Hour) }
		var s *certs.Source
		var err error
		var opening sync.WaitGroup
		opening.Go(func() { s, err = certs.New(o) })
		time.Sleep(watched.DefaultSettle / 2)
		f.write(f.key, pair.KeyPEM())
		f.write(f.ca, ca.CertPEM(), other.CertPEM())
		opening.Wait()
		fatal.If(t, err)
		if err := s.Check(); err != nil || s.Status().Reloads != 0 {
			t.Errorf("it began with half the files: %v, %+v", err, s.Status())
		}
	})
}

// Connections and reloads at once: every connection meets a certificate that fits its key.
func TestReloadsWhileConnecting(t *testing.T) {
	ca, f := testpki.New("ca"), newFiles(t)
	f.write(f.ca, ca.CertPEM())
	pairs := []*testpki.Pair{ca.Issue("0"), ca.Issue("1"), ca.Issue("2")}
	f.writePair(pairs[0])
	s := newSource(t, f.options(certs.Require))
	address := echo(t, s, nil)
	var done atomic.Bool
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for !done.Load() {
				_ = s.Check() // may meet half a change
				s.Status()
			}
		})
	}
	running.Go(func() {
		for i := 0; !done.Load(); i++ {
			f.writePair(pairs[i%len(pairs)])
			time.Sleep(time.Millisecond) // or it is hardly ever whole
		}
	})
	var dialling sync.WaitGroup
	for range 4 {
		dialling.Go(func() {
			config := client(ca, pairs[0])
			for i := 0; i < 50 || i < 10_000 && s.Status().Reloads == 0; i++ {
				if _, err := dial(t, address, config); err != nil {
					t.Error(err)
				}
			}
		})
	}
	dialling.Wait()
	done.Store(true)
	running.Wait()
	if s.Status().Reloads == 0 {
		t.Error("nothing was reloaded")
	}
}

func TestBadOptions(t *testing.T) {
	for name, o := range map[string]certs.Options{
		"certificate without key":    {CertFile: "a"},
		"key without certificate":    {KeyFile: "a"},
		"clients without CAs":        {CertFile: "a", KeyFile: "b", ClientAuth: certs.Require},
		"unknown mode":               {ClientAuth: "sometimes"},
		"revocations without CAs":    {CRLFile: "a"},
		"negative interval":          {Interval: -1},
		"files that are not there":   {CAFile: filepath.Join(t.TempDir(), "none")},
		"negative warning of expiry": {ExpiryWarning: -1},
	} {
		if _, err := certs.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, mode := range []certs.ClientAuth{certs.None, certs.Optional, certs.Require} {
		if got, err := certs.ParseClientAuth(string(mode)); got != mode || err != nil {
			t.Errorf("%s: %v, %v", mode, got, err)
		}
	}
	if _, err := certs.ParseClientAuth(""); err == nil {
		t.Error("an empty mode was read")
	}
}
