package samples

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// maxSecretBytes bounds a file with a credential or certificates.
const maxSecretBytes = 1 << 20

// TLS says what to trust and who to be. Its files are read at each handshake, so they may
// be replaced.
type TLS struct {
	// CAFile holds the certificates that are trusted, PEM. Default: the system's.
	CAFile string `json:"caFile,omitempty"`
	// CertFile is the client's own certificate, PEM. Default: it shows none.
	CertFile string `json:"certFile,omitempty"`
	// KeyFile is the key of CertFile. Required with it.
	KeyFile string `json:"keyFile,omitempty"`
	// ServerName is what the server's certificate must be for. Default: the host of the
	// address.
	ServerName string `json:"serverName,omitempty"`
}

func (t *TLS) problems() problems {
	var p problems
	if (t.CertFile == "") != (t.KeyFile == "") {
		p.add("certFile", "and keyFile belong together: give both or neither")
	}
	return p
}

// config reads the files.
func (t *TLS) config(address string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if c.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		c.ServerName = host
	}
	if t.CAFile != "" {
		pem, err := readFile(t.CAFile)
		if err != nil {
			return nil, failed(Unprepared, "tls.caFile %s", reasonOf(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, failed(Unprepared, "tls.caFile holds no certificate")
		}
	}
	if t.CertFile != "" {
		cert, err := readFile(t.CertFile)
		if err != nil {
			return nil, failed(Unprepared, "tls.certFile %s", reasonOf(err))
		}
		key, err := readFile(t.KeyFile)
		if err != nil {
			return nil, failed(Unprepared, "tls.keyFile %s", reasonOf(err))
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, failed(Unprepared, "tls.certFile and tls.keyFile hold no certificate with its key: %s", shorten(err.Error(), maxQuoted))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// dialer makes connections.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// within bounds how long a connection is being made.
func (d dialer) within(timeout time.Duration) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return d(ctx, network, address)
	}
}

// over connects with TLS on what dial connects.
func (t *TLS) over(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := t.config(address)
		if err != nil {
			return nil, err
		}
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, c)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, err
		}
		return conn, nil
	}
}

// secretFile is a credential in a file.
type secretFile struct {
	// key is the setting that names the file, for errors.
	key, name string
	log       *zap.Logger

	mu   sync.Mutex
	last string      // guarded by mu; empty: none was read yet
	info os.FileInfo // guarded by mu; of the file when last was read
	// problem is why it can't be read any more, empty: it can. Guarded by mu.
	problem string
}

// read returns the file's text without the space around it. The file is read again when it
// is not the one read last, by identity, time and size; while it is being replaced the text
// read last counts.
func (f *secretFile) read() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.name)
	if err == nil && f.last != "" && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		f.note("")
		return f.last, nil
	}
	var text []byte
	if err == nil {
		text, err = readFile(f.name)
	}
	secret := strings.TrimSpace(string(text))
	switch {
	case err == nil && strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r == 0x7f }):
		// A header can't hold it, and the error of one that does would quote it.
		return "", failed(Unprepared, "%s holds more than one line, or control characters", f.key)
	case err == nil && secret != "":
		f.last, f.info = secret, info
		f.note("")
	case f.last != "": // it is being replaced
		problem := f.key + " is empty"
		if err != nil {
			problem = f.key + " " + reasonOf(err)
		}
		f.note(problem)
	case err != nil:
		return "", failed(Unprepared, "%s %s", f.key, reasonOf(err))
	default:
		return "", failed(Unprepared, "%s is empty", f.key)
	}
	return f.last, nil
}

// note logs why the file can't be read any more, once, and that it is read again. The lock is
// held.
func (f *secretFile) note(problem string) {
	before := f.problem
	f.problem = problem
	switch {
	case problem == before:
	case problem != "":
		f.log.Error("file not read, what it held before counts", zap.String("file", f.name), zap.String("error", problem))
	default:
		f.log.Info("file read again", zap.String("file", f.name))
	}
}

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretBytes+1))
	if err == nil && len(text) > maxSecretBytes {
		err = errors.New("is larger than 1 MiB")
	}
	return text, err
}

// reasonOf is why a file can't be read, without its name, which is the operator's.
func reasonOf(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return "can't be read: " + shorten(err.Error(), maxQuoted)
}
