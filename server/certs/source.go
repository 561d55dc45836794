package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/bounded"
)

// Source builds TLS configurations that follow the files. Its methods may be called
// concurrently.
type Source struct {
	options Options
	// used is the material of new connections.
	used        atomic.Pointer[generation]
	generations atomic.Uint64
	refused     atomic.Uint64 // see Status.Refused

	looking  sync.Mutex // locked while the files are checked
	inputs   inputs     // guarded by looking
	mu       sync.Mutex
	err      error     // guarded by mu; error of the files
	warnings []string  // guarded by mu; see Status
	loaded   time.Time // guarded by mu; when the used files were loaded
	reloads  uint64    // guarded by mu
	failures uint64    // guarded by mu
	warned   time.Time // guarded by mu; last call of OnExpiring
}

// generation is the content of the files at one time, and a server's configuration with
// it; nil without a certificate.
type generation struct {
	*material
	server *tls.Config
	// verified caches results for connections that older CAs admitted, by the address of
	// the list of their certificates.
	verified *bounded.Map[**x509.Certificate, verification]
}

// verification is the result for a connection, and when it was found.
type verification struct {
	err error
	at  time.Time
}

const (
	// maxVerified limits these cached results.
	maxVerified = 4096
	// refusalAge is how long one that refuses counts: a CA that is not valid yet, by the clock of who has renewed it, will be.
	refusalAge = time.Second
)

// New loads the files, which must all be valid. It waits until they have settled, for a
// second at most. Its error joins a FileError for each that is not.
func New(options Options) (*Source, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s := &Source{options: options.withDefaults(), inputs: options.inputs()}
	s.read(context.Background())
	m := s.inputs.combine(nil)
	errs := s.inputs.errs(m)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(m)
	s.inputs.pair.changed, s.inputs.cas.changed, s.inputs.lists.changed = false, false, false
	s.warnings = s.allWarnings()
	s.warn()
	return s, nil
}

// Run checks the files repeatedly until the context ends.
func (s *Source) Run(ctx context.Context) {
	ticker := time.NewTicker(s.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = s.check(ctx)
		}
	}
}

// Check checks the files now, waits until they have settled, and uses them. The error is of
// files whose previous contents remain in use.
func (s *Source) Check() error { return s.check(context.Background()) }

func (s *Source) check(ctx context.Context) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.read(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in, used := &s.inputs, s.used.Load().material
	if in.changed() || used.unread && in.lists.err == nil {
		s.use(in.combine(used))
		s.warned = time.Time{}
	}
	s.report()
	s.warn()
	return s.err
}

// read reads the files, and once more if any has changed: those of one Secret change together, and some may have been read
// just before.
func (s *Source) read(ctx context.Context) {
	if s.readOnce(ctx); s.inputs.changed() {
		s.readOnce(ctx)
	}
}

// readOnce reads the files. They settle at the same time.
func (s *Source) readOnce(ctx context.Context) {
	var reading sync.WaitGroup
	reading.Go(func() { s.inputs.pair.read(ctx, s.options.Settle, s.options.Clock) })
	reading.Go(func() { s.inputs.cas.read(ctx, s.options.Settle, s.options.Clock) })
	reading.Go(func() { s.inputs.lists.read(ctx, s.options.Settle, s.options.Clock) })
	reading.Wait()
}

// report calls OnChange for each part that has changed, and once for an error and its end; and
// OnWarning for what is new.
func (s *Source) report() {
	in := &s.inputs
	errs, loaded := in.errs(s.used.Load().material), uint64(0)
	for i, part := range []struct {
		*report
		changed *bool
	}{{&in.pair.report, &in.pair.changed}, {&in.cas.report, &in.cas.changed}, {&in.lists.report, &in.lists.changed}} {
		err, told := errs[i], ""
		if err != nil {
			told = err.Error()
		}
		switch {
		case err != nil && told != part.told:
			s.failures++
			s.options.OnChange(files.Event{Paths: part.paths, Err: err})
		case err == nil && *part.changed:
			loaded = 1
			fallthrough
		case err == nil && part.told != "":
			s.options.OnChange(files.Event{Paths: part.paths})
		}
		part.told, *part.changed = told, false
	}
	s.reloads += loaded
	s.err = errors.Join(errs[:]...)
	was := s.warnings
	s.warnings = s.allWarnings()
	for _, warning := range s.warnings {
		if !slices.Contains(was, warning) {
			s.options.OnWarning(warning)
		}
	}
}

func (s *Source) allWarnings() []string {
	used := s.used.Load()
	return slices.Concat(used.warnings, used.revoked.outdated(s.options.Clock()))
}

