package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Source makes TLS configurations that follow the files. Its methods may be called
// concurrently.
type Source struct {
	options Options
	// used is what new connections use.
	used atomic.Pointer[generation]

	mu       sync.Mutex
	err      error     // guarded by mu; what is wrong with the files
	loaded   time.Time // guarded by mu; when what is used was loaded
	reloads  uint64    // guarded by mu
	failures uint64    // guarded by mu
	warned   time.Time // guarded by mu; when OnExpiring was called last
}

// generation is what the files said at one time, and a server's configuration of it; nil
// without a certificate.
type generation struct {
	*material
	server *tls.Config
}

// New loads the files, which all must be right.
func New(options Options) (*Source, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s := &Source{options: options.withDefaults()}
	m, err := s.load(nil)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(m)
	s.report(m.revoked.outdated(s.options.Clock()))
	s.warn()
	return s, nil
}

// Run looks at the files again and again until the context ends.
func (s *Source) Run(ctx context.Context) {
	ticker := time.NewTicker(s.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = s.Check()
		}
	}
}

// Check looks at the files now, and uses what they say. It returns what is wrong with
// them; then what was used before still is.
func (s *Source) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.used.Load().material
	m, err := s.load(used)
	if err == nil {
		err = m.revoked.outdated(s.options.Clock())
		if m != used {
			s.use(m)
			s.reloads++
			s.err, s.warned = nil, time.Time{}
			s.options.OnChange(nil)
		}
	} else if s.err == nil || s.err.Error() != err.Error() {
		s.failures++
	}
	s.report(err)
	s.warn()
	return err
}

// load returns what the files say, which is what is used if they are the same.
func (s *Source) load(used *material) (*material, error) {
	c, err := s.options.read()
	if err != nil {
		return nil, err
	}
	if used != nil && c.equal(used.contents) {
		return used, nil
	}
	return s.options.parse(c, s.options.Clock())
}

// report tells of a problem, once, and that there is none any more.
func (s *Source) report(err error) {
	was := s.err
	s.err = err
	if (err == nil) != (was == nil) || err != nil && err.Error() != was.Error() {
		s.options.OnChange(err)
	}
}

// warn warns of a certificate that expires soon.
func (s *Source) warn() {
	notAfter, now := s.used.Load().notAfter, s.options.Clock()
	if notAfter.IsZero() || now.Before(notAfter.Add(-s.options.ExpiryWarning)) {
		return
	}
	if s.warned.IsZero() || now.Sub(s.warned) >= expiryWarningInterval {
		s.warned = now
		s.options.OnExpiring(notAfter)
	}
}

// use has new connections use what files say. It needs mu.
func (s *Source) use(m *material) {
	g := &generation{material: m}
	if m.cert != nil {
		g.server = s.serverConfig(m)
	}
	s.used.Store(g)
	s.loaded = s.options.Clock()
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
	config.VerifyConnection = func(state tls.ConnectionState) error { return m.revoked.check(state.VerifiedChains) }
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
// The name must be in the server's certificate. Empty: it is that of the address which is
// dialled (crypto/tls, net/http and gRPC fill it in); an IP address must be given here.
func (s *Source) ClientConfig(serverName string) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		ServerName: serverName,
		Time:       s.options.Clock,
		// RootCAs can't follow a file. The certificate is verified below instead, for
		// every connection, resumed ones included.
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

// verifyServer is what crypto/tls does without InsecureSkipVerify.
func (s *Source) verifyServer(name string, state tls.ConnectionState) error {
	used := s.used.Load()
	if name == "" {
		name = state.ServerName
	}
	if len(state.PeerCertificates) == 0 || name == "" {
		return errors.New("certificates: the server's certificate and name are needed to verify it; of an IP address the name is not known")
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
