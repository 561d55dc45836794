package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	watched "github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server/certs"
)

// revoking is a server with two CAs of clients and a list of the first.
type revoking struct {
	*testing.T
	*files
	options        certs.Options
	source         *certs.Source
	ca, one, two   *testpki.Authority
	good, bad, new *testpki.Pair // of one; bad is revoked
	other          *testpki.Pair // of two
	address        string
	first, list    []byte // the first is the older
	told           []watched.Event
	warned         []string
	// meanwhile is called once when a file has been read.
	meanwhile atomic.Pointer[func()]
}

var tomorrow = time.Now().Add(24 * time.Hour)

// listOf is a list with that number, issued so long ago.
func listOf(ca *testpki.Authority, number int64, age time.Duration, pairs ...*testpki.Pair) []byte {
	return ca.RevokeAs(func(l *x509.RevocationList) {
		l.Number, l.ThisUpdate, l.NextUpdate = big.NewInt(number), time.Now().Add(-age), tomorrow
	}, pairs...)
}

func newRevoking(t *testing.T) *revoking {
	r := &revoking{T: t, files: newFiles(t), ca: testpki.New("ca"), one: testpki.New("one"), two: testpki.New("two")}
	r.good, r.bad, r.new, r.other = r.one.Issue("good"), r.one.Issue("bad"), r.one.Issue("new"), r.two.Issue("other")
	r.first, r.list = listOf(r.one, 1, 2*time.Hour), listOf(r.one, 2, time.Hour, r.bad)
	r.writePair(r.ca.Issue("server"))
	r.write(r.files.ca, r.one.CertPEM(), r.two.CertPEM())
	r.write(r.crl, r.list)
	r.options = r.files.options(certs.Require)
	r.options.CRLFile = r.crl
	r.options.OnChange = func(e watched.Event) { r.told = append(r.told, e) }
	r.options.OnWarning = func(w string) { r.warned = append(r.warned, w) }
	r.options.Clock = func() time.Time {
		if f := r.meanwhile.Swap(nil); f != nil {
			(*f)()
		}
		return time.Now()
	}
	r.source = newSource(t, r.options)
	r.address = echo(t, r.source, nil)
	r.accepts("at the start", r.good, r.new, r.other)
	r.refuses("at the start", r.bad)
	if got := r.source.Status().Refused; got != 1 {
		t.Errorf("%d refused handshakes are counted, want 1", got)
	}
	return r
}

func (r *revoking) accepts(when string, pairs ...*testpki.Pair) {
	r.Helper()
	for _, p := range pairs {
		if _, err := dial(r, r.address, client(r.ca, p)); err != nil {
			r.Errorf("%s: %s is refused: %v", when, p.Leaf.Subject, err)
		}
	}
}

func (r *revoking) refuses(when string, pairs ...*testpki.Pair) {
	r.Helper()
	for _, p := range pairs {
		if _, err := dial(r, r.address, client(r.ca, p)); err == nil {
			r.Errorf("%s: %s is accepted", when, p.Leaf.Subject)
		}
	}
}

// checks looks at the files; want is in the error, empty: none.
func (r *revoking) checks(want string) {
	r.Helper()
	if err := r.source.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		r.Errorf("error %v, want %q", err, want)
	}
}

// An old CA is removed while its list is still there: it is refused, and the others stay.
func TestACAIsRemovedBeforeItsList(t *testing.T) {
	t.Parallel()
	r := newRevoking(t)
	r.write(r.files.ca, r.two.CertPEM())
	r.checks("")
	r.refuses("its CA is gone", r.good, r.bad)
	r.accepts("its CA stays", r.other)
	want := []string{
		"the revocation list of CN=one is not verified, and counts for intermediate CAs only: it is not among the trusted CAs",
		"no certificate of CN=two is revoked: this CA has no revocation list",
	}
	if !slices.Equal(r.warned, want) || !slices.Equal(r.source.Status().Warnings, want) || !r.source.Status().CRLNextUpdate.IsZero() {
		t.Errorf("warned of %q, %+v", r.warned, r.source.Status())
	}
	if got := newSource(t, r.options).Status(); got.Err != nil || !slices.Equal(got.Warnings, want) {
		t.Errorf("a start: %+v", got)
	}
	r.write(r.files.ca, r.two.CertPEM(), r.one.CertPEM())
	r.checks("")
	r.refuses("its CA is back", r.bad)
	r.accepts("its CA is back", r.good)
}

