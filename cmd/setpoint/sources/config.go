package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Kinds of sources, as named by MetricQuery.
const (
	prometheusKind = "prometheus"
	jsonKind       = "json"
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

// readFile reads the file of sources. It opens none of the files that it names.
func readFile(name string) (samples.Config, map[string]grants, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return samples.Config{}, nil, err
	}
	text, err := document.JSON(data, document.MaxBytes)
	if err != nil {
		return samples.Config{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return samples.Config{}, nil, fmt.Errorf("%s: must hold sources and grants", name)
	}
	for part := range parts {
		if part != "sources" && part != "grants" {
			return samples.Config{}, nil, fmt.Errorf("%s: %q is neither sources nor grants", name, part)
		}
	}
	granted := map[string][]string{}
	if len(parts["grants"]) > 0 {
		if err := json.Unmarshal(parts["grants"], &granted); err != nil {
			return samples.Config{}, nil, fmt.Errorf("%s: grants: must be lists of clusters/{cluster}/namespaces/{namespace} by the names of sources", name)
		}
	}
	delete(parts, "grants")
	rest, err := json.Marshal(parts)
	if err != nil {
		return samples.Config{}, nil, err
	}
	config, err := samples.ParseConfig(rest)
	if err != nil {
		return samples.Config{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	if config.Sources == nil {
		config.Sources = map[string]samples.Source{}
	}
	named, err := parseGrants(config.Sources, granted)
	if err != nil {
		return samples.Config{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	return config, named, nil
}

func parseGrants(sources map[string]samples.Source, granted map[string][]string) (map[string]grants, error) {
	named := make(map[string]grants, len(sources))
	for _, source := range slices.Sorted(maps.Keys(granted)) {
		if _, ok := sources[source]; !ok {
			return nil, fmt.Errorf("grants.%s: there is no source of that name", source)
		}
		for i, parent := range granted[source] {
			to, ok := parseParent(parent)
			if !ok {
				return nil, fmt.Errorf("grants.%s[%d]: must be clusters/{cluster}/namespaces/{namespace}; - stands for any", source, i)
			}
			named[source] = append(named[source], to)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		if len(named[source]) == 0 {
			return nil, fmt.Errorf("grants.%s: is required: the namespaces whose specs may use the source, such as [clusters/prod/namespaces/shop]", source)
		}
	}
	return named, nil
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
		ofPrometheus, ofJSON := source, source
		ofPrometheus.Prometheus, ofJSON.HTTP = &samples.Server{URL: text}, &samples.Server{URL: text}
		return map[string]samples.Source{prometheusKind: ofPrometheus, jsonKind: ofJSON}, nil
	case "redis", "rediss":
		port := u.Port()
		if port == "" {
			port = "6379"
		}
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
	if name == "" {
		name = "url"
	}
	name += "-" + kind
	free := name
	for i := 2; ; i++ {
		if _, ok := taken[free]; !ok {
			return free
		}
		free = name + "-" + strconv.Itoa(i)
	}
}

// queryOf is a query in the words of package samples, and the kind of its source; "": it has
// none.
func queryOf(q *setpointv1.MetricQuery) (query samples.Query, kind string) {
	query = samples.Query{Window: duration(q.GetWindow()), EmptyIsZero: q.GetEmptyIsZero(), AllowNegative: q.GetAllowNegative()}
	switch ask := q.GetAsk().(type) {
	case *setpointv1.MetricQuery_Prometheus:
		p := ask.Prometheus
		query.Query, query.PodLabel, query.ContainerLabel, query.AllowWarnings = p.GetQuery(), p.GetPodLabel(), p.GetContainerLabel(), p.GetAllowWarnings()
		return query, prometheusKind
	case *setpointv1.MetricQuery_Json:
		j := ask.Json
		query.Path, query.ValuePath, query.ItemsPath, query.PodPath = j.GetPath(), j.GetValuePath(), j.GetItemsPath(), j.GetPodPath()
		query.ContainerPath, query.TimestampPath, query.MaxAge = j.GetContainerPath(), j.GetTimestampPath(), duration(j.GetMaxAge())
		return query, jsonKind
	case *setpointv1.MetricQuery_Redis:
		r := ask.Redis
		query.List, query.SortedSet, query.MinScore, query.MaxScore = r.GetList(), r.GetSortedSet(), r.GetMinScore(), r.GetMaxScore()
		query.Stream, query.Group, query.Pending = r.GetStream(), r.GetGroup(), r.GetPending()
		return query, redisKind
	}
	return query, ""
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
