package nodes

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/signed"
)

// Headers of a report.
const (
	nodeHeader      = "Setpoint-Node"
	timeHeader      = "Setpoint-Time"
	digestHeader    = "Setpoint-Digest"
	signatureHeader = "Setpoint-Signature"
)

// signature signs a report, with its body by digest, so that a forged report is refused before
// its body is read.
func signature(secret []byte, node, sent, digest string) string {
	return signed.Sign(secret, "setpoint-usage-v1", node, sent, digest)
}

// isSigned reports whether one of the secrets signed the headers.
func isSigned(secrets [][]byte, h http.Header) bool {
	ok := false
	for _, secret := range secrets {
		ok = signed.Equal(h.Get(signatureHeader), signature(secret, h.Get(nodeHeader), h.Get(timeHeader), h.Get(digestHeader))) || ok
	}
	return ok
}

// Bounds on a file of secrets: bytes per secret, and their number.
const (
	minSecret  = 16
	maxSecrets = 8
)

// ReadSecrets reads a file of secrets, one a line: the first one signs, and all are accepted,
// so that a secret can be rotated. It is read at each use.
func ReadSecrets(name string) ([][]byte, error) {
	text, err := files.Read(name, files.MaxSecretBytes)
	if err != nil {
		return nil, err
	}
	var secrets [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			secrets = append(secrets, line)
		}
	}
	if len(secrets) == 0 || len(secrets) > maxSecrets {
		return nil, fmt.Errorf("%s must have 1 to %d secrets, one per line, but has %d", name, maxSecrets, len(secrets))
	}
	for _, secret := range secrets {
		if len(secret) < minSecret {
			return nil, fmt.Errorf("%s has a secret of fewer than %d bytes: generate one with openssl rand -hex 32", name, minSecret)
		}
	}
	return secrets, nil
}

// TLS are the files of one side of mutual TLS, PEM. They are read at each handshake, so that
// they may be replaced.
type TLS struct {
	// CAFile has the authorities of the other side's certificate, CertFile this side's
	// certificate and KeyFile its key.
	CAFile, CertFile, KeyFile string
	// ServerName is the expected name in the server's certificate. Default, for a client: the
	// host of the address.
	ServerName string
}

// load reads the files. The system's authorities, which sign for anyone, are never trusted.
func (t TLS) load() (*tls.Certificate, *x509.CertPool, error) {
	pair, err := files.TLS(t).Pair()
	if err != nil {
		return nil, nil, err
	}
	pool, err := t.authorities()
	if err == nil && pair == nil {
		err = errors.New("a certificate and its key are required")
	}
	return pair, pool, err
}

func (t TLS) authorities() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, errors.New("authorities are required")
	}
	return files.TLS(t).Authorities()
}

// Check returns the problem of the files.
func (t TLS) Check() error {
	_, _, err := t.load()
	return err
}

// Server is the configuration of a server that requires client certificates.
func (t TLS) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, pool, err := t.load()
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*pair},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
			// A resumed session would not present a certificate that is no longer trusted.
			SessionTicketsDisabled: true,
		}, nil
	}}
}

// client is the configuration of a client of the server with that name.
func (t TLS) client(host string) (*tls.Config, error) {
	pair, pool, err := t.load()
	if err != nil {
		return nil, err
	}
	if t.ServerName != "" {
		host = t.ServerName
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*pair}, RootCAs: pool, ServerName: host}, nil
}

// Errors about a node's identity.
var (
	errUnsigned  = errors.New("the report is not signed with a secret of the agent")
	errOtherNode = errors.New("the certificate belongs to another node: its common name must be the id of the reporting node")
)

// isNode reports whether a connection's verified certificate is the node's.
func isNode(state *tls.ConnectionState, node string) bool {
	return state != nil && len(state.VerifiedChains) > 0 && len(state.PeerCertificates) > 0 && state.PeerCertificates[0].Subject.CommonName == node
}

// still returns why a certificate that was verified at the start of its connection is no longer
// trusted: it has expired, or its authority is no longer trusted.
func (t TLS) still(state *tls.ConnectionState, now time.Time) error {
	pool, err := t.authorities()
	if err != nil {
		return err
	}
	others := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		others.AddCert(c)
	}
	_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

// clockError means that a node's clock is too far off.
type clockError struct{ ahead, most time.Duration }

// Error implements error.
func (e *clockError) Error() string {
	return fmt.Sprintf("the node's clock differs by %s from the agent's, more than the allowed %s: synchronize both clocks, for example by NTP", e.ahead.Round(time.Millisecond), e.most)
}
