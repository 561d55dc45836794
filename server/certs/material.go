package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// maxFileBytes limits each file; revocation lists of a large CA have some megabytes.
const maxFileBytes = 64 << 20

// files are those of the options, in the order certificate, key, CAs, revocation lists.
func (o *Options) files() files.Set {
	return files.Set{Paths: []string{o.CertFile, o.KeyFile, o.CAFile, o.CRLFile}, Most: maxFileBytes}
}

// material is the content of the files.
type material struct {
	sum         files.Sum        // digest of the files
	cert        *tls.Certificate // nil: none
	notAfter    time.Time        // earliest of cert and its intermediates; zero without one
	cas         *x509.CertPool   // nil: the system's
	trusted     map[string]bool  // the certificates of cas, DER
	casNotAfter time.Time        // earliest of cas; zero without them
	revoked     revocations
}

// parse parses the files, and refuses what can't be used now.
func (o *Options) parse(c files.Contents, now time.Time) (*material, error) {
	m := &material{sum: c.Sum()}
	if o.CertFile != "" {
		if err := m.parsePair(c.Texts[0], c.Texts[1], now); err != nil {
			return nil, fmt.Errorf("%s with %s: %w", o.CertFile, o.KeyFile, err)
		}
	}
	if o.CAFile == "" {
		return m, nil
	}
	cas, err := files.ParseCertificates(c.Texts[2])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.CAFile, err)
	}
	m.cas, m.trusted = x509.NewCertPool(), make(map[string]bool, len(cas))
	for _, ca := range cas {
		m.cas.AddCert(ca)
		m.trusted[string(ca.Raw)] = true
		m.casNotAfter = earlier(m.casNotAfter, ca.NotAfter)
	}
	if o.CRLFile != "" {
		if m.revoked, err = parseRevocations(c.Texts[3], cas); err != nil {
			return nil, fmt.Errorf("%s: %w", o.CRLFile, err)
		}
	}
	return m, nil
}

func (m *material) parsePair(certPEM, keyPEM []byte, now time.Time) error {
	cert, err := files.ParsePair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	for i, der := range cert.Certificate {
		c, err := x509.ParseCertificate(der)
		switch {
		case err != nil:
			return fmt.Errorf("certificate %d: %w", i+1, err)
		case !now.Before(c.NotAfter):
			return fmt.Errorf("certificate %d (%s) has expired at %s", i+1, c.Subject, c.NotAfter.Format(time.RFC3339))
		case now.Before(c.NotBefore):
			return fmt.Errorf("certificate %d (%s) is not valid before %s", i+1, c.Subject, c.NotBefore.Format(time.RFC3339))
		}
		m.notAfter = earlier(m.notAfter, c.NotAfter)
	}
	m.cert = &cert
	return nil
}

// earlier returns the earlier time; the zero value counts as none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
