package samples

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/clients/samples/httpapi"
	"github.com/setpoint-dev/setpoint/clients/samples/redis"
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Defaults and bounds of a Source.
const (
	DefaultTimeout     = 5 * time.Second
	DefaultConcurrency = 8
	DefaultReuse       = time.Second
	DefaultMaxBytes    = 1 << 20
	DefaultMaxSeries   = 1000

	maxTimeout     = time.Minute
	maxConcurrency = 1000
	maxReuse       = time.Minute
	maxMaxBytes    = 64 << 20
	maxMaxSeries   = 100_000
)

// What packages of sources have, in the words of the file.
type (
	// Query is a workload's query of a source; see source.Query.
	Query = source.Query
	// Duration is written as in "15s".
	Duration = source.Duration
	// Sample is one value of a query.
	Sample = source.Sample
	// Server is the address of an HTTP API; see httpapi.Server.
	Server = httpapi.Server
	// Prometheus is a server with the HTTP API of Prometheus: Prometheus itself, Thanos,
	// Mimir, VictoriaMetrics.
	Prometheus = Server
	// HTTP is a server that answers GET requests with JSON.
	HTTP = Server
	// Redis is one server, a Cluster, or a master that sentinels watch; see redis.Server.
	Redis = redis.Server
	// TLS sets the CAs to trust and the client certificate.
	TLS = source.TLS
	// Outcome is the outcome of a query or a request, for metrics.
	Outcome = source.Outcome
)

// The outcomes, as package source explains them.
const (
	OK          = source.OK
	Timeout     = source.Timeout
	Busy        = source.Busy
	Unreachable = source.Unreachable
	Refused     = source.Refused
	Unusable    = source.Unusable
	Unprepared  = source.Unprepared
	Empty       = source.Empty
	Invalid     = source.Invalid
	Cancelled   = source.Cancelled
)

// CheckValue returns an error for a quantity that would scale to the maximum; see source.CheckValue.
func CheckValue(text string) error { return source.CheckValue(text) }

// Config is the operator's file of sources.
type Config struct {
	// Sources by name, which queries use: lower-case letters, digits and dashes.
	Sources map[string]Source `json:"sources"`
	// Metrics are named metrics: External, Pods and Object metrics of a cluster's Autoscalers
	// that the sources answer, by name. Default: none.
	Metrics map[string]NamedMetric `json:"metrics,omitempty"`
}

// Source is one server, exactly one of Prometheus, HTTP and Redis, with the settings of its
// requests.
type Source struct {
	// Prometheus is a server with the HTTP API of Prometheus.
	Prometheus *Prometheus `json:"prometheus,omitempty"`
	// HTTP is a server that answers with JSON.
	HTTP *HTTP `json:"http,omitempty"`
	// Redis is a server with lists, sorted sets or streams.
	Redis *Redis `json:"redis,omitempty"`
	// Timeout bounds a query, including the wait for its turn and the reading of its answer.
	// Default: 5s.
	Timeout Duration `json:"timeout,omitempty"`
	// Concurrency is the maximum of concurrent requests. Default: 8.
	Concurrency int `json:"concurrency,omitempty"`
	// Reuse is how long an answer, even a failure, serves equal queries, counted from the
	// start of its request. 0s: only concurrent queries share it. Default: 1s.
	Reuse *Duration `json:"reuse,omitempty"`
	// MaxBytes bounds an answer, after decompression. Default: 1048576.
	MaxBytes int `json:"maxBytes,omitempty"`
	// MaxSeries bounds the values in an answer. Default: 1000.
	MaxSeries int `json:"maxSeries,omitempty"`
}

// ParseConfig parses the file of sources, YAML or JSON. The error is a *typed.Error with all
// problems, or the parser's.
func ParseConfig(data []byte) (Config, error) {
	var c Config
	parsed, err := typed.Document(string(data), document.MaxBytes)
	if err != nil {
		return Config{}, (&typed.Problems{{Message: err.Error()}}).Err()
	}
	var p typed.Problems
	p.Fill("", parsed, &c)
	if len(p) == 0 {
		p = c.problems()
	}
	if err := p.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Validate returns all problems, as a *typed.Error. It opens no file.
func (c Config) Validate() error { return c.problems().Err() }

// sourceName matches names of sources, which are labels of metrics, and parts of labels of
// services.
var sourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (c Config) problems() typed.Problems {
	var p typed.Problems
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		field := "sources." + typed.Shorten(name, typed.MaxQuoted)
		if !sourceName.MatchString(name) {
			p.Add(field, "the name of a source has lower-case letters, digits and dashes between them, at most 63")
		}
		p.Under(field, c.Sources[name].problems())
	}
	for _, name := range slices.Sorted(maps.Keys(c.Metrics)) {
		field := "metrics." + typed.Shorten(name, typed.MaxQuoted)
		if name == "" || len(name) > source.MaxNameLength {
			p.Add(field, "the name of a metric must have 1 to %d bytes", source.MaxNameLength)
		}
		p.Under(field, c.Metrics[name].problems())
	}
	return p
}

func (s Source) problems() typed.Problems {
	var p typed.Problems
	kinds := 0
	if s.Prometheus != nil {
		kinds++
		p.Under("prometheus", s.Prometheus.Problems())
	}
	if s.HTTP != nil {
		kinds++
		p.Under("http", s.HTTP.Problems())
	}
	if s.Redis != nil {
		kinds++
		p.Under("redis", s.Redis.Problems())
	}
	if kinds != 1 {
		p.Add("", "must have exactly one of prometheus, http and redis")
	}
	within := func(field string, value, most int64) {
		if value < 0 || value > most {
			p.Add(field, "must be between 0, which stands for the default, and %d", most)
		}
	}
	if s.Timeout < 0 || s.Timeout > Duration(maxTimeout) {
		p.Add("timeout", "must be between 0s, which stands for the default, and %s", maxTimeout)
	}
	if s.Reuse != nil && (*s.Reuse < 0 || *s.Reuse > Duration(maxReuse)) {
		p.Add("reuse", "must be between 0s and %s", maxReuse)
	}
	within("concurrency", int64(s.Concurrency), maxConcurrency)
	within("maxBytes", int64(s.MaxBytes), maxMaxBytes)
	within("maxSeries", int64(s.MaxSeries), maxMaxSeries)
	return p
}

func (s Source) withDefaults() Source {
	s.Timeout = cmp.Or(s.Timeout, Duration(DefaultTimeout))
	s.Concurrency = cmp.Or(s.Concurrency, DefaultConcurrency)
	if s.Reuse == nil {
		reuse := Duration(DefaultReuse)
		s.Reuse = &reuse
	}
	s.MaxBytes = cmp.Or(s.MaxBytes, DefaultMaxBytes)
	s.MaxSeries = cmp.Or(s.MaxSeries, DefaultMaxSeries)
	return s
}
