package samples

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const namedFile = `
sources:
  prom: {prometheus: {url: 'http://localhost:9090'}}
metrics:
  queue:
    namespaces: [shop, billing]
    source: prom
    query: 'sum(queue_depth{namespace="${namespace}"})'
  price:
    namespaces: ['*']
    source: prom
    query: price
  load:
    type: Pods
    namespaces: ['*']
    source: prom
    query: 'load{namespace="${namespace}"}'
    podLabel: pod
  hits:
    type: Object
    kind: Ingress
    namespaces: ['*']
    source: prom
    query: 'hits{namespace="${namespace}",ingress="${object}"}'
  all:
    type: Object
    kind: Namespace
    namespaces: ['*']
    source: prom
    query: 'all{namespace="${object}"}'
`

func ofAnObject(name, kind, object string) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: name}, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: kind, Name: object},
	}}
}

// A namespace gets its own value of the metrics that it may use.
func TestNamedMetricsAreForNamespaces(t *testing.T) {
	t.Parallel()
	config, err := ParseConfig([]byte(namedFile))
	fatal.If(t, err)
	set := newSet(t, config)
	for _, c := range []struct {
		namespace      string
		metric         *setpointv1.MetricSpec
		query, refused string
	}{
		{"shop", external("queue"), `sum(queue_depth{namespace="shop"})`, ""},
		{"billing", external("queue"), `sum(queue_depth{namespace="billing"})`, ""},
		{"other", external("queue"), "", `the metric "queue" is not for the namespace "other"`},
		{`x"} or up{a="`, external("price"), "", "is not for the namespace"},
		{"other", external("price"), "price", ""},
		{"shop", external("others"), "", ""},
		{"shop", podsMetric("queue"), "", ""},
		{"shop", podsMetric("load"), `load{namespace="shop"}`, ""},
		{"shop", external("load"), "", ""},
		{"shop", ofAnObject("hits", "Ingress", "a.b-c"), `hits{namespace="shop",ingress="a.b-c"}`, ""},
		{"shop", ofAnObject("hits", "Service", "web"), "", `describes objects of the kind Ingress, not "Service"`},
		{"shop", ofAnObject("hits", "Ingress", `x"} or up{a="`), "", "can't be put into a query"},
		{"shop", ofAnObject("hits", "Ingress", "${namespace}"), "", "can't be put into a query"},
		{"shop", ofAnObject("all", "Namespace", "other"), `all{namespace="shop"}`, ""},
	} {
		m, ok, err := set.Named(c.namespace, c.metric)
		var refused *Error
		switch {
		case c.refused != "":
			if !ok || !errors.As(err, &refused) || refused.Outcome != Refused || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), "prom") {
				t.Errorf("%s in %s: %v, %v", c.metric, c.namespace, ok, err)
			}
		case err != nil || ok != (c.query != "") || m.Query.Query != c.query:
			t.Errorf("%s in %s: %q, %v, %v", c.metric, c.namespace, m.Query.Query, ok, err)
		}
	}
}

// A user of a named metric sees only its name and the kind of a failure. The source's answer,
// its name and the query are the operator's: they are in the log, and not in every reconcile.
func TestNamedMetricsKeepWhatTheirSourcesSay(t *testing.T) {
	t.Parallel()
	answer := body(`{"status":"error","errorType":"bad_data","error":"geheim: parse error in hidden_total"}`)
	prom := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) })
	config, err := ParseConfig([]byte(strings.Replace(namedFile, "http://localhost:9090", prom.URL, 1)))
	fatal.If(t, err)
	none := Duration(0)
	of := config.Sources["prom"]
	of.Reuse = &none
	config.Sources["prom"] = of
	core, logs := observer.New(zap.InfoLevel)
	set, err := New(config, Options{Log: zap.New(core)})
	fatal.If(t, err)
	t.Cleanup(set.Close)
	read := func(name string) string {
		m, ok, err := set.Named("shop", external(name))
		if fatal.If(t, err); !ok {
			t.Fatal("it has no name")
		}
		got := set.Read(t.Context(), []Metric{m}, nil)
		if len(got.MetricErrors) == 0 {
			return ""
		}
		return got.MetricErrors[0].GetMessage()
	}
	for range 3 {
		if got := read("queue"); got != `the metric "queue": its source refused the query; the log of the agent has details` {
			t.Errorf("it says %q", got)
		}
	}
	if lines := logs.TakeAll(); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()), "geheim: parse error") || lines[0].ContextMap()["namespace"] != "shop" {
		t.Errorf("logged %v", lines)
	}
	answer = result("vector", `[]`)
	if got := read("queue"); !strings.Contains(got, "it has no value") {
		t.Errorf("it says %q", got)
	}
	answer = result("vector", `[{"metric":{},"value":[1,"3"]}]`)
	if got := read("queue"); got != "" {
		t.Errorf("it says %q", got)
	}
	var said []string
	for _, line := range logs.TakeAll() {
		said = append(said, line.Message)
	}
	if got := strings.Join(said, ", "); got != "named metric not read, named metric read again" {
		t.Errorf("logged %s", got)
	}
	for outcome := range classes {
		if outcome == OK {
			t.Error("success is no class of failures")
		}
	}
	for _, outcome := range source.Outcomes {
		if classes[outcome] == "" && outcome != OK {
			t.Errorf("no class for %s", outcome)
		}
	}
}

