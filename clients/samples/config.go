package samples

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
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

// maxParseError bounds the quoted part of a parser's error, in bytes: it quotes the document.
const maxParseError = 256

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

// ParseConfig parses the file of sources, YAML or JSON. The error is a *ConfigError with all
// problems, or the parser's.
func ParseConfig(data []byte) (Config, error) {
	var c Config
	text, err := document.JSON(data, document.MaxBytes)
	if err != nil {
		return Config{}, (&problems{{Message: shorten(err.Error(), maxParseError)}}).err()
	}
	parsed, err := decodeJSON(text)
	if err != nil {
		return Config{}, (&problems{{Message: shorten(err.Error(), maxParseError)}}).err()
	}
	var p problems
	p.fill("", parsed, reflect.ValueOf(&c).Elem())
	if len(p) == 0 {
		p = c.problems()
	}
	if err := p.err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Validate returns all problems, as a *ConfigError. It opens no file.
func (c Config) Validate() error { return c.problems().err() }

// sourceName matches names of sources, which are labels of metrics, and parts of labels of
// services.
var sourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (c Config) problems() problems {
	var p problems
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		field := "sources." + shorten(name, maxQuoted)
		if !sourceName.MatchString(name) {
			p.add(field, "the name of a source has lower-case letters, digits and dashes between them, at most 63")
		}
		p.under(field, c.Sources[name].problems())
	}
	for _, name := range slices.Sorted(maps.Keys(c.Metrics)) {
		field := "metrics." + shorten(name, maxQuoted)
		if name == "" || len(name) > maxNameLength {
			p.add(field, "the name of a metric must have 1 to %d bytes", maxNameLength)
		}
		p.under(field, c.Metrics[name].problems())
	}
	return p
}

func (s Source) problems() problems {
	var p problems
	kinds := 0
	if s.Prometheus != nil {
		kinds++
		p.under("prometheus", s.Prometheus.problems())
	}
	if s.HTTP != nil {
		kinds++
		p.under("http", s.HTTP.problems())
	}
	if s.Redis != nil {
		kinds++
		p.under("redis", s.Redis.problems())
	}
	if kinds != 1 {
		p.add("", "must have exactly one of prometheus, http and redis")
	}
	within := func(field string, value, most int64) {
		if value < 0 || value > most {
			p.add(field, "must be between 0, which stands for the default, and %d", most)
		}
	}
	if s.Timeout < 0 || s.Timeout > Duration(maxTimeout) {
		p.add("timeout", "must be between 0s, which stands for the default, and %s", maxTimeout)
	}
	if s.Reuse != nil && (*s.Reuse < 0 || *s.Reuse > Duration(maxReuse)) {
		p.add("reuse", "must be between 0s and %s", maxReuse)
	}
	within("concurrency", int64(s.Concurrency), maxConcurrency)
	within("maxBytes", int64(s.MaxBytes), maxMaxBytes)
	within("maxSeries", int64(s.MaxSeries), maxMaxSeries)
	return p
}

func (s Source) withDefaults() Source {
	if s.Timeout == 0 {
		s.Timeout = Duration(DefaultTimeout)
	}
	if s.Concurrency == 0 {
		s.Concurrency = DefaultConcurrency
	}
	if s.Reuse == nil {
		reuse := Duration(DefaultReuse)
		s.Reuse = &reuse
	}
	if s.MaxBytes == 0 {
		s.MaxBytes = DefaultMaxBytes
	}
	if s.MaxSeries == 0 {
		s.MaxSeries = DefaultMaxSeries
	}
	return s
}
