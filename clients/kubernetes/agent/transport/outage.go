package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Outage detects from the outcome of requests whether the API server answers, and logs once when
// it stops answering and once when it answers again, in place of a line from each watch,
// reconcile and renewal.
type Outage struct {
	log *zap.Logger

	mu sync.Mutex
	// since is the earliest instant from which no request is known to be answered; zero: none
	// failed after the last answer. Guarded by mu.
	since time.Time
	// last is when the last request was answered; zero: none was. Guarded by mu.
	last time.Time
	// logged reports whether the outage was logged. Guarded by mu.
	logged bool
	// failing is a resource whose reads fail by status since the last answer, from refused on; "": none.
	// Guarded by mu.
	failing string
	refused time.Time
}

// outageAfter is how long requests must fail before the outage is logged: a single failure is
// not.
const outageAfter = time.Second

// NewOutage returns an Outage without any observations.
func NewOutage(log *zap.Logger) *Outage { return &Outage{log: log} }

// Wrap observes a transport.
func (o *Outage) Wrap(next http.RoundTripper) http.RoundTripper {
	return Around(next, func(req *http.Request) (*http.Response, error) {
		began := time.Now()
		response, err := next.RoundTrip(req)
		verb, resource := describe(req)
		switch {
		case err == nil && !fails(response.StatusCode):
			o.answered()
		case err == nil:
			if (verb == "get" || verb == "list" || verb == "watch") && !asksOthers(req, resource) {
				o.failedBy(began, resource, errors.New(response.Status))
			}
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && asksOthers(req, resource):
		default:
			o.failed(began, err)
		}
		return response, err
	})
}

// fails reports whether a status says that the API server, or a proxy before it, can't answer now.
func fails(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// asksOthers reports whether the API server asks others for its answer, an adapter of metrics or the webhooks of a workload:
// one that hangs or fails says nothing of the server. So does the discovery of one API.
func asksOthers(req *http.Request, resource string) bool {
	return strings.HasSuffix(resource, "metrics.k8s.io") || strings.HasSuffix(resource, "/scale") ||
		resource == discovery && strings.Contains(req.URL.Path, "/apis/")
}

// failedBy notes a read that failed by its status. One resource may fail alone, as when what is stored of it can't be
// read; two say that the server does, and so does what is no resource, as whether it is ready.
func (o *Outage) failedBy(began time.Time, resource string, err error) {
	o.mu.Lock()
	if o.failing == "" {
		o.failing, o.refused = resource, began
	}
	alone, since := o.failing == resource && resource != discovery, o.refused
	o.mu.Unlock()
	if !alone {
		o.failed(since, err)
	}
}

func (o *Outage) failed(began time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		// A request that hung alone, while others were answered, makes no outage.
		o.since = began
		if o.last.After(began) {
			o.since = o.last
		}
	}
	if o.logged || time.Since(o.since) < outageAfter {
		return
	}
	o.logged = true
	o.log.Warn("the API server does not answer; nothing is scaled until it does", zap.Time("since", o.since), zap.Error(err))
}

func (o *Outage) answered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logged {
		o.log.Info("the API server answers again", zap.Duration("after", time.Since(o.since)))
	}
	o.since, o.logged, o.last, o.failing = time.Time{}, false, time.Now(), ""
}

// WatchFailed handles an informer's failed attempt: refusals are left to Refusals, and an outage is logged once.
func (o *Outage) WatchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || o.away() {
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// Unreached reports whether an error means that the API server did not answer, which Outage
// logs, or that the caller stopped waiting.
func Unreached(err error) bool {
	var request *url.Error
	var network net.Error
	return errors.As(err, &request) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Level returns the log level for an error about an object: debug while the API server is away or refuses,
// because that is logged already, and for a single request without an answer. A nil Outage
// changes no level.
func (o *Outage) Level(level zapcore.Level, err error) zapcore.Level {
	if o == nil {
		return level
	}
	if Unreached(err) || errors.Is(err, ErrRefused) {
		return zapcore.DebugLevel
	}
	if o.away() {
		return zapcore.DebugLevel
	}
	return level
}

// away reports whether requests have failed since the last answer.
func (o *Outage) away() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// How a starting agent waits for the API server, so that an outage does not end it again and
// again, with growing pauses between restarts.
const (
	startRetry = time.Second
	startWait  = 10 * time.Minute
)

// Await waits until the API server is ready, for a bounded time: one that has just started
// answers before it serves all kinds. A permanent failure, such as an untrusted certificate, ends
// it at once.
func Await(ctx context.Context, config *rest.Config) error {
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		err := ping(ctx, connections, server.JoinPath("readyz").String())
		if err == nil {
			return nil
		}
		if !passes(err) {
			return fmt.Errorf("cannot connect to the cluster: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot connect to the cluster: %w", err)
		case <-time.After(startRetry):
		}
	}
}

// errUnready is the error of an API server that answers but does not serve yet.
var errUnready = errors.New("the API server is not ready")

// ping asks whether the server is ready. One that does not say so, because the path is not there
// or not allowed, counts as ready.
func ping(ctx context.Context, connections *http.Client, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := connections.Do(req)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests {
		err = fmt.Errorf("%w: %s", errUnready, response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// passes reports whether an error may be temporary: an unreachable server or network, or a server
// that starts.
func passes(err error) bool {
	var connection *net.OpError
	var network net.Error
	return errors.As(err, &connection) || errors.As(err, &network) && network.Timeout() || errors.Is(err, io.EOF) || errors.Is(err, errUnready)
}
