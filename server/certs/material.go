package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// maxFileBytes limits each file; revocation lists of a large CA have some megabytes.
const maxFileBytes = 64 << 20

// part is a file, or a certificate and its key, that is reloaded by itself: what is wrong with the certificate must
// not keep a revocation list from being used.
type part[T any] struct {
	set   files.Set
	parse func(texts [][]byte, now time.Time) (T, error)
	// value is the last valid content, and sum its digest; err is why the current content is not used.
	value T
	sum   files.Sum
	err   error
	// changed is whether the value is not in use yet.
	changed bool
	report
}

// report is what was reported of a part.
type report struct {
	paths []string
	told  string // the last error; empty: none
}

func newPart[T any](parse func([][]byte, time.Time) (T, error), paths ...string) part[T] {
	return part[T]{set: files.Set{Paths: paths, Most: maxFileBytes}, parse: parse, report: report{paths: paths}}
}

// read reads the files, if there are any.
func (p *part[T]) read(ctx context.Context, settle time.Duration, now func() time.Time) {
	if p.set.Paths[0] == "" {
		return
	}
	c := p.set.Settled(ctx, settle, p.sum)
	p.err = c.Err
	if c.Err != nil || c.Sum() == p.sum {
		return
	}
	value, err := p.parse(c.Texts, now())
	if p.err = err; err == nil {
		p.value, p.sum, p.changed = value, c.Sum(), true
	}
}

// FileError is the error of one file, or of a certificate with its key.
type FileError struct {
	Path string // the first, if there are two
	err  error
}

func (e *FileError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *FileError) Unwrap() error { return e.err }

// problem is the error of these files: err, with their names.
func (r *report) problem(err error) error {
	if err == nil {
		return nil
	}
	if _, named := errors.AsType[*fs.PathError](err); !named {
		err = fmt.Errorf("%s: %w", strings.Join(r.paths, " with "), err)
	}
	return &FileError{r.paths[0], err}
}

// material is the content of the files.
type material struct {
	cert     *tls.Certificate // nil: none
	notAfter time.Time        // earliest of cert and its intermediates; zero without one
	*authorities
	revoked revocations
	// problem is why lists of the file are not in force, unread whether the file could not be read, and warnings are what
	// else is worth a word.
	problem  error
	unread   bool
	warnings []string
}

// pair is a certificate, its key and the earliest end of the certificate and its intermediates.
type pair struct {
	cert     *tls.Certificate
	notAfter time.Time
}

// authorities are the trusted CAs.
type authorities struct {
	cas         *x509.CertPool // nil: the system's
	list        []*x509.Certificate
	trusted     map[string]bool // the certificates, DER
	names       map[string]bool // their names, DER
	casNotAfter time.Time       // earliest of them; zero without them
}

func parseAuthorities(texts [][]byte, _ time.Time) (*authorities, error) {
	list, err := files.ParseCertificates(texts[0])
	if err != nil {
		return nil, err
	}
	a := &authorities{cas: x509.NewCertPool(), list: list, trusted: map[string]bool{}, names: map[string]bool{}}
	for _, ca := range list {
		a.cas.AddCert(ca)
		a.trusted[string(ca.Raw)], a.names[string(ca.RawSubject)] = true, true
		a.casNotAfter = earlier(a.casNotAfter, ca.NotAfter)
	}
	return a, nil
}

// parsePair refuses what can't be used now.
func parsePair(texts [][]byte, now time.Time) (p pair, err error) {
	cert, err := files.ParsePair(texts[0], texts[1])
	if err != nil {
		return p, err
	}
	for i, der := range cert.Certificate {
		c, err := x509.ParseCertificate(der)
		switch {
		case err != nil:
			return p, fmt.Errorf("certificate %d: %w", i+1, err)
		case !now.Before(c.NotAfter):
			return p, fmt.Errorf("certificate %d (%s) has expired at %s", i+1, c.Subject, c.NotAfter.Format(time.RFC3339))
		case now.Before(c.NotBefore):
			return p, fmt.Errorf("certificate %d (%s) is not valid before %s", i+1, c.Subject, c.NotBefore.Format(time.RFC3339))
		}
		p.notAfter = earlier(p.notAfter, c.NotAfter)
	}
	p.cert = &cert
	return p, nil
}

// inputs are the files.
type inputs struct {
	pair  part[pair]
	cas   part[*authorities]
	lists part[[]*revocationList]
}

func (o *Options) inputs() inputs {
	in := inputs{newPart(parsePair, o.CertFile, o.KeyFile), newPart(parseAuthorities, o.CAFile), newPart(parseRevocations, o.CRLFile)}
	in.cas.value = &authorities{}
	return in
}

// changed reports whether contents are not in use yet.
func (in *inputs) changed() bool { return in.pair.changed || in.cas.changed || in.lists.changed }

// combine returns the contents together. Lists are those of the CAs, and used is what was in use before, nil at the start.
func (in *inputs) combine(used *material) *material {
	m := &material{cert: in.pair.value.cert, notAfter: in.pair.value.notAfter, authorities: in.cas.value, unread: in.lists.err != nil}
	var was revocations
	var known *authorities
	if used != nil {
		was, known = used.revoked, used.authorities
	}
	m.revoked, m.warnings, m.problem = was.replace(in.lists.value, in.lists.err, m.authorities, known)
	if m.cert != nil {
		if usages := m.cert.Leaf.ExtKeyUsage; len(usages) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) && !slices.Contains(usages, x509.ExtKeyUsageAny) {
			m.warnings = append(m.warnings, "clients refuse the certificate as a server's: its extended key usage lacks serverAuth")
		}
	}
	return m
}

// errs are the errors of the certificate, the CAs and the lists, with the names of their files.
func (in *inputs) errs(used *material) [3]error {
	lists := in.lists.err
	if used != nil {
		lists = errors.Join(lists, used.problem)
	}
	return [3]error{in.pair.problem(in.pair.err), in.cas.problem(in.cas.err), in.lists.problem(lists)}
}

// earlier returns the earlier time; the zero value counts as none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
