package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/files"
)

// Server is the address of the calls. The zero value of a field is its default where one is
// named.
type Server struct {
	// URL is the prefix of the calls' paths, such as https://scheduler:8443/setpoint. It has no
	// user, query or fragment. Required.
	URL string
	// KeyFile has the signing keys, NAME:SECRET on each line; reloaded when it changes.
	// Required.
	KeyFile string
	// CAFile has the trusted certificates, PEM; reloaded when it changes. Default: the
	// system's.
	CAFile string
	// CertFile and KeyOfCertFile are the agent's own certificate and its key, PEM; read at each
	// connection. Default: none.
	CertFile, KeyOfCertFile string
	// Plain allows http URLs of other machines: anyone in between can then read counts and
	// names, but signatures still prevent changes. Default: loopback only.
	Plain bool
	// Timeout bounds a call. Default: 5 s.
	Timeout time.Duration
	// DialContext makes connections. Nil: TCP.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Log takes errors of reloaded files. Nil: no log.
	Log *zap.Logger
}

// Bounds of requests and answers.
const (
	defaultTimeout = 5 * time.Second
	// handshakeTimeout bounds connecting and the TLS handshake.
	handshakeTimeout = 10 * time.Second
	maxHeaderBytes   = 64 << 10
	// maxListBytes bounds a page of the list, maxObserveBytes an observation, and maxShortBytes
	// a short answer.
	maxListBytes    = 8 << 20
	maxObserveBytes = 16 << 20
	maxShortBytes   = 64 << 10
)

// Client makes the calls. It is safe for concurrent use.
type Client struct {
	server Server
	base   *url.URL
	keys   *files.Current[[]Key]
	http   *http.Client
}

