package transport

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests counts requests to the API server, by verb and resource.
type Requests struct{ counts *prometheus.CounterVec }

// NewRequests registers the counters; r nil: they are not exported.
func NewRequests(r prometheus.Registerer) (*Requests, error) {
	c := &Requests{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_agent_api_requests_total", Help: "Requests to the API server, by verb and resource.",
	}, []string{"verb", "resource"})}
	c.counts.WithLabelValues("get", discovery) // so that the series exists before the first request
	if r == nil {
		return c, nil
	}
	return c, r.Register(c.counts)
}

// Wrap counts the requests of a transport.
func (c *Requests) Wrap(next http.RoundTripper) http.RoundTripper {
	return Around(next, func(req *http.Request) (*http.Response, error) {
		verb, resource := describe(req)
		c.counts.WithLabelValues(verb, resource).Inc()
		return next.RoundTrip(req)
	})
}

// Around is a transport that does requests with do, around the next one.
func Around(next http.RoundTripper, do func(*http.Request) (*http.Response, error)) http.RoundTripper {
	return around{next, do}
}

type around struct {
	next http.RoundTripper
	do   func(*http.Request) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (a around) RoundTrip(req *http.Request) (*http.Response, error) { return a.do(req) }

// WrappedRoundTripper lets client-go find the wrapped transport.
func (a around) WrappedRoundTripper() http.RoundTripper { return a.next }

// discovery is what describe calls the requests about APIs rather than objects.
const discovery = "discovery"

// describe returns the verb as in RBAC and the resource with its group, for example
// "deployments.apps/scale"; for the metrics APIs, whose resources are unbounded, only the API.
func describe(req *http.Request) (verb, resource string) {
	segments := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	// A proxy of several clusters has a path of its own before the API server's.
	segments = segments[max(0, slices.IndexFunc(segments, func(s string) bool { return s == "api" || s == "apis" })):]
	group := ""
	switch {
	case len(segments) > 2 && segments[0] == "api":
		segments = segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		group, segments = segments[1], segments[3:]
	default:
		return strings.ToLower(req.Method), discovery
	}
	if len(segments) > 2 && segments[0] == "namespaces" {
		segments = segments[2:]
	}
	if group == "custom.metrics.k8s.io" || group == "external.metrics.k8s.io" {
		return "get", group
	}
	resource = segments[0]
	if group != "" {
		resource += "." + group
	}
	if len(segments) > 2 {
		resource += "/" + segments[2]
	}
	return verbOf(req, len(segments) > 1), resource
}

func verbOf(req *http.Request, named bool) string {
	switch req.Method {
	case http.MethodGet:
		if strings.Contains(req.URL.RawQuery, "watch=true") || strings.Contains(req.URL.RawQuery, "watch=1") {
			return "watch"
		}
		if named {
			return "get"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	}
	return strings.ToLower(req.Method)
}
