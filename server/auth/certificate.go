package auth

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// NameKind is a kind of name in a certificate that may identify its holder.
type NameKind string

// The kinds of names, as they follow "certificate:" in an identity's name.
const (
	URIName    NameKind = "uri"
	DNSName    NameKind = "dns"
	CommonName NameKind = "cn"
)

// certificates identifies the holders of client certificates.
type certificates struct {
	kinds []NameKind
}

// authenticate returns the identity of a connection's client; nil if the client sent
// no certificate.
func (c *certificates) authenticate(state *tls.ConnectionState, now time.Time) (*Identity, *Error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	// Certificates that were sent but not verified prove nothing.
	if len(state.VerifiedChains) == 0 {
		return nil, refuse(ReasonUnverified, "the client certificate was not verified", nil)
	}
	// Connections outlive certificates.
	from, until := validity(state.VerifiedChains)
	switch {
	case now.Before(from):
		return nil, refuse(ReasonNotYetValid, "the client certificate is not valid yet", nil)
	case now.After(until):
		return nil, refuse(ReasonExpired, "the client certificate expired at "+until.UTC().Format(time.RFC3339)+": connect again with a new one", nil)
	}
	name := c.name(state.VerifiedChains[0][0])
	if name == "" {
		return nil, refuse(ReasonUnnamed, "the client certificate names no identity: it needs a URI or DNS name among its subject alternative names, or a common name; a name has at most 1024 bytes of printable UTF-8", nil)
	}
	return &Identity{Name: name, Method: MethodCertificate, Expires: until}, nil
}

// name is the identity's name: the first name of the first kind that the certificate
// has; "" if there is none.
func (c *certificates) name(leaf *x509.Certificate) string {
	for _, kind := range c.kinds {
		name := ""
		switch {
		case kind == URIName && len(leaf.URIs) > 0:
			name = leaf.URIs[0].String()
		case kind == DNSName && len(leaf.DNSNames) > 0:
			name = leaf.DNSNames[0]
		case kind == CommonName:
			name = leaf.Subject.CommonName
		}
		// If a name is invalid, do not fall back to the next kind.
		switch {
		case validName(name):
			return string(MethodCertificate) + ":" + string(kind) + ":" + name
		case name != "":
			return ""
		}
	}
	return ""
}

// validity returns the interval of the chain that is valid longest.
func validity(chains [][]*x509.Certificate) (from, until time.Time) {
	for _, chain := range chains {
		begin, end := chain[0].NotBefore, chain[0].NotAfter
		for _, certificate := range chain[1:] {
			if certificate.NotBefore.After(begin) {
				begin = certificate.NotBefore
			}
			if certificate.NotAfter.Before(end) {
				end = certificate.NotAfter
			}
		}
		if until.IsZero() || end.After(until) {
			from, until = begin, end
		}
	}
	return from, until
}
