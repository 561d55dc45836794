package samples

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/sharing"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// Sample is one value of a query.
type Sample struct {
	// Pod and Container of the value; empty: none is named.
	Pod, Container string
	// Labels of the series; nil: the answer has none. They are shared and must not be changed.
	Labels map[string]string
	// Value is in thousandths if the source has floating-point numbers, else as written.
	Value resource.Quantity
	// Timestamp is when the value was true: for a Prometheus, when the query was evaluated.
	Timestamp time.Time
	// Window is the range before the timestamp, from the query.
	Window time.Duration

	// stands reports whether it replaces an empty result.
	stands bool
}

// value is one value of an answer, not yet validated.
type value struct {
	Sample
	// err is why it is invalid.
	err error
}

// backend queries one server. It is safe for concurrent use.
type backend interface {
	// check returns the problems of a query.
	check(Query) problems
	// request identifies the request of a query: equal for queries with the same answer.
	request(Query) string
	// ask sends it. Its errors are failures, or understood by classify.
	ask(ctx context.Context, q Query) (any, error)
	// values extracts the values of a query from an answer, without changing it.
	values(q Query, answer any) ([]value, error)
	// close closes its connections.
	close()
}

// source is a backend with its bounds.
type source struct {
	name, kind string
	Source
	backend backend
	sharing *sharing.Group[any]
	// turns bounds the requests in flight.
	turns   chan struct{}
	metrics *metrics
	log     *zap.Logger
	// unprepared is the last logged error of unreadable files; empty: they are readable.
	unprepared atomic.Pointer[string]
}

// Set is the sources of a configuration. It is safe for concurrent use.
type Set struct {
	sources map[string]*source
	// named are the named metrics.
	named    map[string]NamedMetric
	failures *failureLog
	metrics  *metrics
}

// Options of a Set.
type Options struct {
	// Registerer is where the metrics of the sources are registered. Nil: nowhere.
	Registerer prometheus.Registerer
	// Dial connects to sources. The address comes from the configuration, from a redirect
	// within its origin, or from a Redis. Nil: as net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log receives errors of files with credentials and certificates, and of named metrics,
	// whose users don't see them. Nil: no log.
	Log *zap.Logger
}

// New makes the sources. It opens no connection. The error is a *ConfigError, or that of the
// Registerer.
func New(config Config, o Options) (*Set, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer, slices.Sorted(maps.Keys(config.Sources)))
	if err != nil {
		return nil, fmt.Errorf("register metrics of sources: %w", err)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	set := &Set{sources: map[string]*source{}, named: config.Metrics, metrics: m, failures: &failureLog{log: o.Log, texts: map[[2]string]string{}}}
	for name, settings := range config.Sources {
		settings = settings.withDefaults()
		s := &source{
			name: name, Source: settings, metrics: m,
			sharing: sharing.New[any](time.Duration(*settings.Reuse)),
			turns:   make(chan struct{}, settings.Concurrency),
			log:     o.Log.With(zap.String("source", name)),
		}
		s.kind, s.backend = settings.backend(s.log, o.Dial)
		set.sources[name] = s
	}
	if err := set.namedProblems().err(); err != nil {
		set.Close()
		return nil, err
	}
	return set, nil
}

// backend makes the backend of a source.
func (s Source) backend(log *zap.Logger, dial files.Dial) (kind string, b backend) {
	switch {
	case s.HTTP != nil:
		return "http", newHTTP(s, log, dial)
	case s.Redis != nil:
		return "redis", newRedis(s, log, dial)
	}
	return "prometheus", newPrometheus(s, log, dial)
}

// Close cancels and awaits requests in flight, and closes all connections.
func (s *Set) Close() {
	for _, source := range s.sources {
		source.sharing.Close()
		source.backend.close()
	}
}

// CheckQuery returns the problems of a query, as a *ConfigError. It sends no request.
func (s *Set) CheckQuery(q Query) error { return s.problems(q).err() }

func (s *Set) problems(q Query) problems {
	var p problems
	if q.Source == "" {
		p.add("source", "is required: %s", s.known())
		return p
	}
	source, ok := s.sources[q.Source]
	if !ok {
		hint := s.known()
		if name, ok := spelling.Closest(q.Source, slices.Sorted(maps.Keys(s.sources))); ok {
			hint = fmt.Sprintf("did you mean %s?", name)
		}
		p.add("source", "there is no source %q; %s", shorten(q.Source, maxQuoted), hint)
		return p
	}
	p = q.problems(source.kind)
	p.under("", source.backend.check(q))
	return p
}

