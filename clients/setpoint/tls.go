package setpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

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

// OnLoopback reports whether a target is addresses of this machine only, localhost or one of the
// loopback interface, with which [New] does without TLS.
func OnLoopback(target string) bool {
	_, addresses, err := readTarget(target)
	return err == nil && allOnLoopback(addresses)
}

func allOnLoopback(addresses []string) bool {
	for _, address := range addresses {
		host, _, _ := net.SplitHostPort(address)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return len(addresses) > 0
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
	if c.insecure || c.local && asked == 0 {
		return plain{insecure.NewCredentials()}, nil
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
	return encrypted{credentials.NewTLS(settings)}, nil
}

// encrypted is TLS with an error that says what to do.
type encrypted struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (e encrypted) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := e.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
		err = fmt.Errorf("%w: the server speaks no TLS: on a trusted network do without (insecure)", err)
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (e encrypted) Clone() credentials.TransportCredentials {
	return encrypted{e.TransportCredentials.Clone()}
}

// plain is no encryption, with an error that says what to do.
type plain struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (p plain) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	bare, info, err := p.TransportCredentials.ClientHandshake(ctx, authority, conn)
	return &answered{Conn: bare}, info, err
}

// Clone implements credentials.TransportCredentials.
func (p plain) Clone() credentials.TransportCredentials { return plain{p.TransportCredentials.Clone()} }

// answered is a connection that knows whether the server ever said anything.
type answered struct {
	net.Conn

	has bool
}

// Read implements net.Conn.
func (a *answered) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	switch {
	case n > 0 && !a.has && bytes.HasPrefix(b[:n], []byte("HTTP/1")):
		return 0, errors.New("this port speaks HTTP/1, not gRPC: give that of --grpc-address")
	case n > 0:
		a.has = true
	case errors.Is(err, net.ErrClosed) && !a.has: // by gRPC itself
		err = fmt.Errorf("%w: there was no answer within %v", err, connectParams.MinConnectTimeout)
	case err != nil && !a.has:
		err = fmt.Errorf("%w: the server ended the connection without a word: if it speaks TLS, say what to trust", err)
	}
	return n, err
}
