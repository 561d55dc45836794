package setpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// TLS sets the CAs to trust and the client certificate. The zero value trusts the system's CAs
// and has no client certificate.
type TLS struct {
	// CAFile is a PEM file of the trusted CAs, read at each handshake, so it may be replaced.
	// While one of the files is broken, what was read last stands. Empty: the system's.
	CAFile string
	// CertFile and KeyFile are the client's own certificate, PEM; read at each
	// handshake, so they may be replaced. Both or neither. A connection whose certificate was
	// replaced stays in use until the server refuses it.
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
	e := encrypted{settings: func() (*tls.Config, error) { return c.tlsConfig.Clone(), nil }, open: new(sync.Map)}
	if c.tlsConfig == nil {
		if c.tls == nil {
			c.tls = &TLS{}
		}
		e.settings = lastRead(files.TLS(*c.tls).Client)
	}
	settings, err := e.settings()
	if err != nil {
		return nil, fmt.Errorf("setpoint: %w", err)
	}
	e.TransportCredentials = credentials.NewTLS(settings)
	return e, nil
}

// lastRead reads settings; while a file of theirs is broken, as one that somebody writes, it returns those that it read last.
func lastRead(read func() (*tls.Config, error)) func() (*tls.Config, error) {
	var last atomic.Pointer[tls.Config]
	return func() (*tls.Config, error) {
		now, err := read()
		if err == nil {
			last.Store(now)
		} else if now = last.Load(); now == nil {
			return nil, err
		}
		return now.Clone(), nil
	}
}

// encrypted is TLS with the settings of each handshake's time, which remembers the certificates
// that it showed, with an error that says what to do.
type encrypted struct {
	credentials.TransportCredentials

	settings func() (*tls.Config, error)
	// open are the connections that showed a certificate, a *shown by its connectionKey.
	open *sync.Map
}

// ClientHandshake implements credentials.TransportCredentials.
func (e encrypted) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	settings, err := e.settings()
	if err != nil {
		return nil, nil, err
	}
	var mine *shown
	if certificate := settings.GetClientCertificate; certificate != nil {
		settings.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := certificate(request)
			if err == nil {
				mine = &shown{own: own, now: func() (*tls.Certificate, error) { return certificate(request) }}
			}
			return own, err
		}
	}
	secured, info, err := credentials.NewTLS(settings).ClientHandshake(ctx, authority, conn)
	if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
		err = fmt.Errorf("%w: the server speaks no TLS: on a trusted network do without (insecure)", err)
	}
	if key := connectionKey(info); err == nil && mine != nil && key != nil {
		mine.Conn, mine.closed = secured, func() { e.open.Delete(key) }
		e.open.Store(key, mine)
		secured = mine
	}
	return secured, info, err
}

// connectionKey identifies a connection: each has a list of its own. Nil: it is not encrypted.
func connectionKey(info credentials.AuthInfo) **x509.Certificate {
	if t, ok := info.(credentials.TLSInfo); ok && len(t.State.PeerCertificates) > 0 {
		return &t.State.PeerCertificates[0]
	}
	return nil
}

// shown is a connection that showed a certificate of the client's.
type shown struct {
	net.Conn

	own    *tls.Certificate
	now    func() (*tls.Certificate, error) // what a new connection would show
	closed func()
}

// Close implements net.Conn.
func (s *shown) Close() error {
	s.closed()
	return s.Conn.Close()
}

// renewed reports whether another attempt of a call that was refused as UNAUTHENTICATED shows
// another certificate: it closes the connection if that showed one that has been replaced since.
func (e encrypted) renewed(err error, over *peer.Peer) bool {
	if status.Code(err) != codes.Unauthenticated || over == nil || e.open == nil {
		return false
	}
	known, _ := e.open.Load(connectionKey(over.AuthInfo))
	old, ok := known.(*shown)
	if !ok {
		return false
	}
	now, err := old.now()
	if err != nil || slices.EqualFunc(now.Certificate, old.own.Certificate, bytes.Equal) {
		return false
	}
	_ = old.Close() // calls on it are refused, too
	return true
}

// unary is an interceptor of attempts: it makes another one if that shows another certificate. The
// server did nothing about the one that it refused.
func (e encrypted) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	var over peer.Peer
	err := invoke(ctx, method, req, reply, cc, append(slices.Clip(options), grpc.Peer(&over))...)
	if e.renewed(err, &over) {
		return invoke(ctx, method, req, reply, cc, options...)
	}
	return err
}

// Clone implements credentials.TransportCredentials.
func (e encrypted) Clone() credentials.TransportCredentials {
	e.TransportCredentials = e.TransportCredentials.Clone()
	return e
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
		err = fmt.Errorf("%w: the server ended the connection without a word: if it speaks TLS, say what to trust (tls-ca-file)", err)
	}
	return n, err
}
