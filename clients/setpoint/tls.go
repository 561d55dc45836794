package setpoint

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// TLS sets the CAs to trust and the client certificate. The zero value trusts the system's CAs
// and has no client certificate.
type TLS struct {
	// CAFile is a PEM file of the trusted CAs, read once. Empty: the system's.
	CAFile string
	// CertFile and KeyFile are the client's own certificate, PEM; read at each
	// handshake, so they may be replaced. Both or neither.
	CertFile, KeyFile string
	// ServerName is the expected name in the server's certificate. Empty: the host of the
	// address.
	ServerName string
}

// serverName is the expected name in all certificates. Empty: each one's own address.
func (c *config) serverName() string {
	switch {
	case c.tls != nil:
		return c.tls.ServerName
	case c.tlsConfig != nil:
		return c.tlsConfig.ServerName
	}
	return ""
}

// credentials returns the transport that the options select.
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
		if settings, err = files.TLS(*c.tls).Client(); err != nil {
			return nil, fmt.Errorf("setpoint: %w", err)
		}
	}
	return credentials.NewTLS(settings), nil
}