// An unreadable file is the operator's problem: it is logged once.
func TestFilesThatCantBeReadAreLogged(t *testing.T) {
	t.Parallel()
	prom := newFakeProm(t, result("vector", `[{"metric":{},"value":[1,"3"]}]`))
	token := filepath.Join(t.TempDir(), "token")
	fatal.If(t, os.WriteFile(token, []byte("s3cret"), 0o600))
	none := Duration(0)
	core, logs := observer.New(zap.InfoLevel)
	set, err := New(Config{Sources: map[string]Source{"prom": {
		Prometheus: &Prometheus{URL: prom.URL, BearerTokenFile: token, InsecureCredentials: true}, Reuse: &none,
	}}}, Options{Log: zap.New(core)})
	fatal.If(t, err)
	t.Cleanup(set.Close)
	for _, step := range []struct {
		do    func()
		want  string
		fails bool
	}{
		{func() {}, "", false},
		{func() { fatal.If(t, os.Remove(token)) }, "file not read, keeping its previous content: bearerTokenFile can't be read", false},
		{func() {}, "", false},
		{func() { fatal.If(t, os.WriteFile(token, []byte(" "), 0o600)) }, "file not read, keeping its previous content: bearerTokenFile is empty", false},
		{func() { fatal.If(t, os.WriteFile(token, []byte("s3cret2"), 0o600)) }, "file reloaded: ", false},
		{func() { fatal.If(t, os.WriteFile(token, []byte("two\nlines"), 0o600)) }, "source not queried, a file can't be read: bearerTokenFile has more than one line", true},
		{func() {}, "", true},
		{func() { fatal.If(t, os.WriteFile(token, []byte("s3cret"), 0o600)) }, "source queried again, its files can be read: ", false},
	} {
		step.do()
		if _, err := set.Samples(t.Context(), Query{Source: "prom", Query: "up"}); (err != nil) != step.fails {
			t.Errorf("%s: %v", step.want, err)
		}
		var got []string
		for _, line := range logs.TakeAll() {
			text, _ := line.ContextMap()["error"].(string)
			got = append(got, line.Message+": "+text)
			if line.ContextMap()["file"] != token && !strings.HasPrefix(line.Message, "source queried again") {
				t.Errorf("the operator's line names no file: %v", line.ContextMap())
			}
		}
		if text := strings.Join(got, "\n"); len(got) > 1 || step.want == "" && text != "" || !strings.HasPrefix(text, step.want) || strings.Contains(text, "s3cret") {
			t.Errorf("logged %q, want %q", text, step.want)
		}
	}
}

func TestNamedMetricsAreChecked(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		"namespaces: [shop, billing]": "", // unchanged
		"namespaces: []":              "metrics.queue.namespaces: is required",
		"namespaces: [shop, '*']":     `metrics.queue.namespaces: must be "*" alone`,
		"namespaces: ['shop\"}']":     "is not the name of a namespace",
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
		"{source: nowhere, query: a}":                                "metrics.queue.source: there is no source",
		"{source: prom}":                                             "metrics.queue.query: is required",
		"{source: prom, query: a, podLabel: pod}":                    "metrics.queue: is for values of pods",
		"{source: prom, query: a, podLabel: pod, containerLabel: c}": "metrics.queue: is for values of containers",
		// A misspelled variable would select nothing, or everything.
		`{source: prom, query: 'a{n="$namespace"}'}`:                        `metrics.queue.query: "$namespace" is not a variable: the variables are ${namespace}`,
		`{source: prom, query: 'a{n="${namespce}"}'}`:                       `"${namespce}" is not a variable`,
		`{source: prom, query: 'a{n="${ namespace }"}'}`:                    `"${ namespace }" is not a variable`,
		`{source: prom, query: 'a{n="$(namespace)"}'}`:                      `"$(namespace)" is not a variable`,
		`{source: prom, query: 'a{n="{{.namespace}}"}'}`:                    `"{{.namespace}}" is not a variable`,
		`{source: prom, query: 'a{n="${object}"}'}`:                         `"${object}" is not a variable`,
		`{source: prom, query: a, podLabel: '${namespace}'}`:                "metrics.queue.podLabel: \"${namespace}\" is not replaced here",
		`{source: prom, query: 'a{n=~"x.*$|(y$)"}'}`:                        "",
		`{source: prom, query: 'a{n="${namespace}",m=~"a${namespace}b$"}'}`: "",
	} {
		checkNamed(t, "namespaces: [a], "+strings.Trim(query, "{}"), want)
	}
	for metric, want := range map[string]string{
		"type: Resource, namespaces: [a], source: prom, query: a":                               "metrics.queue.type: must be External, Pods or Object",
		"type: Object, namespaces: [a], source: prom, query: a":                                 "metrics.queue.kind: is required",
		"kind: Ingress, namespaces: [a], source: prom, query: a":                                "metrics.queue.kind: is for the type Object only",
		"type: Object, kind: Ingress, namespaces: [a], source: prom, query: a, podLabel: p":     "is for values of pods, but the metric's type is Object",
		"type: Pods, namespaces: [a], source: prom, query: a":                                   "metrics.queue.podLabel: is required",
		"type: Pods, namespaces: [a, b], source: prom, query: a, podLabel: p":                   "metrics.queue: must contain ${namespace}",
		"type: Pods, namespaces: [a], source: prom, query: a, podLabel: p":                      "",
		"type: Pods, namespaces: [a], source: jobs, list: a":                                    "queries a Redis",
		`type: Object, kind: Service, namespaces: [a], source: prom, query: 'a{s="${object}"}'`: "",
	} {
		checkNamed(t, metric, want)
	}
}

// checkNamed checks a metric called queue; no text: it is valid.
func checkNamed(t *testing.T, metric, want string) {
	t.Helper()
	config, err := ParseConfig([]byte("sources: {prom: {prometheus: {url: 'http://localhost'}}, jobs: {redis: {addresses: ['localhost:1']}}}\nmetrics: {queue: {" + metric + "}}"))
	if err == nil {
		var set *Set
		if set, err = New(config, Options{}); err == nil {
			set.Close()
		}
	}
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", metric, err, want)
	}
}
