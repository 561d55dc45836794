package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// revocations are the lists in force, by their issuer's name (DER).
type revocations map[string]*revocationList

type revocationList struct {
	*x509.RevocationList // without its entries
	serials              map[string]bool
	// untrusted: none of the CAs has the issuer's name, so nobody has verified the list.
	untrusted bool
	// unusable is why no certificate of a CA can be accepted; nil: it can.
	unusable error
}

// maxSerial is the length of serial numbers that are looked up without an allocation; by
// RFC 5280 they have 20 bytes at most.
const maxSerial = 32

// has reports whether a serial number is revoked. The list has them as bytes.
func (l *revocationList) has(serial *big.Int) bool {
	if l.unusable != nil {
		return true
	}
	if serial.BitLen() > 8*maxSerial {
		return l.serials[string(serial.Bytes())]
	}
	var room [maxSerial]byte
	return l.serials[string(serial.FillBytes(room[:])[maxSerial-(serial.BitLen()+7)/8:])]
}

// Extensions of lists: deltaOnly is of those that have only the changes since another list, and coverage says which
// certificates a list has (RFC 5280, 5.2.4 and 5.2.5).
var deltaOnly, coverage = asn1.ObjectIdentifier{2, 5, 29, 27}, asn1.ObjectIdentifier{2, 5, 29, 28}

// checkWhole refuses a list that has less than what its CA has revoked, or more, or a critical extension that is not
// supported: such lists must not be used (RFC 5280, 5.2 and 5.3).
func checkWhole(list *x509.RevocationList) error {
	for _, e := range list.Extensions {
		switch {
		case e.Id.Equal(deltaOnly):
			return fmt.Errorf("delta list of %s: it has only what was revoked since another list; the whole list is needed", list.Issuer)
		case e.Id.Equal(coverage) && !coversUsers(e.Value):
			return fmt.Errorf("list of %s: it has only a part of what this CA has revoked, or what others have; the CA's whole list is needed", list.Issuer)
		}
	}
	all := slices.Clone(list.Extensions)
	for i := range list.RevokedCertificateEntries {
		all = append(all, list.RevokedCertificateEntries[i].Extensions...)
	}
	for _, e := range all {
		if e.Critical && !e.Id.Equal(coverage) {
			return fmt.Errorf("list of %s: it has the critical extension %s, which is not supported", list.Issuer, e.Id)
		}
	}
	return nil
}

// coversUsers reports whether a list with that coverage has all certificates that its CA has revoked; those of CAs may be
// missing.
func coversUsers(value []byte) bool {
	const lastTag = 1 // 0 is where the list comes from, 1 that it has users' certificates only; those above exclude users'
	var fields []asn1.RawValue
	rest, err := asn1.Unmarshal(value, &fields)
	return err == nil && len(rest) == 0 && !slices.ContainsFunc(fields, func(f asn1.RawValue) bool { return f.Tag > lastTag && !bytes.Equal(f.Bytes, []byte{0}) })
}

// parseRevocations parses lists. Whether one of the CAs signed them is for replace to say: the CAs may change.
func parseRevocations(texts [][]byte, _ time.Time) (lists []*revocationList, err error) {
	seen := map[string]bool{}
	err = files.PEM(texts[0], "X509 CRL", func(der []byte) error {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return err
		}
		if err := checkWhole(list); err != nil {
			return err
		}
		if seen[string(list.RawIssuer)] {
			return fmt.Errorf("a second list of %s", list.Issuer)
		}
		seen[string(list.RawIssuer)] = true
		l := &revocationList{RevocationList: list, serials: map[string]bool{}}
		for i := range list.RevokedCertificateEntries {
			l.serials[string(list.RevokedCertificateEntries[i].SerialNumber.Bytes())] = true
		}
		list.RevokedCertificateEntries, list.RevokedCertificates = nil, nil //nolint:staticcheck // It is filled, too.
		lists = append(lists, l)
		return nil
	})
	return lists, err
}

