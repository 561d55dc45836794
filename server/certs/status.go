package certs

import "time"

// Status is the state of a Source, for metrics.
type Status struct {
	// NotAfter is when the own certificate, or an intermediate one with it, expires. Zero
	// without a certificate.
	NotAfter time.Time
	// CAsNotAfter is when the first of the CAs expires: after that, what it signed is
	// refused. Zero without CAs.
	CAsNotAfter time.Time
	// CRLNextUpdate is when the first of the revocation lists becomes outdated. Zero without
	// lists, or if no list has such a time.
	CRLNextUpdate time.Time
	// Loaded is when what is used was loaded.
	Loaded time.Time
	// Err is what is wrong with the files; nil if nothing is.
	Err error
	// Reloads and Failures are how often a change of the files was taken, and refused;
	// that New has loaded them is not among them.
	Reloads, Failures uint64
}

// Status returns the state.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.used.Load()
	return Status{
		NotAfter: used.notAfter, CAsNotAfter: used.casNotAfter, CRLNextUpdate: used.revoked.nextUpdate(),
		Loaded: s.loaded, Err: s.err, Reloads: s.reloads, Failures: s.failures,
	}
}
