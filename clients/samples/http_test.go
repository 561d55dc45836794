package samples

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// httpSource is a set with the source api.
func httpSource(t testing.TB, url string, change ...func(*Source)) *Set {
	t.Helper()
	s := Source{HTTP: &HTTP{URL: url}, Timeout: Duration(maxTimeout), Reuse: new(Duration)}
	for _, f := range change {
		f(&s)
	}
	return newSet(t, Config{Sources: map[string]Source{"api": s}})
}

// at is a query for the value at a path.
func at(path string, change ...func(*Query)) Query {
	q := Query{Source: "api", ValuePath: path}
	for _, f := range change {
		f(&q)
	}
	return q
}

func items(q *Query) { q.ItemsPath, q.PodPath = "{.pods[*]}", "{.name}" }

func TestValuesOfDocuments(t *testing.T) {
	negative := func(q *Query) { q.AllowNegative = true }
	zero := func(q *Query) { q.EmptyIsZero = true }
	for _, c := range []struct {
		name, document string
		query          Query
		want           []string
		outcome        Outcome
		text           string
	}{
		{name: "a number", document: `{"queue": {"length": 42}}`, query: at("{.queue.length}"), want: []string{"42"}},
		{name: "without braces", document: `{"queue": {"length": 42}}`, query: at(".queue.length"), want: []string{"42"}},
		{name: "from the root", document: `{"queue": {"length": 42}}`, query: at("$.queue.length"), want: []string{"42"}},
		{name: "an element", document: `[1, 2, 3]`, query: at("[1]"), want: []string{"2"}},
		{name: "the last element", document: `{"a": [1, 2, 3]}`, query: at("{.a[-1:]}"), want: []string{"3"}},
		{name: "by a name", document: `{"queues": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}`, query: at(`{.queues[?(@.name=="b")].n}`), want: []string{"2"}},
		{name: "digits that a float does not have", document: `{"n": 9007199254740993}`, query: at(".n"), want: []string{"9007199254740993"}},
		{name: "a fraction, exactly", document: `{"n": 1.005}`, query: at(".n"), want: []string{"1.005"}},
		{name: "a quantity", document: `{"n": "1500m"}`, query: at(".n"), want: []string{"1500m"}},
		{name: "several values are summed by the service", document: `{"q": [{"n": 1}, {"n": 2}]}`, query: at("{.q[*].n}"), want: []string{"1", "2"}},
		{name: "nothing there", document: `{"q": 1}`, query: at(".n"), outcome: Empty, text: "the result is empty"},
		{name: "null is nothing", document: `{"n": null}`, query: at(".n"), outcome: Empty, text: "the result is empty"},
		{name: "nothing that means zero", document: `{"q": []}`, query: at("{.q[*].n}", zero), want: []string{"0"}},
		{name: "zero", document: `{"n": 0}`, query: at(".n"), want: []string{"0"}},
		{name: "a word", document: `{"n": "s3cret"}`, query: at(".n"), outcome: Invalid, text: "neither a number nor a quantity"},
		{name: "true", document: `{"n": true}`, query: at(".n"), outcome: Invalid, text: "neither a number"},
		{name: "keys", document: `{"n": {"s3cret": 1}}`, query: at(".n"), outcome: Invalid, text: "neither a number"},
		{name: "a text taken apart", document: `{"n": "123"}`, query: at("{.n[*]}"), outcome: Unusable, text: "does not fit"},
		{name: "negative", document: `{"n": -1}`, query: at(".n"), outcome: Invalid, text: "negative"},
		{name: "negative where that is allowed", document: `{"n": -1.5}`, query: at(".n", negative), want: []string{"-1500m"}},
		{name: "beyond the controller's arithmetic", document: `{"n": 1e30}`, query: at(".n"), outcome: Invalid, text: "larger unit"},
		{name: "an exponent that would take for ever", document: `{"n": 1e999999999}`, query: at(".n"), outcome: Invalid, text: "larger unit"},
		{name: "an index where keys are", document: `{"s3cret": 1}`, query: at("[0]"), outcome: Unusable, text: "valuePath [0] does not fit the answer"},
		{name: "a filter where no list is", document: `{"q": "s3cret"}`, query: at(`{.q[?(@.a=="b")]}`), outcome: Unusable, text: "does not fit"},
		{name: "an index out of range", document: `{"q": []}`, query: at("{.q[0]}"), outcome: Unusable, text: "does not fit"},
		{name: "no JSON", document: `s3cret`, query: at(".n"), outcome: Unusable, text: "not one JSON document"},
		{name: "half a document", document: `{"n": 1`, query: at(".n"), outcome: Unusable, text: "not one JSON document"},
		{name: "two documents", document: `{"n": 1} {"n": 2}`, query: at(".n"), outcome: Unusable, text: "not one JSON document"},
		{name: "nothing", document: ``, query: at(".n"), outcome: Unusable, text: "not one JSON document"},
		{name: "too deep", document: strings.Repeat("[", 20000), query: at("[0]"), outcome: Unusable, text: "not one JSON document"},
		{name: "more values than may be", document: `[1,2,3,4]`, query: at("[*]"), outcome: Unusable, text: "maxSeries"},

		{name: "pods", document: `{"pods": [{"name": "a", "load": 1}, {"name": "b", "load": "250m"}]}`, query: at(".load", items), want: []string{"a=1", "b=250m"}},
		{name: "a pod without a value has no sample", document: `{"pods": [{"name": "a"}, {"name": "b", "load": 2}, {"name": "c", "load": null}]}`, query: at(".load", items), want: []string{"b=2"}},
		{name: "items without a pod", document: `{"pods": [{"load": 1}]}`, query: at(".load", items), outcome: Empty, text: "1 name no pod"},
		{name: "a pod whose name is no text", document: `{"pods": [{"name": 5, "load": 1}]}`, query: at(".load", items), outcome: Invalid, text: "podPath does not lead to a text"},
		{name: "two values of one item", document: `{"pods": [{"name": "a", "load": [1, 2]}]}`, query: at("{.load[*]}", items), outcome: Invalid, text: "valuePath leads to 2 values"},
		{name: "two items of a pod", document: `{"pods": [{"name": "a", "load": 1}, {"name": "a", "load": 1}]}`, query: at(".load", items), outcome: Invalid, text: "several values"},
		{name: "a pod whose value is a word", document: `{"pods": [{"name": "a", "load": "high"}]}`, query: at(".load", items), outcome: Invalid, text: "neither a number"},
		{name: "more items than may be", document: `{"pods": [1, 2, 3, 4]}`, query: at(".load", items), outcome: Unusable, text: "4 items, more than maxSeries"},
		{name: "containers", document: `{"pods": [{"name": "a", "c": "x", "load": 1}, {"name": "a", "c": "y", "load": 2}]}`,
			query: at(".load", items, func(q *Query) { q.ContainerPath = ".c" }), want: []string{"a/x=1", "a/y=2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := newFakeProm(t, body(c.document))
			set := httpSource(t, api.URL, func(s *Source) { s.MaxSeries = 3 })
			got, err := set.Samples(t.Context(), c.query)
			if c.outcome != "" {
				wantFailure(t, err, c.outcome, c.text)
				if strings.Contains(err.Error(), "s3cret") {
					t.Errorf("the error quotes the answer: %v", err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(values(got), c.want) {
				t.Fatalf("got %v and error %v, want %v", values(got), err, c.want)
			}
		})
	}
}

func TestWhenAValueWasTrue(t *testing.T) {
	now := time.Now()
	stamp := func(age time.Duration) string { return now.Add(-age).UTC().Format(time.RFC3339Nano) }
	timed := func(q *Query) { q.TimestampPath = ".at" }
	young := func(q *Query) { q.TimestampPath, q.MaxAge = ".at", Duration(time.Hour) }
	for _, c := range []struct {
		name, document string
		query          Query
		want           time.Time // of the first sample
		text           string
	}{
		{"RFC 3339", `{"n": 1, "at": "2026-01-31T12:00:00.5+01:00"}`, at(".n", timed), time.Date(2026, 1, 31, 11, 0, 0, 5e8, time.UTC), ""},
		{"seconds since 1970", `{"n": 1, "at": 1700000000.5}`, at(".n", timed), time.Unix(1700000000, 5e8), ""},
		{"milliseconds are no seconds", `{"n": 1, "at": 1700000000000}`, at(".n", timed), time.Time{}, "neither to a time"},
		{"a word", `{"n": 1, "at": "now"}`, at(".n", timed), time.Time{}, "neither to a time"},
		{"a list", `{"n": 1, "at": []}`, at(".n", timed), time.Time{}, "neither to a time"},
		{"before 1970", `{"n": 1, "at": "1969-12-31T00:00:00Z"}`, at(".n", timed), time.Time{}, "between the years"},
		{"none", `{"n": 1}`, at(".n", timed), time.Time{}, "leads to 0 values"},
		{"young enough", fmt.Sprintf(`{"n": 1, "at": %q}`, stamp(time.Minute)), at(".n", young), now.Add(-time.Minute), ""},
		{"too old", fmt.Sprintf(`{"n": 1, "at": %q}`, stamp(2*time.Hour)), at(".n", young), time.Time{}, "older than maxAge"},
		{"ahead by less than the clocks differ", fmt.Sprintf(`{"n": 1, "at": %q}`, stamp(-30*time.Second)), at(".n", young), now.Add(30 * time.Second), ""},
		{"never too old", fmt.Sprintf(`{"n": 1, "at": %q}`, stamp(-365*24*time.Hour)), at(".n", young), time.Time{}, "ahead of the clock"},
		{"each pod its own; one whose value is old has none", fmt.Sprintf(`{"pods": [{"name": "a", "n": 1, "at": %q}, {"name": "b", "n": 1, "at": %q}]}`, stamp(2*time.Hour), stamp(time.Minute)),
			at(".n", items, young), now.Add(-time.Minute), ""},
		{"all pods old", fmt.Sprintf(`{"pods": [{"name": "a", "n": 1, "at": %q}]}`, stamp(2*time.Hour)), at(".n", items, young), time.Time{}, "1 are NaN, old or missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := newFakeProm(t, body(c.document))
			got, err := httpSource(t, api.URL).Samples(t.Context(), c.query)
			if c.text != "" {
				if err == nil || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("got %v, want %q", err, c.text)
				}
				return
			}
			if err != nil || len(got) != 1 || !got[0].Timestamp.Equal(c.want) {
				t.Fatalf("got %v, %v; want %s", got, err, c.want)
			}
		})
	}
	before := time.Now()
	got, err := httpSource(t, newFakeProm(t, body(`{"n": 1}`)).URL).Samples(t.Context(), at(".n"))
	if err != nil || got[0].Timestamp.Before(before) || got[0].Timestamp.After(time.Now()) {
		t.Errorf("without a timestamp: %v, %v", got, err)
	}
}

func TestPathsStayBelowTheSource(t *testing.T) {
	var asked string
	api := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		body(`{"n": 1}`)(w, r)
	})
	set := httpSource(t, api.URL+"/v1/?tenant=shop")
	for _, c := range []struct{ name, path, want, text string }{
		{"nothing", "", "/v1/?tenant=shop", ""},
		{"a path", "/queues/main", "/v1/queues/main?tenant=shop", ""},
		{"a path with parameters", "/queues?state=open&x=%26", "/v1/queues?tenant=shop&state=open&x=%26", ""},
		{"parameters", "?state=open", "/v1/?tenant=shop&state=open", ""},
		{"an escaped name", "/queues/a%2Fb", "/v1/queues/a%2Fb?tenant=shop", ""},
		{"another host", "//127.0.0.2/x", "", "without a host"},
		{"another URL", "https://elsewhere/x", "", "without a host"},
		{"a user", "//u:geheim@h/", "", "without a host"},
		{"up", "/../admin", "", "must not contain .."},
		{"up with a parameter", "/..;/admin", "", "must not contain .."},
		{"a parameter that others read otherwise", "/x?a;tenant=other", "", "has a query that is not of the form"},
		{"a parameter badly escaped", "/x?tenant=other%zz", "", "has a query that is not of the form"},
		{"up in disguise", "/%2e%2e/admin", "", "must not contain .."},
		{"up with a disguised slash", "/a%2f..%2f..%2fadmin", "", "must not contain .."},
		{"up as elsewhere", "/..%5cadmin", "", "must not contain .."},
		{"no slash", "queues", "", "must begin with /"},
		{"a fragment", "/x#y", "", "without a host"},
		{"a parameter of the source", "/x?tenant=other", "", "must not set a parameter"},
		{"a parameter of the source, which some servers read as that", "/x?Tenant=other", "", "must not set a parameter"},
		{"no path", "/%zz", "", "must be a path"},
		{"a line", "/x\ny", "", "must be a path"},
		{"long", "/" + strings.Repeat("x", 5000), "", "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := set.Samples(t.Context(), at(".n", func(q *Query) { q.Path = c.path }))
			if c.text != "" {
				if err == nil || !strings.Contains(err.Error(), "path: ") || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "geheim") {
					t.Fatalf("got %v, want %q", err, c.text)
				}
				return
			}
			if err != nil || asked != c.want {
				t.Fatalf("asked %s and got %v, want %s", asked, err, c.want)
			}
		})
	}
}

