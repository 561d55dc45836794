package sources

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/internal/typed"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Kinds of sources.
const (
	prometheusKind = "prometheus"
	httpKind       = "http"
	redisKind      = "redis"
)

// grants are the namespaces whose specs may use a source; "-" is any cluster or namespace.
type grants []store.Key

// has reports whether a target's spec may name the source.
func (g grants) has(key store.Key) bool {
	return slices.ContainsFunc(g, func(to store.Key) bool {
		return (to.Cluster == "-" || to.Cluster == key.Cluster) && (to.Namespace == "-" || to.Namespace == key.Namespace)
	})
}

// file is the operator's file: sources as the agents have them, each with the namespaces whose specs
// may use it.
type file struct {
	Sources map[string]struct {
		samples.Source
		Namespaces []string `json:"namespaces"`
	} `json:"sources"`
}

// readFile reads the file of sources. It opens none of the files that it names.
func readFile(name string) (samples.Config, map[string]grants, error) {
	text, err := files.Read(name, document.MaxBytes)
	if err != nil {
		return samples.Config{}, nil, err
	}
	parsed, err := typed.Document(string(text), document.MaxBytes)
	if err != nil {
		return samples.Config{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	var (
		f        file
		problems typed.Problems
	)
	problems.Fill("", parsed, &f)
	config, named := samples.Config{Sources: map[string]samples.Source{}}, map[string]grants{}
	for _, source := range slices.Sorted(maps.Keys(f.Sources)) {
		of, field := f.Sources[source], "sources."+typed.Shorten(source, typed.MaxQuoted)+".namespaces"
		config.Sources[source] = of.Source
		if len(of.Namespaces) == 0 {
			problems.Add(field, "is required: those whose specs may use the source, such as [clusters/prod/namespaces/shop]")
		}
		for i, parent := range of.Namespaces {
			to, ok := parseParent(parent)
			if !ok {
				problems.Add(fmt.Sprintf("%s[%d]", field, i), "must be clusters/{cluster}/namespaces/{namespace}; - stands for any")
			}
			named[source] = append(named[source], to)
		}
	}
	if err := errors.Join(problems.Err(), config.Validate()); err != nil {
		return samples.Config{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	return config, named, nil
}

func parseParent(text string) (store.Key, bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 4 || parts[0] != "clusters" || parts[2] != "namespaces" {
		return store.Key{}, false
	}
	for _, segment := range []string{parts[1], parts[3]} {
		if segment != "-" && !target.IsSegment(segment) {
			return store.Key{}, false
		}
	}
	return store.Key{Cluster: parts[1], Namespace: parts[3]}, true
}

// sourcesOf are the sources that a URL may be of, by kind. Errors don't quote a URL with a
// password.
func sourcesOf(text string) (map[string]samples.Source, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("must be URLs such as http://prometheus:9090 or redis://queue:6379")
	case u.User != nil:
		return nil, fmt.Errorf("the URL of %s must hold no user or password: give them in --sources-file", u.Host)
	}
	reuse := samples.Duration(0)
	source := samples.Source{
		Timeout: samples.Duration(Timeout), Concurrency: concurrency, Reuse: &reuse, MaxBytes: MaxBytes, MaxSeries: MaxSeries,
	}
	switch u.Scheme {
	case "http", "https":
		ofPrometheus, ofHTTP := source, source
		ofPrometheus.Prometheus, ofHTTP.HTTP = &samples.Server{URL: text}, &samples.Server{URL: text}
		return map[string]samples.Source{prometheusKind: ofPrometheus, httpKind: ofHTTP}, nil
	case "redis", "rediss":
		if u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("the URL of %s must have no parameters: the number of a database is its path, redis://%[1]s/2", u.Host)
		}
		port := u.Port()
		port = cmp.Or(port, "6379")
		source.Redis = &samples.Redis{Addresses: []string{net.JoinHostPort(u.Hostname(), port)}}
		if database := strings.Trim(u.Path, "/"); database != "" {
			if source.Redis.Database, err = strconv.Atoi(database); err != nil {
				return nil, fmt.Errorf("%s: the path must be the number of a database", text)
			}
		}
		if u.Scheme == "rediss" {
			source.Redis.TLS = &samples.TLS{}
		}
		return map[string]samples.Source{redisKind: source}, nil
	}
	return nil, fmt.Errorf("%s: must begin with http://, https://, redis:// or rediss://", text)
}

// nameOf is a name for a source of a URL that no other one has: metrics and errors have it.
func nameOf(text, kind string, taken map[string]samples.Source) string {
	host := strings.ToLower(text[strings.Index(text, "://")+len("://"):])
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host), "-")
	name = strings.Trim(name[:min(len(name), 40)], "-")
	name = cmp.Or(name, "url")
	name += "-" + kind
	free := name
	for i := 2; ; i++ {
		if _, ok := taken[free]; !ok {
			return free
		}
		free = name + "-" + strconv.Itoa(i)
	}
}

// queryOf is a query in the words of package samples, without its source, and the kind of source that
// it is for; "": it has no field of any kind.
func queryOf(q *setpointv1.MetricQuery) (query samples.Query, kind string) {
	query = samples.Query{
		Window: duration(q.GetWindow()), EmptyIsZero: q.GetEmptyIsZero(), AllowNegative: q.GetAllowNegative(),
		Query: q.GetQuery(), PodLabel: q.GetPodLabel(), ContainerLabel: q.GetContainerLabel(), AllowWarnings: q.GetAllowWarnings(),
		Path: q.GetPath(), ValuePath: q.GetValuePath(), ItemsPath: q.GetItemsPath(), PodPath: q.GetPodPath(),
		ContainerPath: q.GetContainerPath(), TimestampPath: q.GetTimestampPath(), MaxAge: duration(q.GetMaxAge()),
		List: q.GetList(), SortedSet: q.GetSortedSet(), MinScore: q.GetMinScore(), MaxScore: q.GetMaxScore(),
		Stream: q.GetStream(), Group: q.GetGroup(), Pending: q.GetPending(),
	}
	switch {
	case query.Query != "":
		kind = prometheusKind
	case query.ValuePath != "":
		kind = httpKind
	case query.List != "" || query.SortedSet != "" || query.Stream != "":
		kind = redisKind
	}
	return query, kind
}

func duration(d *durationpb.Duration) samples.Duration {
	return samples.Duration(max(0, min(d.AsDuration(), 24*time.Hour)))
}

// refused are the errors of the metric that a violation is about.
func refused(spec *setpointv1.TargetSpec, v validation.Violation) []*setpointv1.MetricError {
	for i, q := range spec.GetQueries() {
		if strings.HasPrefix(v.Field, fmt.Sprintf("queries[%d]", i)) {
			return stored.Unfetched(spec, q, v.Description)
		}
	}
	return nil
}
