package samples

import (
	"cmp"
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

	"github.com/setpoint-dev/setpoint/clients/samples/httpjson"
	prometheussource "github.com/setpoint-dev/setpoint/clients/samples/prometheus"
	"github.com/setpoint-dev/setpoint/clients/samples/redis"
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/sharing"
	"github.com/setpoint-dev/setpoint/internal/spelling"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// opened is a backend with its bounds.
type opened struct {
	name, kind string
	Source
	backend source.Backend
	sharing *sharing.Group[any]
	// turns bounds the requests in flight.
	turns   chan struct{}
	metrics *metrics
	log     *zap.Logger
	// unprepared is the last logged error of unreadable files; empty: they are readable.
	unprepared atomic.Pointer[string]
}

// Set is the sources of a configuration. It is safe for concurrent use. The zero value has none.
type Set struct {
	sources map[string]*opened
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

// New makes the sources. It opens no connection. The error is a *typed.Error, or that of the
// Registerer.
func New(config Config, o Options) (*Set, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer, slices.Sorted(maps.Keys(config.Sources)))
	if err != nil {
		return nil, fmt.Errorf("register metrics of sources: %w", err)
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	set := &Set{sources: map[string]*opened{}, named: config.Metrics, metrics: m, failures: &failureLog{log: o.Log, texts: map[[2]string]string{}}}
	for name, settings := range config.Sources {
		settings = settings.withDefaults()
		s := &opened{
			name: name, Source: settings, metrics: m,
			sharing: sharing.New[any](time.Duration(*settings.Reuse)),
			turns:   make(chan struct{}, settings.Concurrency),
			log:     o.Log.With(zap.String("source", name)),
		}
		s.kind, s.backend = settings.backend(s.log, o.Dial)
		set.sources[name] = s
	}
	if err := set.namedProblems().Err(); err != nil {
		set.Close()
		return nil, err
	}
	return set, nil
}

// backend makes the backend of a source.
func (s Source) backend(log *zap.Logger, dial files.Dial) (kind string, b source.Backend) {
	bounds := source.Bounds{Timeout: time.Duration(s.Timeout), Concurrency: s.Concurrency, MaxBytes: s.MaxBytes, MaxSeries: s.MaxSeries}
	switch {
	case s.HTTP != nil:
		return "http", httpjson.New(s.HTTP, bounds, log, dial)
	case s.Redis != nil:
		return "redis", redis.New(s.Redis, bounds, log, dial)
	}
	return "prometheus", prometheussource.New(s.Prometheus, bounds, log, dial)
}

// Close cancels and awaits requests in flight, and closes all connections.
func (s *Set) Close() {
	for _, o := range s.sources {
		o.backend.Close() // first, as the driver of a Redis that hangs knows no cancellation
		o.sharing.Close()
	}
}

// CheckQuery returns the problems of a query, as a *typed.Error. It sends no request.
func (s *Set) CheckQuery(q Query) error { return s.problems(q).Err() }

func (s *Set) problems(q Query) typed.Problems {
	var p typed.Problems
	if q.Source == "" {
		p.Add("source", "is required: %s", s.known())
		return p
	}
	of, ok := s.sources[q.Source]
	if !ok {
		hint := s.known()
		if name, ok := spelling.Closest(q.Source, slices.Sorted(maps.Keys(s.sources))); ok {
			hint = fmt.Sprintf("did you mean %s?", name)
		}
		p.Add("source", "there is no source %q; %s", typed.Shorten(q.Source, typed.MaxQuoted), hint)
		return p
	}
	p = q.Problems(of.kind)
	p.Under("", of.backend.Check(q))
	return p
}

func (s *Set) known() string {
	if len(s.sources) == 0 {
		return "none is configured (--sources-file)"
	}
	return "the sources are " + strings.Join(slices.Sorted(maps.Keys(s.sources)), ", ")
}

// Samples returns the samples of a query, at least one, in the order of the answer. The error is an
// *Error, or a *typed.Error for a query that CheckQuery refuses.
func (s *Set) Samples(ctx context.Context, q Query) ([]Sample, error) {
	return s.samples(ctx, q, everyPod)
}

func everyPod(string) bool { return true }

// samples runs a query for the pods that keep accepts.
func (s *Set) samples(ctx context.Context, q Query, keep func(pod string) bool) ([]Sample, error) {
	if err := s.CheckQuery(q); err != nil {
		return nil, err
	}
	of := s.sources[q.Source]
	samples, err := of.read(ctx, q, keep)
	outcome := OK
	if err != nil {
		f := source.Classify(err)
		outcome, err = f.Outcome, &Error{Source: of.name, Outcome: f.Outcome, Message: f.Message}
	}
	s.metrics.queries.WithLabelValues(of.name, string(outcome)).Inc()
	return samples, err
}

// read runs a query, or uses the answer of an equal request.
func (s *opened) read(ctx context.Context, q Query, keep func(pod string) bool) ([]Sample, error) {
	answer, joined, err := s.sharing.Get(ctx, s.backend.Request(q), time.Duration(s.Timeout), func(ctx context.Context) (any, error) { return s.request(ctx, q) })
	if joined {
		s.metrics.shared.WithLabelValues(s.name).Inc()
	}
	if errors.Is(err, sharing.ErrClosed) {
		return nil, source.Failed(Cancelled, "the sources are closed")
	}
	if err != nil {
		return nil, err
	}
	values, err := s.backend.Values(q, answer)
	for i := range values {
		values[i].Bound()
	}
	switch {
	case err != nil:
		return nil, err
	case len(values) > s.MaxSeries:
		return nil, source.Failed(Unusable, "the answer has %d values, more than maxSeries: aggregate them, as with sum()", len(values))
	case len(values) == 0 && q.EmptyIsZero:
		return []Sample{nothing(q)}, nil
	case len(values) == 0:
		return nil, source.Failed(Empty, "the result is empty: check the query, or set emptyIsZero if nothing means zero")
	case q.OfPods():
		return podSamples(q, values, keep)
	}
	samples := make([]Sample, len(values))
	for i, v := range values {
		if v.Err != nil {
			return nil, source.Failed(Invalid, "%v", v.Err)
		}
		samples[i] = sampleOf(q, v)
	}
	return samples, nil
}

// nothing is the sample for an empty result if emptyIsZero.
func nothing(q Query) Sample {
	return Sample{Timestamp: time.Now(), Window: time.Duration(q.Window), Stands: true}
}

// request sends one request when a turn is free.
func (s *opened) request(ctx context.Context, q Query) (any, error) {
	began := time.Now()
	answer, err := s.inTurn(ctx, q)
	outcome := OK
	if err != nil {
		f := source.Classify(err)
		if own := (*source.Failure)(nil); f.Outcome == Timeout && !errors.As(err, &own) {
			f = &source.Failure{Outcome: Timeout, Message: fmt.Sprintf("no answer within its timeout of %s", s.Timeout)}
		}
		outcome, err = f.Outcome, f
	}
	s.metrics.requested(s.name, began, outcome)
	s.noteFiles(outcome, err)
	return answer, err
}

// noteFiles logs once that required files are unreadable, and once that they are readable
// again. The owner of a workload sees the problem in a status, but can't fix it.
func (s *opened) noteFiles(outcome Outcome, err error) {
	text, file := "", ""
	switch outcome {
	case Unprepared:
		text = err.Error()
		if f := (*source.Failure)(nil); errors.As(err, &f) {
			file = f.File
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

func (s *opened) inTurn(ctx context.Context, q Query) (any, error) {
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
	return s.backend.Ask(ctx, q)
}

func (s *opened) notInTurn(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return source.Failed(Busy, "its %d concurrent requests did not finish within its timeout of %s: it is slow, or concurrency is too low", s.Concurrency, s.Timeout)
	}
	return err
}