func TestPathsOfDocumentsThatCanNotBe(t *testing.T) {
	set := httpSource(t, "https://localhost")
	for _, c := range []struct {
		name  string
		query Query
		want  string
	}{
		{"none", at(""), "valuePath: is required"},
		{"a search", at("{..n}"), "valuePath: must not contain .."},
		{"a union, which could double without end", at("['a','a']['a','a']"), "valuePath: must not contain a comma"},
		{"a loop", at("{range .items[*]}{.n}{end}"), "valuePath: must be a JSONPath"},
		{"two paths", at("{.a}{.b}"), "valuePath: must be a JSONPath"},
		{"a constant", at("5"), "valuePath: must be a JSONPath"},
		{"a constant in braces", at("{5}"), "valuePath: must be a JSONPath"},
		{"unfinished", at("{.a[}"), "valuePath: must be a JSONPath"},
		{"long", at("." + strings.Repeat("a", 300)), "valuePath: is longer than"},
		{"items without pods", at(".n", func(q *Query) { q.ItemsPath = ".x" }), "itemsPath: and podPath belong together"},
		{"pods without items", at(".n", func(q *Query) { q.PodPath = ".x" }), "itemsPath: and podPath belong together"},
		{"containers without pods", at(".n", func(q *Query) { q.ContainerPath = ".x" }), "podPath: is required with containerPath"},
		{"an age without a time", at(".n", func(q *Query) { q.MaxAge = 1 }), "timestampPath: is required with maxAge"},
		{"a negative age", at(".n", func(q *Query) { q.MaxAge = -1 }), "maxAge: must be between"},
		{"a field of Prometheus", at(".n", func(q *Query) { q.Query, q.AllowWarnings = "up", true }),
			"query: is for a source of prometheus, and api is one of http; allowWarnings: is for a source of prometheus"},
		{"zero for pods", at(".n", items, func(q *Query) { q.EmptyIsZero = true }), "emptyIsZero: does not apply"},
	} {
		if err := set.CheckQuery(c.query); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	for _, m := range []struct {
		metric Metric
		want   string
	}{
		{Metric{Spec: podsMetric("m"), Query: at(".n")}, "Pods:m.podPath: is required"},
		{Metric{Spec: containerUsage("cpu", "app"), Query: at(".n", items)}, "ContainerResource:cpu:app.containerPath: is required"},
	} {
		if err := set.Check([]Metric{m.metric}); err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("got %v, want %q", err, m.want)
		}
	}
}

