package setpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TLS says what to trust and who to be. The zero value trusts what the system trusts
// and shows no certificate.
type TLS struct {
	// CAFile holds the certificates that are trusted, PEM; read once. Empty: the
	// system's.
	CAFile string
	// CertFile and KeyFile are the client's own certificate, PEM; read at each
	// handshake, so they may be replaced. Both or neither.
	CertFile, KeyFile string
	// ServerName is what the server's certificate must be for. Empty: the host of the
	// address.
	ServerName string
}

func (t *TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("setpoint: read certificates to trust: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("setpoint: %s holds no certificates", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("setpoint: a client certificate takes both CertFile and KeyFile")
	}
	if t.CertFile != "" {
		if _, err := t.certificate(nil); err != nil {
			return nil, err
		}
		c.GetClientCertificate = t.certificate
	}
	return c, nil
}

func (t *TLS) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("setpoint: read client certificate: %w", err)
	}
	return &pair, nil
}

// serverName is what all certificates must be for. Empty: each for its own address.
func (c *config) serverName() string {
	switch {
	case c.tls != nil:
		return c.tls.ServerName
	case c.tlsConfig != nil:
		return c.tlsConfig.ServerName
	}
	return ""
}

// credentials returns the transport that the options ask for.
func (c *config) credentials() (credentials.TransportCredentials, error) {
	asked := 0
	for _, is := range []bool{c.insecure, c.tls != nil, c.tlsConfig != nil} {
		if is {
			asked++
		}
	}
	if asked > 1 {
		return nil, errors.New("setpoint: WithInsecure, WithTLS and WithTLSConfig exclude each other")
	}
	if c.insecure {
		return insecure.NewCredentials(), nil
	}
	settings := c.tlsConfig
	if settings == nil {
		if c.tls == nil {
			c.tls = &TLS{}
		}
		var err error
		if settings, err = c.tls.config(); err != nil {
			return nil, err
		}
	}
	return credentials.NewTLS(settings), nil
}
