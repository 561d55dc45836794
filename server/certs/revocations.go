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

// revocations are revoked serial numbers, by their issuer's name (DER).
type revocations map[string]*revocationList

type revocationList struct {
	issuer     string
	nextUpdate time.Time
	serials    map[string]bool
}

// maxSerial is the length of serial numbers that are looked up without an allocation; by
// RFC 5280 they have 20 bytes at most.
const maxSerial = 32

// has reports whether a serial number is revoked. The list has them as bytes.
func (l *revocationList) has(serial *big.Int) bool {
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

// parseRevocations parses lists and checks that one of the CAs signed each.
func parseRevocations(data []byte, cas []*x509.Certificate) (revocations, error) {
	revoked := revocations{}
	err := files.PEM(data, "X509 CRL", func(der []byte) error {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return err
		}
		if !signedByOneOf(list, cas) {
			return fmt.Errorf("list of %s: none of the CAs signed it", list.Issuer)
		}
		if err := checkWhole(list); err != nil {
			return err
		}
		l := &revocationList{list.Issuer.String(), list.NextUpdate, map[string]bool{}}
		for i := range list.RevokedCertificateEntries {
			l.serials[string(list.RevokedCertificateEntries[i].SerialNumber.Bytes())] = true
		}
		if other := revoked[string(list.RawIssuer)]; other != nil {
			return fmt.Errorf("a second list of %s", list.Issuer)
		}
		revoked[string(list.RawIssuer)] = l
		return nil
	})
	return revoked, err
}

func signedByOneOf(list *x509.RevocationList, cas []*x509.Certificate) bool {
	for _, ca := range cas {
		if string(ca.RawSubject) == string(list.RawIssuer) && list.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}

// outdated returns an error for lists whose CA should have issued newer ones. They are
// used nevertheless.
func (r revocations) outdated(now time.Time) error {
	var problems []error
	for _, issuer := range slices.Sorted(maps.Keys(r)) { // in one order: an error that reads otherwise is told again
		if list := r[issuer]; !list.nextUpdate.IsZero() && now.After(list.nextUpdate) {
			problems = append(problems, fmt.Errorf("the revocation list of %s is out of date since %s", list.issuer, list.nextUpdate.Format(time.RFC3339)))
		}
	}
	return errors.Join(problems...)
}

// nextUpdate returns when the first list is out of date; zero if no list says so.
func (r revocations) nextUpdate() (first time.Time) {
	for _, list := range r {
		first = earlier(first, list.nextUpdate)
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
			return fmt.Errorf("certificate %s of %s is revoked", c.SerialNumber, c.Subject)
		}
	}
	return nil
}