// Connect returns a client. It reads the files, and opens no connection.
func Connect(s Server) (*Client, error) {
	base, err := s.base()
	if err != nil {
		return nil, err
	}
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	if s.Timeout < 0 {
		return nil, errors.New("timeout: must be above 0")
	}
	if (s.CertFile == "") != (s.KeyOfCertFile == "") {
		return nil, errors.New("a client certificate and its key belong together: give both or neither")
	}
	s.Log = cmp.Or(s.Log, zap.NewNop())
	if s.DialContext == nil {
		s.DialContext = (&net.Dialer{}).DialContext
	}
	c := &Client{server: s, base: base, keys: current(s, "key file", s.KeyFile, maxKeyFileBytes, ParseKeys)}
	if _, err := c.keys.Get(); err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	transport := &http.Transport{
		DialContext: s.DialContext, MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // the signed bytes are the sent bytes
	}
	if base.Scheme == "https" {
		if transport.DialTLSContext, err = s.dialTLS(base.Hostname()); err != nil {
			return nil, err
		}
	}
	c.http = &http.Client{
		Transport: transport,
		// A redirected request would not match its signature.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Acting returns what an agent scales. A webhook is known by its URL together with each of the
// secrets, since a URL alone, such as one on loopback, may lead elsewhere on another machine.
func (c *Client) Acting(context.Context) ([]agent.Acting, error) {
	keys, err := c.keys.Get()
	if err != nil {
		return nil, err
	}
	var acts []agent.Acting
	for _, key := range keys {
		acts = append(acts, agent.Acting{Platform: "webhook " + Key{Secret: key.Secret}.sign("agents", c.base.String())})
	}
	return acts, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ValidateURL returns what is wrong with the URL. The error does not quote it.
func (s Server) ValidateURL() error {
	_, err := s.base()
	return err
}

// base checks the URL. Errors don't quote it, because it may contain a password.
func (s Server) base() (*url.URL, error) {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must be https://host:port/path")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the URL must have no user, query or fragment")
	case u.Scheme == "http" && (s.CAFile != "" || s.CertFile != ""):
		return nil, errors.New("certificates are for an https URL, and this one is http")
	case u.Scheme == "http" && !s.Plain && !loopback(u.Hostname()):
		return nil, errors.New("the URL is http to another machine: use https, or allow plain http, which third parties can read")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// current is a reloaded file; what names it in the log.
func current[T any](s Server, what, name string, most int64, parse func(text []byte) (T, error)) *files.Current[T] {
	return files.NewCurrent(name, most, func(text []byte) (T, error) {
		value, err := parse(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return value, err
	}, func(err error) {
		if err != nil {
			s.Log.Error("file not read, keeping its previous content", zap.String("file", name), zap.String("error", what+": "+err.Error()))
			return
		}
		s.Log.Info("file reloaded", zap.String("file", name))
	})
}

// dialTLS returns a function that connects with TLS. It uses the current trusted certificates
// and reads the client certificate for each connection.
func (s Server) dialTLS(host string) (files.Dial, error) {
	own := files.TLS{CertFile: s.CertFile, KeyFile: s.KeyOfCertFile, ServerName: host}
	authorities := current(s, "authorities", s.CAFile, files.MaxSecretBytes, files.ParseAuthorities)
	configure := func(address string) (*tls.Config, error) {
		config, err := own.Config(address)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		if s.CAFile != "" {
			if config.RootCAs, err = authorities.Get(); err != nil {
				return nil, fmt.Errorf("authorities: %w", err)
			}
		}
		return config, nil
	}
	if _, err := configure(""); err != nil {
		return nil, err
	}
	// A connection being established may outlast its call.
	return files.Dial(s.DialContext).TLS(configure).Within(handshakeTimeout), nil
}

// call is one call.
type call struct {
	method, path string
	query        url.Values
	// body is the request's, nil: none.
	body []byte
	// etag is that of the known answer, empty: none.
	etag string
	// most bounds the answer, bytes.
	most int64
}

// answer is a verified answer.
type answer struct {
	status int
	etag   string
	body   []byte
}

// errUnsure wraps errors after which it is unknown whether the server handled the request.
type errUnsure struct{ error }

func (e errUnsure) Unwrap() error { return e.error }

// do makes a call, and verifies the signature of the answer.
func (c *Client) do(ctx context.Context, what call) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.server.Timeout)
	defer cancel()
	keys, err := c.keys.Get()
	if err != nil {
		return nil, err
	}
	key := keys[0]
	to := *c.base
	to.Path += what.path
	if to.RawPath != "" {
		to.RawPath += what.path
	}
	to.RawQuery = what.query.Encode()
	req, err := http.NewRequestWithContext(ctx, what.method, to.String(), bytes.NewReader(what.body))
	if err != nil {
		return nil, err
	}
	nonce := newNonce()
	now := time.Now()
	req.Header.Set("User-Agent", "setpoint-webhook")
	req.Header.Set("Accept", "application/json")
	req.Header.Set(HeaderKey, key.Name)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(HeaderNonce, nonce)
	req.Header.Set(HeaderSignature, key.SignRequest(what.method, req.URL.RequestURI(), now, nonce, what.body))
	if what.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if what.etag != "" {
		req.Header.Set("If-None-Match", what.etag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, errUnsure{inShort(ctx, err, c.server.Timeout)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, what.most+1))
	switch {
	case err != nil:
		return nil, errUnsure{inShort(ctx, err, c.server.Timeout)}
	case int64(len(body)) > what.most:
		return nil, errUnsure{fmt.Errorf("its answer is larger than %d bytes", what.most)}
	}
	if err := key.verifyAnswer(resp.StatusCode, resp.Header, nonce, body, time.Now()); err != nil {
		return nil, errUnsure{err}
	}
	return &answer{resp.StatusCode, resp.Header.Get("ETag"), body}, nil
}

// inShort removes the method and the URL from an error, which are in the configuration.
func inShort(ctx context.Context, err error, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", timeout)
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// newNonce returns a random nonce.
func newNonce() string {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return hex.EncodeToString(nonce[:])
}