// replace returns the lists in force when the file has these lists, or can't be read now and had them, and when these CAs
// are trusted; known were so before, nil at the start.
//
//   - A list of a CA that is not trusted is worth a warning. It is not verified, so it counts only for intermediate CAs of
//     its name, whose certificates it can but refuse.
//   - A list of a trusted CA must be signed by it, and not be older than its last one. If it is not, or if it is gone,
//     which is the error, then the last one stays in force: what is revoked stays so.
//   - A CA that is trusted from now on, whose list can't be used, has none to fall back on: its certificates are refused.
func (r revocations) replace(lists []*revocationList, unread error, cas, known *authorities) (next revocations, warnings []string, err error) {
	next = revocations{}
	for name, l := range r {
		if cas.names[name] && !l.untrusted {
			next[name] = l
		}
	}
	var problems []error
	given, bad := map[string]bool{}, map[string]error{}
	for _, l := range lists {
		name := string(l.RawIssuer)
		given[name] = true
		if !cas.names[name] {
			next[name] = &revocationList{RevocationList: l.RevocationList, serials: l.serials, untrusted: true}
			warnings = append(warnings, fmt.Sprintf("the revocation list of %s is not verified, and counts for intermediate CAs only: it is not among the trusted CAs", l.Issuer))
			continue
		}
		was := next[name]
		if err := l.mayReplace(was, cas.list); err != nil {
			problems, bad[name] = append(problems, err), err
			continue
		}
		if l.numberedBelow(was) {
			warnings = append(warnings, fmt.Sprintf("the revocation list of %s has number %v after %v: it is used, because it was issued later", l.Issuer, l.Number, was.Number))
		}
		next[name] = l
	}
	others := len(warnings) > 0
	for _, ca := range cas.list {
		name := string(ca.RawSubject)
		switch l := next[name]; {
		case given[name]:
		case l != nil && l.unusable == nil:
			problems = append(problems, fmt.Errorf("the list of %s is gone, and its last one stays in force: put it back, or an empty list of this CA if nothing is revoked any more, or remove the CA", ca.Subject))
			given[name] = true // a CA may have several certificates
		case l != nil && unread == nil:
			delete(next, name)
		}
		if next[name] == nil && others {
			warnings = append(warnings, fmt.Sprintf("no certificate of %s is revoked: this CA has no revocation list", ca.Subject))
		}
		if next[name] == nil && known != nil && !known.names[name] && (unread != nil || bad[name] != nil) {
			next[name] = &revocationList{unusable: errors.Join(unread, bad[name])}
		}
	}
	return next, warnings, errors.Join(problems...)
}

// mayReplace returns why a list may not replace another of its CA, nil if there is none.
func (l *revocationList) mayReplace(was *revocationList, cas []*x509.Certificate) error {
	if !slices.ContainsFunc(cas, func(ca *x509.Certificate) bool {
		return string(ca.RawSubject) == string(l.RawIssuer) && l.CheckSignatureFrom(ca) == nil
	}) {
		return fmt.Errorf("list of %s: none of the CAs signed it", l.Issuer)
	}
	if was == nil || was.unusable != nil {
		return nil
	}
	older := l.ThisUpdate.Before(was.ThisUpdate)
	if l.Number != nil && was.Number != nil {
		older = l.numberedBelow(was) && !l.ThisUpdate.After(was.ThisUpdate)
	}
	if older {
		return fmt.Errorf("list of %s: number %v of %s is older than number %v of %s, which stays in force", l.Issuer,
			l.Number, l.ThisUpdate.Format(time.RFC3339), was.Number, was.ThisUpdate.Format(time.RFC3339))
	}
	return nil
}

// numberedBelow reports whether both lists have numbers, and this one the lower.
func (l *revocationList) numberedBelow(was *revocationList) bool {
	return was != nil && was.unusable == nil && l.Number != nil && was.Number != nil && l.Number.Cmp(was.Number) < 0
}

// verified iterates over the lists that one of the CAs signed, in one order.
func (r revocations) verified(yield func(*revocationList) bool) {
	for _, issuer := range slices.Sorted(maps.Keys(r)) {
		if list := r[issuer]; !list.untrusted && list.unusable == nil && !yield(list) {
			return
		}
	}
}

// outdated returns a warning for each list whose CA should have issued a newer one. They are used nevertheless.
func (r revocations) outdated(now time.Time) (warnings []string) {
	for list := range r.verified {
		if !list.NextUpdate.IsZero() && now.After(list.NextUpdate) {
			warnings = append(warnings, fmt.Sprintf("the revocation list of %s is out of date since %s", list.Issuer, list.NextUpdate.Format(time.RFC3339)))
		}
	}
	return warnings
}

// nextUpdate returns when the first list is out of date; zero if no list says so.
func (r revocations) nextUpdate() (first time.Time) {
	for list := range r.verified {
		first = earlier(first, list.NextUpdate)
	}
	return first
}

// check returns an error if every chain has a revoked certificate.
func (r revocations) check(chains [][]*x509.Certificate) error {
	var err error
	for _, chain := range chains {
		chainErr := r.checkChain(chain)
		if chainErr == nil {
			return nil
		}
		err = chainErr
	}
	return err
}

func (r revocations) checkChain(chain []*x509.Certificate) error {
	if len(r) == 0 {
		return nil
	}
	for _, c := range chain {
		if list := r[string(c.RawIssuer)]; list != nil && list.has(c.SerialNumber) {
			if list.unusable != nil {
				return fmt.Errorf("certificate %s of %s may be revoked: %w", c.SerialNumber, c.Subject, list.unusable)
			}
			return fmt.Errorf("certificate %s of %s is revoked", c.SerialNumber, c.Subject)
		}
	}
	return nil
}