// What is wrong with one file keeps no other from being used.
func TestFilesAreReloadedByThemselves(t *testing.T) {
	t.Parallel()
	r := newRevoking(t)
	second := r.ca.Issue("second")
	r.write(r.cert, second.CertPEM()) // its key is still to come
	r.write(r.crl, listOf(r.one, 3, 0, r.bad, r.new))
	r.checks("private key does not match")
	r.refuses("revoked beside half a pair", r.new)
	if len(r.told) != 2 || r.told[0].Err == nil || r.told[0].Paths[0] != r.cert || r.told[1].Err != nil || r.told[1].Paths[0] != r.crl {
		t.Errorf("told %v", r.told)
	}
	r.write(r.key, second.KeyPEM())
	r.write(r.files.ca, r.one.CertPEM())
	r.write(r.crl, []byte("nothing"))
	r.told = nil
	r.checks(r.crl + `: no PEM block "X509 CRL"`)
	r.refuses("beside a broken list", r.other, r.bad, r.new)
	if got := served(mustDial(t, r.address, client(r.ca, r.good))); got != "second" {
		t.Errorf("%s is served beside a broken list", got)
	}
	if got := r.source.Status(); got.Err == nil || got.Reloads != 2 || got.Failures != 2 || len(r.told) != 3 {
		t.Errorf("%+v, told %v", got, r.told)
	}
	r.write(r.files.ca, []byte("nothing"))
	r.write(r.crl, listOf(r.one, 4, 0, r.good))
	r.checks(r.files.ca + `: no PEM block "CERTIFICATE"`)
	r.refuses("beside broken CAs", r.good)
}

// What is revoked by a CA that is trusted stays so until this CA says otherwise.
func TestWhatIsRevokedStaysSo(t *testing.T) {
	t.Parallel()
	stranger := testpki.New("one")
	for _, test := range []struct {
		name   string
		change func(*revoking)
		want   string // in the error; none: it is no longer revoked
	}{
		{"another's list", func(r *revoking) { r.write(r.crl, testpki.New("another").Revoke(tomorrow)) }, "the list of CN=one is gone"},
		{"the other CA's list only", func(r *revoking) { r.write(r.crl, r.two.Revoke(tomorrow)) }, "the list of CN=one is gone"},
		{"a list of another of its name", func(r *revoking) { r.write(r.crl, stranger.Revoke(tomorrow)) }, "none of the CAs signed it"},
		{"an older list", func(r *revoking) { r.write(r.crl, r.first) }, "number 1 of "},
		{"a list with a newer number, of an older time", func(r *revoking) { r.write(r.crl, listOf(r.one, 3, 2*time.Hour)) }, ""},
		{"a newer list", func(r *revoking) { r.write(r.crl, listOf(r.one, 3, 0)) }, ""},
		{"a list of a CA that counts anew", func(r *revoking) { r.write(r.crl, listOf(r.one, 1, 0)) }, ""},
		{"its list by another key, and the CAs with that key beside its own", func(r *revoking) {
			r.write(r.files.ca, r.one.CertPEM(), stranger.CertPEM())
			r.write(r.crl, listOf(stranger, 3, 0))
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRevoking(t)
			test.change(r)
			for range 2 {
				r.checks(test.want)
			}
			if test.want == "" {
				r.accepts("afterwards", r.bad)
				return
			}
			r.refuses("afterwards", r.bad)
			r.accepts("afterwards", r.good)
			if got := r.source.Status(); got.Failures != 1 || len(r.told) != 1 {
				t.Errorf("%+v, told %v", got, r.told)
			}
			r.write(r.crl, r.list, r.two.Revoke(tomorrow))
			r.checks("")
			r.refuses("put back", r.bad)
			if got := r.source.Status(); got.Err != nil || len(r.told) != 2 || r.told[1].Err != nil {
				t.Errorf("%+v, told %v", got, r.told)
			}
		})
	}
}