func TestDocumentsAreFetchedAsOtherSourcesAre(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  http.HandlerFunc
		outcome Outcome
		text    string
	}{
		{"404", status(404, "application/json", `{"n": 1}`), Refused, "404 Not Found: check url and path"},
		{"204", status(204, "application/json", ""), Refused, "it answered 204"},
		{"429", status(429, "text/html", ""), Refused, "rate limit is exceeded"},
		{"a page", status(200, "text/html", "<html>"), Unusable, "text/html"},
		{"another host", redirect("http://127.0.0.2:1/"), Refused, "not followed"},
		{"without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat(" ", 4096))); err != nil {
					return
				}
			}
		}, Unusable, "larger than maxBytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := httpSource(t, newFakeProm(t, c.answer).URL)
			_, err := set.Samples(t.Context(), at(".n"))
			wantFailure(t, err, c.outcome, c.text)
		})
	}
	t.Run("one document serves several paths", func(t *testing.T) {
		api := newFakeProm(t, body(`{"a": 1, "b": 2}`))
		reuse := Duration(maxReuse)
		set := httpSource(t, api.URL, func(s *Source) { s.Reuse = &reuse })
		for _, path := range []string{".a", ".b"} {
			if _, err := set.Samples(t.Context(), at(path)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(api.asked()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}
