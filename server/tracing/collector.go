package tracing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// collector sends spans to an OpenTelemetry collector, as OTLP over gRPC.
type collector struct {
	target  string // host:port
	options []grpc.DialOption
	headers metadata.MD
	timeout time.Duration // of one batch, with its retries

	conn *grpc.ClientConn // from Start on
	// stopped ends what is being sent: a retry that waits for its turn outlives the connection.
	stopped context.Context
	stop    context.CancelFunc
}

var _ otlptrace.Client = (*collector)(nil)

// defaultTimeout is OpenTelemetry's.
const defaultTimeout = 10 * time.Second

// retries are gRPC's own: after 1 s, 2 s and so on, while the batch has time.
const retries = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"1s","maxBackoff":"5s","backoffMultiplier":2,
"retryableStatusCodes":["ABORTED","OUT_OF_RANGE","UNAVAILABLE","DATA_LOSS"]}}]}`

// newCollector reads where the collector is from the options, and the rest from the variables
// OTEL_EXPORTER_OTLP_…, those of traces before the common ones.
func newCollector(o *Options) (*collector, error) {
	target, encrypted, err := o.destination()
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	c := &collector{target: target, timeout: defaultTimeout}
	transport := insecure.NewCredentials()
	if encrypted {
		config, err := files.TLS{CAFile: variable("CERTIFICATE"), CertFile: variable("CLIENT_CERTIFICATE"), KeyFile: variable("CLIENT_KEY")}.Client()
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE or _CLIENT_KEY: %w", err)
		}
		transport = credentials.NewTLS(config)
	}
	c.options = []grpc.DialOption{
		grpc.WithTransportCredentials(transport), grpc.WithDefaultServiceConfig(retries), grpc.WithUserAgent("setpoint/" + o.Version),
	}
	switch compression := variable("COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		c.options = append(c.options, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION: %q is neither gzip nor none", compression)
	}
	if timeout := variable("TIMEOUT"); timeout != "" {
		millis, err := strconv.ParseUint(timeout, 10, 31)
		if err != nil || millis == 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT: %q is not a number of milliseconds", timeout)
		}
		c.timeout = time.Duration(millis) * time.Millisecond
	}
	if c.headers, err = parseHeaders(variable("HEADERS")); err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	return c, nil
}

// variable returns OTEL_EXPORTER_OTLP_TRACES_name, or OTEL_EXPORTER_OTLP_name where that is
// empty.
func variable(name string) string {
	if own := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); own != "" {
		return own
	}
	return strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + name))
}

// parseHeaders reads name=value,name=value with percent-encoded values. Errors don't quote
// values, which may be credentials.
func parseHeaders(text string) (metadata.MD, error) {
	headers := metadata.MD{}
	for i, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case !found || name == "" || strings.ContainsFunc(name, notInHeaderNames):
			return nil, fmt.Errorf("number %d is not of the form name=value", i+1)
		case strings.HasPrefix(name, "grpc-"):
			return nil, fmt.Errorf("number %d: names that begin with grpc- are gRPC's own", i+1)
		case err != nil:
			return nil, fmt.Errorf("%s: the value has a %% that no two hexadecimal digits follow", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, fmt.Errorf("%s: the value has characters other than printable ASCII", name)
		}
		headers.Set(name, value)
	}
	return headers, nil
}

// notInHeaderNames reports whether gRPC does not take a character in a header's name.
func notInHeaderNames(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// destination returns the endpoint's host:port, and whether it is spoken to with TLS.
func (o *Options) destination() (target string, encrypted bool, err error) {
	if !strings.Contains(o.Endpoint, "://") {
		if strings.Contains(o.Endpoint, "@") {
			return "", false, errors.New("it is neither host:port nor a URL; credentials go into OTEL_EXPORTER_OTLP_HEADERS")
		}
		if _, port, err := net.SplitHostPort(o.Endpoint); err != nil || port == "" {
			return "", false, fmt.Errorf("%q is neither host:port nor a URL", o.Endpoint)
		}
		return o.Endpoint, !o.Insecure && !strings.EqualFold(variable("INSECURE"), "true"), nil
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil:
		return "", false, errors.New("it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, strings.ContainsAny(o.Endpoint, "@?#"):
		return "", false, errors.New("it must be http://host:port or https://host:port; credentials go into OTEL_EXPORTER_OTLP_HEADERS")
	case u.Scheme == "https" && o.Insecure:
		return "", false, errors.New("it asks for TLS, but clear text is asked for too")
	}
	return u.Host, u.Scheme == "https", nil
}

// Start prepares the connection, which is made when there is something to send.
func (c *collector) Start(ctx context.Context) (err error) {
	c.stopped, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.conn, err = grpc.NewClient(c.target, c.options...)
	return err
}

// Stop ends the connection and what is being sent.
func (c *collector) Stop(context.Context) error {
	c.stop()
	return c.conn.Close()
}

// UploadTraces sends a batch of spans.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracev1.ResourceSpans) error {
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, c.headers), c.timeout)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	answer, err := collectorv1.NewTraceServiceClient(c.conn).Export(ctx, &collectorv1.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if partial := answer.GetPartialSuccess(); partial.GetRejectedSpans() > 0 {
		return fmt.Errorf("the collector refused %d spans: %s", partial.GetRejectedSpans(), clip(partial.GetErrorMessage()))
	}
	return nil
}
