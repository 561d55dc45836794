package samples

import (
	"errors"
	"strings"
	"testing"
)

const namedFile = `
sources:
  prom: {prometheus: {url: 'http://localhost:9090'}}
metrics:
  queue:
    namespaces: [shop, billing]
    query: {source: prom, query: 'sum(queue_depth{namespace="${namespace}"})'}
  price:
    namespaces: ['*']
    query: {source: prom, query: price}
`

// A namespace gets its own value, of metrics that are for it.
func TestNamedMetricsAreForNamespaces(t *testing.T) {
	t.Parallel()
	config, err := ParseConfig([]byte(namedFile))
	must(t, err)
	set := newSet(t, config)
	for _, c := range []struct{ namespace, name, query, refused string }{
		{"shop", "queue", `sum(queue_depth{namespace="shop"})`, ""},
		{"billing", "queue", `sum(queue_depth{namespace="billing"})`, ""},
		{"other", "queue", "", `the metric "queue" is not for the namespace "other"`},
		{`x"} or up{a="`, "price", "", "is not for the namespace"},
		{"other", "price", "price", ""},
		{"shop", "others", "", ""},
	} {
		q, ok, err := set.Named(c.namespace, c.name)
		var refused *Error
		switch {
		case c.refused != "":
			if !ok || !errors.As(err, &refused) || refused.Outcome != Refused || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s in %s: %v, %v", c.name, c.namespace, ok, err)
			}
		case err != nil || ok != (c.query != "") || q.Query != c.query:
			t.Errorf("%s in %s: %q, %v, %v", c.name, c.namespace, q.Query, ok, err)
		}
	}
}

func TestNamedMetricsAreChecked(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		"namespaces: [shop, billing]": "", // as it is
		"namespaces: []":              "metrics.queue.namespaces: is required",
		"namespaces: [shop, '*']":     `metrics.queue.namespaces: must be "*" alone`,
		"namespaces: ['shop\"}']":     "is no name of a namespace",
	} {
		config, err := ParseConfig([]byte(strings.Replace(namedFile, "namespaces: [shop, billing]", change, 1)))
		if err == nil {
			_, err = New(config, Options{})
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	for query, want := range map[string]string{
		"{source: nowhere, query: a}":             "metrics.queue.query.source: there is no source",
		"{source: prom}":                          "metrics.queue.query.query: is required",
		"{source: prom, query: a, podLabel: pod}": "metrics.queue.query: is of pods",
	} {
		config, err := ParseConfig([]byte("sources: {prom: {prometheus: {url: 'http://localhost'}}}\nmetrics: {queue: {namespaces: [a], query: " + query + "}}"))
		must(t, err)
		if _, err := New(config, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}
