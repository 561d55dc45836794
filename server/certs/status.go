package certs

import "time"

// Status is the state of a Source, for metrics.
type Status struct {
	// NotAfter is when the own certificate, or one of its intermediates, expires. Zero
	// without a certificate.
	NotAfter time.Time
	// CAsNotAfter is when the first of the CAs expires: after that, certificates signed
	// by it are refused. Zero without CAs.
	CAsNotAfter time.Time
	// CRLNextUpdate is when the first of the revocation lists becomes outdated. Zero without
	// lists, or if no list has such a time.
	CRLNextUpdate time.Time
	// Loaded is when files in use were loaded last.
	Loaded time.Time
	// Err is the error of the files; nil if there is none.
	Err error
	// Warnings are of lists that are outdated, or of CAs that are not trusted, and of an own certificate that is not for servers.
	Warnings []string
	// Reloads and Failures count the changes of the files that were applied and
	// refused, without New's load.
	Reloads, Failures uint64
	// Refused counts the handshakes of clients whose certificate is revoked. Those of others,
	// such as a certificate of an unknown CA, crypto/tls refuses before it asks.
	Refused uint64
}

// Status returns the state.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.used.Load()
	return Status{
		NotAfter: used.notAfter, CAsNotAfter: used.casNotAfter, CRLNextUpdate: used.revoked.nextUpdate(),
		Loaded: s.loaded, Err: s.err, Warnings: s.warnings, Reloads: s.reloads, Failures: s.failures, Refused: s.refused.Load(),
	}
}