func (s *Set) known() string {
	if len(s.sources) == 0 {
		return "none is configured"
	}
	return "the sources are " + strings.Join(slices.Sorted(maps.Keys(s.sources)), ", ")
}

// Samples returns the samples of a query, at least one, in the order of the answer. The error is an
// *Error, or a *ConfigError for a query that CheckQuery refuses.
func (s *Set) Samples(ctx context.Context, q Query) ([]Sample, error) {
	return s.samples(ctx, q, everyPod)
}

func everyPod(string) bool { return true }

// samples runs a query for the pods that keep accepts.
func (s *Set) samples(ctx context.Context, q Query, keep func(pod string) bool) ([]Sample, error) {
	if err := s.CheckQuery(q); err != nil {
		return nil, err
	}
	source := s.sources[q.Source]
	samples, err := source.read(ctx, q, keep)
	outcome := OK
	if err != nil {
		f := classify(err)
		outcome, err = f.outcome, &Error{Source: source.name, Outcome: f.outcome, Message: f.message}
	}
	s.metrics.queries.WithLabelValues(source.name, string(outcome)).Inc()
	return samples, err
}

// read runs a query, or uses the answer of an equal request.
func (s *source) read(ctx context.Context, q Query, keep func(pod string) bool) ([]Sample, error) {
	answer, joined, err := s.sharing.Get(ctx, s.backend.request(q), time.Duration(s.Timeout), func(ctx context.Context) (any, error) { return s.request(ctx, q) })
	if joined {
		s.metrics.shared.WithLabelValues(s.name).Inc()
	}
	if errors.Is(err, sharing.ErrClosed) {
		return nil, failed(Cancelled, "the sources are closed")
	}
	if err != nil {
		return nil, err
	}
	values, err := s.backend.values(q, answer)
	for i := range values {
		values[i].bound()
	}
	switch {
	case err != nil:
		return nil, err
	case len(values) > s.MaxSeries:
		return nil, failed(Unusable, "the answer has %d values, more than maxSeries: aggregate them, as with sum()", len(values))
	case len(values) == 0 && q.EmptyIsZero:
		return []Sample{q.nothing()}, nil
	case len(values) == 0:
		return nil, failed(Empty, "the result is empty: check the query, or set emptyIsZero if nothing means zero")
	case q.ofPods():
		return q.podSamples(values, keep)
	}
	samples := make([]Sample, len(values))
	for i, v := range values {
		if v.err != nil {
			return nil, failed(Invalid, "%v", v.err)
		}
		samples[i] = q.sample(v)
	}
	return samples, nil
}

// nothing is the sample for an empty result if emptyIsZero.
func (q Query) nothing() Sample {
	return Sample{Timestamp: time.Now(), Window: time.Duration(q.Window), stands: true}
}

// request sends one request when a turn is free.
func (s *source) request(ctx context.Context, q Query) (any, error) {
	began := time.Now()
	answer, err := s.inTurn(ctx, q)
	outcome := OK
	if err != nil {
		f := classify(err)
		if f.outcome == Timeout {
			f = &failure{outcome: Timeout, message: fmt.Sprintf("no answer within its timeout of %s", s.Timeout)}
		}
		outcome, err = f.outcome, f
	}
	s.metrics.requested(s.name, began, outcome)
	s.noteFiles(outcome, err)
	return answer, err
}

// noteFiles logs once that required files are unreadable, and once that they are readable
// again. The owner of a workload sees the problem in a status, but can't fix it.
func (s *source) noteFiles(outcome Outcome, err error) {
	text, file := "", ""
	switch outcome {
	case Unprepared:
		text = err.Error()
		if f := (*failure)(nil); errors.As(err, &f) {
			file = f.file
		}
	case Cancelled, Busy, Timeout, Invalid: // the files may not have been read
		return
	}
	before := s.unprepared.Swap(&text)
	switch {
	case text != "" && (before == nil || *before != text):
		s.log.Error("source not queried, a file can't be read", zap.String("error", text), zap.String("file", file))
	case text == "" && before != nil && *before != "":
		s.log.Info("source queried again, its files can be read")
	}
}

func (s *source) inTurn(ctx context.Context, q Query) (any, error) {
	select {
	case s.turns <- struct{}{}: // even if the time is up: then others did not use it up
	default:
		select {
		case s.turns <- struct{}{}:
		case <-ctx.Done():
			return nil, s.notInTurn(ctx.Err())
		}
	}
	defer func() { <-s.turns }()
	return s.backend.ask(ctx, q)
}

func (s *source) notInTurn(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return failed(Busy, "its %d concurrent requests did not finish within its timeout of %s: it is slow, or concurrency is too low", s.Concurrency, s.Timeout)
	}
	return err
}
