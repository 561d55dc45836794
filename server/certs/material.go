package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// contents are those of the files, in the order certificate, key, CAs, revocation lists;
// nil for one that is not used.
type contents [4][]byte

func (c *contents) equal(other *contents) bool {
	for i := range c {
		if !bytes.Equal(c[i], other[i]) {
			return false
		}
	}
	return true
}

// readTries bounds how often files are read that change meanwhile.
const readTries = 4

// read reads the files until two looks in a row, Settle apart, have met them the same: of a
// Secret whose links are swapped in between, the certificate might be an old one and the key
// a new one, and of a file that is written in place one sees the first half, which may be
// right and say something else. What is known is settled. They are read whole, for neither
// times nor sizes show every change.
func (o *Options) read(ctx context.Context, known *contents) (*contents, error) {
	last, err := o.readOnce()
	for range readTries {
		if last != nil && known != nil && last.equal(known) {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(o.Settle):
		}
		lastErr := err
		var c *contents
		c, err = o.readOnce()
		switch {
		case err == nil && last != nil && c.equal(last):
			return c, nil
		case err != nil && lastErr != nil && err.Error() == lastErr.Error():
			return nil, err
		}
		last = c
	}
	if err == nil {
		err = errors.New("the files keep changing while they are read")
	}
	return nil, err
}

func (o *Options) readOnce() (*contents, error) {
	c := new(contents)
	for i, name := range []string{o.CertFile, o.KeyFile, o.CAFile, o.CRLFile} {
		if name == "" {
			continue
		}
		var err error
		if c[i], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// material is what the files say.
type material struct {
	contents    *contents
	cert        *tls.Certificate // nil: none
	notAfter    time.Time        // of cert and its intermediates, the earliest; zero without one
	cas         *x509.CertPool   // nil: the system's
	trusted     map[string]bool  // the certificates of cas, DER
	casNotAfter time.Time        // of cas, the earliest; zero without them
	revoked     revocations
}

// parse reads what files say, and refuses what can't be used now.
func (o *Options) parse(c *contents, now time.Time) (*material, error) {
	m := &material{contents: c}
	if o.CertFile != "" {
		if err := m.parsePair(c[0], c[1], now); err != nil {
			return nil, fmt.Errorf("%s with %s: %w", o.CertFile, o.KeyFile, err)
		}
	}
	if o.CAFile == "" {
		return m, nil
	}
	cas, err := parseCertificates(c[2])
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
		if m.revoked, err = parseRevocations(c[3], cas); err != nil {
			return nil, fmt.Errorf("%s: %w", o.CRLFile, err)
		}
	}
	return m, nil
}

func (m *material) parsePair(certPEM, keyPEM []byte, now time.Time) error {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
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

// earlier returns the earlier time; the zero value is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// parseCertificates reads at least one certificate, and no file in which something else
// is hidden.
func parseCertificates(data []byte) (certs []*x509.Certificate, err error) {
	err = eachBlock(data, "CERTIFICATE", func(der []byte) error {
		c, err := x509.ParseCertificate(der)
		certs = append(certs, c)
		return err
	})
	return certs, err
}

// eachBlock has PEM blocks of one type read. There must be one at least, and none of
// another type.
func eachBlock(data []byte, blockType string, read func(der []byte) error) error {
	n := 0
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if n++; block.Type != blockType {
			return fmt.Errorf("block %d is %q, not %q", n, block.Type, blockType)
		}
		if err := read(block.Bytes); err != nil {
			return fmt.Errorf("block %d: %w", n, err)
		}
	}
	switch {
	case n == 0:
		return fmt.Errorf("no PEM block %q", blockType)
	case bytes.Contains(data, []byte("-----BEGIN")):
		return fmt.Errorf("block %d can't be read", n+1)
	}
	return nil
}
