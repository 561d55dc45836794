package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/bounded"
	"github.com/setpoint-dev/setpoint/internal/files"
)

// DefaultAddress is the default address of a Nomad agent.
const DefaultAddress = "http://127.0.0.1:4646"

// Bounds on answers of Nomad and on concurrent requests.
const (
	maxAnswerBytes = 64 << 20
	// maxErrorBytes bounds the text of an error answer, which may end up in logs.
	maxErrorBytes = 2 << 10
	// maxConnections is far below 100 per address, from where Nomad answers 429.
	maxConnections = 32
)

// Config configures the connection to Nomad. The zero value connects to an agent on this
// machine without a token.
type Config struct {
	// Address of an agent: http://HOST:PORT, https://HOST:PORT or unix://PATH. Default:
	// DefaultAddress.
	Address string
	// Region is the region to query. Empty: that of the agent.
	Region string
	// TokenFile is the file of the token; it is reloaded when it changes. Empty: Token is used.
	TokenFile string
	// Token is a fixed token. Empty: none.
	Token string
	// TLS are the files for an https address.
	TLS TLS
	// Registerer takes the metrics of requests. Nil disables them.
	Registerer prometheus.Registerer
	// Dial connects. Nil: as net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// TLS sets the CAs to trust and the client certificate. The files are read at each handshake, so
// that they can be replaced.
type TLS struct {
	// CAFile is a PEM file of the trusted CAs. Empty: the system's.
	CAFile string
	// CertFile and KeyFile are the client's own certificate, PEM. Both or neither.
	CertFile, KeyFile string
	// ServerName is the expected name in the server's certificate, for example
	// server.global.nomad. Empty: the host of the address.
	ServerName string
}

// ValidateAddress returns what is wrong with the address.
func (c *Config) ValidateAddress() error {
	_, err := c.address()
	return err
}

func (c *Config) address() (*url.URL, error) {
	at, err := url.Parse(cmp.Or(c.Address, DefaultAddress))
	if err != nil {
		// The address may contain credentials, so the error does not quote it.
		return nil, fmt.Errorf("the address is not of the form %s, https://nomad.example.com:4646 or unix:///secrets/api.sock", DefaultAddress)
	}
	if at.User != nil {
		return nil, errors.New("the address contains credentials: put the token into a file")
	}
	if at.Scheme != "http" && at.Scheme != "https" && at.Scheme != "unix" || at.Scheme != "unix" && at.Host == "" {
		return nil, fmt.Errorf("the address %q is not of the form %s, https://nomad.example.com:4646 or unix:///secrets/api.sock", c.Address, DefaultAddress)
	}
	return at, nil
}

// Connect returns Nomad's own client. It reads the configured files, and opens no connection.
func Connect(c Config) (*api.Client, error) {
	c.Address = cmp.Or(c.Address, DefaultAddress)
	at, err := c.address()
	if err != nil {
		return nil, err
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	dial := c.Dial
	if at.Scheme == "unix" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx, "unix", at.Path) }
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		return nil, errors.New("a client certificate needs a file with the certificate and one with its key")
	}
	if at.Scheme == "https" {
		if _, err := files.TLS(c.TLS).Config("localhost:0"); err != nil {
			return nil, err
		}
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_nomad_requests_total", Help: "Requests to Nomad, by call and status; status is error without an answer.",
	}, []string{"call", "status"})
	if c.Registerer != nil {
		if err := c.Registerer.Register(requests); err != nil {
			return nil, err
		}
	}
	next := &transport{requests: requests, fixed: c.Token, next: &http.Transport{
		DialContext: dial, DialTLSContext: files.Dial(c.Dial).TLS(files.TLS(c.TLS).Config).Within(handshakeTimeout),
		// Compression costs Nomad and the agent time, and a compressed answer may have any
		// size.
		DisableCompression: true,
		MaxConnsPerHost:    maxConnections, MaxIdleConnsPerHost: maxConnections, IdleConnTimeout: time.Minute,
	}}
	if c.TokenFile != "" {
		next.file = files.NewSecret(c.TokenFile, nil)
		if _, err := next.token(); err != nil {
			return nil, err
		}
	}
	return api.NewClient(&api.Config{Address: c.Address, Region: c.Region, HttpClient: &http.Client{
		Transport: next,
		// The token must not follow a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
}

// handshakeTimeout bounds connecting to, and a handshake with, a server that accepts
// connections but is silent.
const handshakeTimeout = 10 * time.Second

// transport sends the token, counts requests and bounds answers.
type transport struct {
	requests *prometheus.CounterVec
	file     *files.Secret // nil: use the fixed token
	fixed    string
	next     http.RoundTripper
}

func (t *transport) token() (string, error) {
	if t.file == nil {
		return t.fixed, nil
	}
	token, err := t.file.Get()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Del("Accept-Encoding")
	if token != "" {
		r.Header.Set("X-Nomad-Token", token)
	}
	response, err := t.next.RoundTrip(r)
	status := "error"
	if err == nil {
		status = strconv.Itoa(response.StatusCode)
		response.Body = bounded.Body(response.Body, maxAnswerBytes, errTooLarge)
		if response.StatusCode >= http.StatusMultipleChoices {
			response.Body = &cut{io.LimitReader(response.Body, maxErrorBytes), response.Body}
		}
	}
	t.requests.WithLabelValues(callOf(r), status).Inc()
	return response, err
}

// callOf returns the label for the purpose of a request.
func callOf(r *http.Request) string {
	path := r.URL.Path
	switch {
	case path == "/v1/scaling/policies":
		return "policies"
	case strings.HasPrefix(path, "/v1/scaling/policy/"):
		return "policy"
	case path == "/v1/allocations":
		return "allocations"
	case path == "/v1/deployments":
		return "deployments"
	case path == "/v1/agent/members":
		return "members"
	case path == "/.well-known/jwks.json":
		return "keys"
	case strings.HasPrefix(path, "/v1/client/allocation/"):
		return "statistics"
	case strings.HasPrefix(path, "/v1/job/") && strings.HasSuffix(path, "/scale"):
		if r.Method == http.MethodGet {
			return "events"
		}
		return "scale"
	case strings.HasPrefix(path, "/v1/job/") && strings.HasSuffix(path, "/summary"):
		return "summary"
	case strings.HasPrefix(path, "/v1/job/"):
		return "job"
	}
	return "other"
}

// cut is a body truncated after its beginning.
type cut struct {
	io.Reader
	io.Closer
}

var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswerBytes>>20)