// A CA that changes its key keeps its name, and what it has revoked.
func TestACAWithANewKeyNeedsANewList(t *testing.T) {
	t.Parallel()
	r := newRevoking(t)
	anew := testpki.New("one")
	mine := anew.Issue("mine")
	known := anew.Issue("known", func(c *x509.Certificate) { c.SerialNumber = r.bad.Leaf.SerialNumber })
	r.write(r.files.ca, anew.CertPEM())
	r.checks("none of the CAs signed it")
	r.refuses("its old key", r.good)
	r.accepts("its new key", mine)
	r.refuses("its old list", known)
	if _, err := certs.New(r.options); err == nil || !strings.Contains(err.Error(), "none of the CAs signed it") {
		t.Errorf("a start: %v", err)
	}
	r.write(r.crl, listOf(anew, 3, 0, mine))
	r.checks("")
	r.refuses("its new list", mine)
	r.accepts("its new list", known)
}

// A CA that is added is trusted with its list only, if it has one.
func TestAnAddedCANeedsItsList(t *testing.T) {
	t.Parallel()
	three := testpki.New("three")
	third := three.Issue("third")
	for name, lists := range map[string]func(*revoking) [][]byte{
		"of another of its name": func(r *revoking) [][]byte { return [][]byte{r.list, testpki.New("three").Revoke(tomorrow)} },
		"broken":                 func(r *revoking) [][]byte { return [][]byte{r.list, three.Revoke(tomorrow)[:99]} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRevoking(t)
			r.write(r.files.ca, r.one.CertPEM(), r.two.CertPEM(), three.CertPEM())
			r.write(r.crl, lists(r)...)
			for range 2 {
				_ = r.source.Check()
				r.writePair(r.ca.Issue("second")) // is no reason to trust it
				_ = r.source.Check()
				if r.source.Status().Err == nil {
					t.Error("no error")
				}
				r.refuses("without a list", third, r.bad)
				r.accepts("known ones", r.good, r.other)
			}
			r.write(r.crl, r.list) // as it was: the CA has none
			r.checks("")
			r.accepts("put back", third)
			r.write(r.crl, r.list, three.Revoke(tomorrow, third))
			r.checks("")
			r.refuses("revoked", third)
		})
	}
}

// Both are in one Secret, which is swapped while it is read: the list was read just before.
func TestACAIsAddedWithItsList(t *testing.T) {
	t.Parallel()
	three := testpki.New("three")
	third := three.Issue("third")
	r := newRevoking(t)
	r.write(r.files.ca, r.one.CertPEM(), r.two.CertPEM(), three.CertPEM())
	r.meanwhile.Store(new(func() { r.write(r.crl, r.list, three.Revoke(tomorrow, third)) }))
	r.checks("")
	r.refuses("revoked by the list beside its CA", third)
}

// A list of a CA that is not in the file can refuse what an intermediate CA has issued.
func TestListsOfIntermediateCAs(t *testing.T) {
	t.Parallel()
	r := newRevoking(t)
	middle := &testpki.Authority{Pair: *r.two.Issue("middle", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid = true, true
		c.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	})}
	mine := middle.Issue("mine")
	config := client(r.ca)
	shown := mine.TLS()
	shown.Certificate = append(shown.Certificate, middle.Leaf.Raw)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	mustDial(t, r.address, config)
	r.write(r.crl, r.list, middle.Revoke(tomorrow, mine))
	r.checks("")
	if _, err := dial(t, r.address, config); err == nil {
		t.Error("a revoked certificate is accepted")
	}
}
