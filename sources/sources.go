// Package sources fetches metrics for stored specs, from where the service's operator lets it.
//
// A stored spec names a source and a query, and its author could write any. So the operator
// names everything that can be reached: URLs for any spec, without credentials, and a file of
// sources, which may have credentials, each with the namespaces whose specs may use it:
//
//	sources:
//	  shop:
//	    prometheus: {url: https://prometheus.shop:9090, bearerTokenFile: /run/secrets/token}
//	    namespaces: [clusters/prod/namespaces/shop]
//
// Answers, times and queries at once are bounded, for each namespace and in all. Names that
// lead to loopback or link-local addresses are not followed there, unless the operator wrote
// such an address, or localhost. Package clients/samples asks and reads.
package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/sharing"
	"github.com/setpoint-dev/setpoint/internal/typed"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Bounds of what specs make the service do.
const (
	// Timeout bounds a fetch, waiting for its turn included: KEDA's adapter waits for 3 s.
	Timeout = 2 * time.Second
	// Queries are asked at once, in all.
	Queries = 32
	// QueriesOfNamespace are asked at once for the specs of one namespace.
	QueriesOfNamespace = 8
	// Waiting are the polls that may wait for fetches, their own or one that they share, in all. A
	// cluster has half of them at most, and a namespace no more than are left; further ones are
	// refused.
	Waiting = 1024
	// WaitingOfNamespace are those for one namespace; a caller has half of them at most.
	WaitingOfNamespace = 256
	// MaxBytes bounds an answer of a URL. Sources of the file have their own bounds.
	MaxBytes = 256 << 10
	// MaxSeries bounds the values in such an answer.
	MaxSeries = 1000
	// concurrency bounds the queries that one URL is asked at once. Namespaces take turns.
	concurrency = 16
)

// Options say what may be asked.
type Options struct {
	// URLs may be named by all specs.
	URLs []string
	// File names the file of sources; "" without one.
	File string
	// Registerer takes the metrics of the sources. Nil: no metrics.
	Registerer prometheus.Registerer
	// Log takes errors of credential files. Nil: no log.
	Log *zap.Logger
}

// Sources implements stored.Sources. It must be closed.
type Sources struct {
	set *samples.Set
	// urls are the sources of URLs, by URL and kind, and named those of the file.
	urls    map[string]map[string]string
	named   map[string]grants
	door    *door
	turns   *turns
	flights *sharing.Group[*stored.Fetched]
}

var _ stored.Sources = (*Sources)(nil)

// ValidateURLs returns what is wrong with the URLs.
func (o *Options) ValidateURLs() error {
	for _, text := range o.URLs {
		if _, err := sourcesOf(text); err != nil {
			return err
		}
	}
	return nil
}

