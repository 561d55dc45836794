package files

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"
)

// TLS names the files of one side of TLS connections, in PEM.
type TLS struct {
	// CAFile has the authorities that sign the other side's certificate. Empty: the system's.
	CAFile string
	// CertFile and KeyFile are this side's certificate and key. Both or neither.
	CertFile, KeyFile string
	// ServerName is the name that the server's certificate must have. Empty: the host
	// of the address.
	ServerName string
}

// TLSError is an error in some of the files.
type TLSError struct {
	// Settings are the settings that name the files: caFile, certFile, keyFile.
	Settings []string
	// Paths of the files.
	Paths []string
	// Err is an [fs.PathError] if a file can't be read, else the error in the files'
	// content.
	Err error
}

// Error implements error.
func (e *TLSError) Error() string {
	if _, ok := errors.AsType[*fs.PathError](e.Err); ok {
		return e.Err.Error()
	}
	return strings.Join(e.Paths, " and ") + " " + e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *TLSError) Unwrap() error { return e.Err }

func readPEM(setting, path string) ([]byte, error) {
	text, err := Read(path, MaxSecretBytes)
	if err != nil {
		return nil, &TLSError{[]string{setting}, []string{path}, err}
	}
	return text, nil
}

// ParseAuthorities parses trusted certificates, at least one.
func ParseAuthorities(pem []byte) (*x509.CertPool, error) {
	certs, err := ParseCertificates(pem)
	if err != nil {
		return nil, fmt.Errorf("must be certificates in PEM: %w", err)
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}

// Authorities reads the trusted certificates; nil: the system's.
func (t TLS) Authorities() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	pem, err := readPEM("caFile", t.CAFile)
	if err != nil {
		return nil, err
	}
	pool, err := ParseAuthorities(pem)
	if err != nil {
		return nil, &TLSError{[]string{"caFile"}, []string{t.CAFile}, err}
	}
	return pool, nil
}

// pairTries limits how often a pair that is replaced meanwhile is read.
const pairTries = 3

// Pair reads the certificate and its key; nil without files. It reads again if one was
// replaced while it read the other, as when the links of a Secret are swapped.
func (t TLS) Pair() (*tls.Certificate, error) {
	both := []string{"certFile", "keyFile"}
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		return nil, &TLSError{both, []string{"the certificate", "its key"}, errors.New("belong together: give both files or neither")}
	case t.CertFile == "":
		return nil, nil
	}
	cert, err := readPEM("certFile", t.CertFile)
	for range pairTries {
		if err != nil {
			return nil, err
		}
		key, err := readPEM("keyFile", t.KeyFile)
		if err != nil {
			return nil, err
		}
		pair, wrongPair := ParsePair(cert, key)
		if wrongPair == nil {
			return &pair, nil
		}
		again, err := readPEM("certFile", t.CertFile)
		if err != nil || bytes.Equal(again, cert) {
			return nil, &TLSError{both, []string{t.CertFile, t.KeyFile}, fmt.Errorf("are not a certificate and its key: %w", wrongPair)}
		}
		cert = again
	}
	return nil, &TLSError{both, []string{t.CertFile, t.KeyFile}, errors.New("keep changing while they are read")}
}

// client is a client's configuration with the authorities of now, and its pair of now.
func (t TLS) client() (*tls.Config, *tls.Certificate, error) {
	authorities, err := t.Authorities()
	if err != nil {
		return nil, nil, err
	}
	pair, err := t.Pair()
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, RootCAs: authorities}, pair, err
}

// Config builds a client's configuration from the current files, for a connection to an
// address, host:port.
func (t TLS) Config(address string) (*tls.Config, error) {
	if t.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		t.ServerName = host
	}
	config, pair, err := t.client()
	if err != nil {
		return nil, err
	}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	return config, nil
}

// Client builds the configuration of all of a client's connections: it reads the
// authorities now, and the client's own pair at each handshake, so that the pair may be
// replaced. While it can't be read, that of now stands.
func (t TLS) Client() (*tls.Config, error) {
	config, pair, err := t.client()
	if err != nil {
		return nil, err
	}
	if pair != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if now, err := t.Pair(); err == nil {
				return now, nil
			}
			return pair, nil
		}
	}
	return config, nil
}

// Dial makes connections, as net.Dialer does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// TLS returns a Dial that makes TLS connections, each with a new configuration, such as
// TLS.Config's.
func (dial Dial) TLS(config func(address string) (*tls.Config, error)) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		settings, err := config(address)
		if err != nil {
			return nil, err
		}
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, settings)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, err
		}
		return conn, nil
	}
}

// Within limits the time to establish a connection: net/http dials without the deadline of the
// request it dials for.
func (dial Dial) Within(timeout time.Duration) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}