// warn warns of a certificate that expires soon, or has expired.
func (s *Source) warn() {
	notAfter, now := s.used.Load().notAfter, s.options.Clock()
	if notAfter.IsZero() || now.Before(notAfter.Add(-s.options.ExpiryWarning)) {
		return
	}
	every := expiryWarningInterval
	if !now.Before(notAfter) {
		every = expiredWarningInterval
	}
	if s.warned.IsZero() || now.Sub(s.warned) >= every || s.warned.Before(notAfter) && !now.Before(notAfter) {
		s.warned = now
		s.options.OnExpiring(notAfter)
	}
}

// use switches new connections to the material. The caller has locked mu.
func (s *Source) use(m *material) {
	g := &generation{material: m, verified: bounded.New[**x509.Certificate, verification](maxVerified)}
	if m.cert != nil {
		g.server = s.serverConfig(m)
	}
	s.used.Store(g)
	s.generations.Add(1)
	s.loaded = s.options.Clock()
}

// Generation counts the loaded versions of the files, including New's.
func (s *Source) Generation() uint64 { return s.generations.Load() }

// CheckClient returns why the certificate of an open connection, which its handshake
// verified, is no longer valid: it is revoked, or none of its CAs is trusted. It does
// not check expiry. It allocates nothing unless the CAs have changed since.
func (s *Source) CheckClient(state *tls.ConnectionState) error {
	used := s.used.Load()
	if used.cas == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	var revoked error
	for _, chain := range state.VerifiedChains {
		if !used.trusted[string(chain[len(chain)-1].Raw)] {
			continue
		}
		if revoked = used.revoked.checkChain(chain); revoked == nil {
			return nil
		}
	}
	if revoked != nil {
		return revoked
	}
	return used.verifyClient(state, s.options.Clock())
}

// verifyClient repeats the handshake's verification, once for each connection that it does not refuse: the CA's
// certificate may be a new one with the same key.
func (g *generation) verifyClient(state *tls.ConnectionState, now time.Time) error {
	connection := &state.PeerCertificates[0] // each connection has its own list
	if last, known := g.verified.Get(connection); known && (last.err == nil || now.Sub(last.at) < refusalAge) {
		return last.err
	}
	options := x509.VerifyOptions{
		Roots: g.cas, CurrentTime: now, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := state.PeerCertificates[0].Verify(options)
	if err == nil {
		err = g.revoked.check(chains)
	}
	g.verified.Put(connection, verification{err, now})
	return err
}

// protocols are what ALPN offers.
var protocols = []string{"h2", "http/1.1"}

func (s *Source) serverConfig(m *material) *tls.Config {
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   protocols,
		Certificates: []tls.Certificate{*m.cert},
		Time:         s.options.Clock,
	}
	if s.options.ClientAuth == None {
		return config
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	if s.options.ClientAuth == Require {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	config.ClientCAs = m.cas
	config.SessionTicketsDisabled = true // see the package's comment
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := m.revoked.check(state.VerifiedChains)
		if err != nil {
			s.refused.Add(1)
		}
		return err
	}
	return config
}

// ServerConfig returns a configuration for servers, which follows the files. It must not
// be changed; a clone may be.
func (s *Source) ServerConfig() (*tls.Config, error) {
	used := s.used.Load().server
	if used == nil {
		return nil, errors.New("certificates: a server needs a certificate and its key")
	}
	config := used.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.used.Load().server, nil }
	return config, nil
}

// ClientConfig returns a configuration for clients of one server, which follows the files.
// The name must be in the server's certificate. Empty: the host of the dialled address
// (crypto/tls, net/http and gRPC fill it in); an IP address must be given here.
func (s *Source) ClientConfig(serverName string) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		ServerName: serverName,
		Time:       s.options.Clock,
		// RootCAs can't follow a file. VerifyConnection verifies the certificate
		// instead, for every connection, including resumed ones.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return s.verifyServer(serverName, state) },
	}
	if s.options.CertFile != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return s.used.Load().cert, nil
		}
	}
	return config
}

// verifyServer does what crypto/tls does without InsecureSkipVerify.
func (s *Source) verifyServer(name string, state tls.ConnectionState) error {
	used := s.used.Load()
	name = cmp.Or(name, state.ServerName)
	if len(state.PeerCertificates) == 0 || name == "" {
		return errors.New("certificates: the server's certificate and name are needed to verify it; an IP address has no known name")
	}
	options := x509.VerifyOptions{
		Roots: used.cas, CurrentTime: s.options.Clock(), DNSName: name, Intermediates: x509.NewCertPool(),
	}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := state.PeerCertificates[0].Verify(options)
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return used.revoked.check(chains)
}
