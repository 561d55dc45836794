package setpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// Option changes a client's settings.
type Option func(*config)

// config is the settings of a client.
type config struct {
	insecure  bool
	local     bool // all addresses are of this machine
	tls       *TLS
	tlsConfig *tls.Config

	token         TokenSource
	tokenAnywhere bool

	timeout    time.Duration
	retry      Retry
	hedgeDelay time.Duration
	hedges     int

	keepalive       keepalive.ClientParameters
	maxSendBytes    int
	maxReceiveBytes int
	maxBatch        int
	userAgent       string
	dial            []grpc.DialOption

	err error // the first invalid option
}

func defaultConfig() *config {
	return &config{
		timeout:         10 * time.Second,
		keepalive:       DefaultKeepalive(),
		maxSendBytes:    16 << 20,
		maxReceiveBytes: 256 << 20,
		maxBatch:        1000,
		userAgent:       "setpoint-client",
	}
}

// validate reports settings that contradict each other, and fills in defaults.
func (c *config) validate() error {
	if c.err != nil {
		return c.err
	}
	c.tokenAnywhere = c.tokenAnywhere || c.local
	if c.token != nil && c.insecure && !c.tokenAnywhere {
		return errors.New("setpoint: a token would travel unencrypted: use TLS, or WithTokenOverInsecure on a trusted network")
	}
	if c.retry = c.retry.withDefaults(); c.retry.BaseDelay < 0 || c.retry.MaxDelay < 0 {
		return errors.New("setpoint: the delays of WithRetry must not be below 0")
	}
	return nil
}

// DefaultKeepalive returns the keepalive parameters of a client: while calls or streams are
// open it pings the server after 30 seconds of silence, and closes a connection that does not
// acknowledge within ten seconds.
//
// A Setpoint server allows pings every ten seconds. Other gRPC servers and proxies close
// connections with pings more often than every five minutes by default: use WithKeepalive
// there.
func DefaultKeepalive() keepalive.ClientParameters {
	return keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}
}

// WithInsecure does without TLS, which is spoken otherwise, but for addresses of this machine only.
func WithInsecure() Option { return func(c *config) { c.insecure = true } }

// WithTLS sets the CAs to trust and the client certificate. The zero TLS is spoken on this machine, too.
func WithTLS(t TLS) Option { return func(c *config) { c.tls = &t } }

// WithTLSConfig is WithTLS for settings that TLS does not have.
func WithTLSConfig(t *tls.Config) Option { return func(c *config) { c.tlsConfig = t.Clone() } }

// WithToken sends a bearer token with each call.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenFile sends the content of a file, without surrounding space, as bearer token. The
// file is reloaded when it changes. While it is unreadable or empty the previous token is
// sent.
func WithTokenFile(name string) Option {
	file := files.NewSecret(name, nil)
	return WithTokenSource(func(context.Context) (string, error) { return file.Get() })
}

// WithTokenSource calls source for the bearer token of each attempt. If it fails the call
// fails with UNAUTHENTICATED.
func WithTokenSource(source TokenSource) Option { return func(c *config) { c.token = source } }

// WithTokenOverInsecure allows a token together with WithInsecure.
func WithTokenOverInsecure() Option { return func(c *config) { c.tokenAnywhere = true } }

// WithTimeout bounds calls whose context has no deadline, all attempts together. 0: no
// bound. Default: 10 s.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithRetry sets when calls are retried.
func WithRetry(r Retry) Option { return func(c *config) { c.retry = r } }

// WithHedging sends another attempt, on another connection where there is one, each
// time an attempt has gone unanswered for the delay, up to max attempts at once. The
// first answer wins, the other attempts are cancelled. Hedged attempts count against the
// retry budget. Off by default.
//
// Hedging is safe: all attempts of a call have the same request id, so they count once. It
// trades load for latency; about the 95th percentile of the latency is a good delay.
func WithHedging(delay time.Duration, maxAttempts int) Option {
	return func(c *config) {
		if delay <= 0 || maxAttempts < 2 {
			c.err = errors.New("setpoint: hedging takes a delay above 0 and at least 2 attempts")
		}
		c.hedgeDelay, c.hedges = delay, maxAttempts
	}
}

// WithKeepalive replaces DefaultKeepalive, for a server that allows more or less.
func WithKeepalive(p keepalive.ClientParameters) Option { return func(c *config) { c.keepalive = p } }

// WithMaxMessageBytes bounds requests and answers. Defaults: 16 MiB, a server's default
// limit, and 256 MiB.
func WithMaxMessageBytes(request, answer int) Option {
	return func(c *config) {
		if request <= 0 || answer <= 0 {
			c.err = errors.New("setpoint: message sizes must be above 0")
		}
		c.maxSendBytes, c.maxReceiveBytes = request, answer
	}
}

// WithMaxBatch bounds the requests in one call of BatchRecommend. Default: 1000, a server's
// default limit.
func WithMaxBatch(n int) Option {
	return func(c *config) {
		if n <= 0 {
			c.err = errors.New("setpoint: a batch must hold at least one request")
		}
		c.maxBatch = n
	}
}

// WithUserAgent sets the name of the caller's program, for example "my-controller/1.2".
func WithUserAgent(name string) Option { return func(c *config) { c.userAgent = name } }

// WithDialOptions adds options of gRPC, after those of this package: for statistics,
// a dialer, or interceptors, which then see each attempt of a call.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(c *config) { c.dial = append(c.dial, options...) }
}