// New returns the sources that the options name; nil where they name none.
func New(o Options) (*Sources, error) {
	if len(o.URLs) == 0 && o.File == "" {
		return nil, nil
	}
	config := samples.Config{Sources: map[string]samples.Source{}}
	s := &Sources{urls: map[string]map[string]string{}, door: newDoor(), flights: sharing.New[*stored.Fetched](0)}
	if o.File != "" {
		var err error
		if config, s.named, err = readFile(o.File); err != nil {
			return nil, fmt.Errorf("--sources-file: %w", err)
		}
	}
	for _, text := range o.URLs {
		kinds, err := sourcesOf(text)
		if err != nil {
			return nil, fmt.Errorf("--source-urls: %w", err)
		}
		s.urls[text] = map[string]string{}
		for kind, source := range kinds {
			name := nameOf(text, kind, config.Sources)
			config.Sources[name], s.urls[text][kind] = source, name
		}
	}
	atOnce := make(map[string]int, len(config.Sources))
	for name, source := range config.Sources {
		atOnce[name] = cmp.Or(source.Concurrency, samples.DefaultConcurrency)
	}
	s.turns = newTurns(atOnce)
	var err error
	s.set, err = samples.New(config, samples.Options{Registerer: o.Registerer, Log: o.Log, Dial: guard(config)})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends what is being fetched, and all connections.
func (s *Sources) Close() {
	if s != nil {
		s.flights.Close()
		s.set.Close()
	}
}

// Check implements stored.Sources.
func (s *Sources) Check(key store.Key, spec *setpointv1.TargetSpec) (violations []validation.Violation) {
	metrics, violations := s.metrics(key, spec)
	if len(violations) > 0 {
		return violations
	}
	for i := range metrics {
		violations = append(violations, problems(fmt.Sprintf("queries[%d]", i), s.set.Check(metrics[i:i+1]))...)
	}
	if len(violations) == 0 {
		violations = problems("queries", s.set.Check(metrics))
	}
	return violations
}

// problems are the violations that an error of package samples comes to.
func problems(field string, err error) (violations []validation.Violation) {
	var config *typed.Error
	if !errors.As(err, &config) {
		return nil
	}
	for _, p := range config.Problems {
		violations = append(violations, validation.Violation{Field: field, Description: "Invalid value: " + p.Field + ": " + p.Message})
	}
	return violations
}

// metrics are those of the spec that have queries, in their order.
func (s *Sources) metrics(key store.Key, spec *setpointv1.TargetSpec) (metrics []samples.Metric, violations []validation.Violation) {
	for i, q := range spec.GetQueries() {
		refuse := func(field, format string, args ...any) {
			violations = append(violations, validation.Violation{Field: fmt.Sprintf("queries[%d]%s", i, field), Description: "Invalid value: " + fmt.Sprintf(format, args...)})
		}
		index, problem := stored.QueriedMetric(spec, q)
		if problem != "" {
			refuse(".metric", "%s", problem)
			continue
		}
		query, kind := queryOf(q)
		if kind == "" {
			refuse("", "must have query, valuePath, or one of list, sortedSet and stream")
			continue
		}
		if query.Source, problem = s.sourceOf(key, q.GetSource(), kind); problem != "" {
			refuse(".source", "%s", problem)
			continue
		}
		metrics = append(metrics, samples.Metric{Spec: spec.GetSpec().GetMetrics()[index], Query: query})
	}
	return metrics, violations
}

// sourceOf is the source that a target's spec names. What there is for others is not told.
func (s *Sources) sourceOf(key store.Key, name, kind string) (source, problem string) {
	if kinds, ok := s.urls[name]; ok {
		if source, ok := kinds[kind]; ok {
			return source, ""
		}
		return "", fmt.Sprintf("a URL with this scheme can't be a source of kind %s, only of %v", kind, slices.Sorted(maps.Keys(kinds)))
	}
	if granted, ok := s.named[name]; ok && granted.has(key) {
		return name, ""
	}
	return "", "this namespace may not use a source of that name: the operator of the service allows URLs (--source-urls) and lists the namespaces of named sources (--sources-file)"
}

// Fetch implements stored.Sources. Of a spec that asks at once for several polls it asks once.
func (s *Sources) Fetch(ctx context.Context, key store.Key, spec *setpointv1.TargetSpec, pods []string) (*stored.Fetched, error) {
	leave, ok := s.door.enter(store.Key{Cluster: key.Cluster, Namespace: key.Namespace}, access.CallerOf(ctx).Name())
	if !ok {
		return nil, stored.ErrBusy
	}
	defer leave()
	// Another version of the spec asks something else.
	fetched, _, err := s.flights.Get(ctx, key.String()+" "+spec.GetEtag(), Timeout, func(ctx context.Context) (*stored.Fetched, error) {
		return s.fetch(ctx, key, spec, pods)
	})
	return fetched, err
}

func (s *Sources) fetch(ctx context.Context, key store.Key, spec *setpointv1.TargetSpec, pods []string) (*stored.Fetched, error) {
	metrics, violations := s.metrics(key, spec)
	fetched := &stored.Fetched{}
	for _, v := range violations {
		// The operator has changed what may be asked since the spec was stored.
		fetched.MetricErrors = append(fetched.MetricErrors, refused(spec, v)...)
	}
	if len(metrics) == 0 {
		return fetched, nil
	}
	queries := map[string]int{}
	for _, m := range metrics {
		queries[m.Query.Source]++
	}
	leave, err := s.turns.take(ctx, key, queries)
	if err != nil {
		return nil, err
	}
	defer leave()
	readings := s.set.Read(ctx, metrics, pods)
	fetched.PodMetrics, fetched.CustomMetrics, fetched.ExternalMetrics = readings.PodMetrics, readings.CustomMetrics, readings.ExternalMetrics
	fetched.MetricErrors = append(fetched.MetricErrors, readings.MetricErrors...)
	return fetched, nil
}
