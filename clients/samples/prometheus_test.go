package samples

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestResultsOfPrometheus(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  http.HandlerFunc
		query   func(*Query)
		want    []string
		outcome Outcome
		text    string
	}{
		{name: "a vector of one", answer: vectorOf(series("12.5", "app", "web")), want: []string{"12500m"}},
		{name: "a vector of many stays many: the service sums them", answer: vectorOf(series("1", "q", "a"), series("2", "q", "b")), want: []string{"1", "2"}},
		{name: "a scalar", answer: result("scalar", `[1700000000,"3"]`), want: []string{"3"}},
		{name: "a scalar that is NaN", answer: result("scalar", `[1700000000,"NaN"]`), outcome: Invalid, text: "NaN"},
		{name: "a string", answer: result("string", `[1700000000,"3"]`), outcome: Unusable, text: "does its API begin at url, and is the result a number?"},
		{name: "an answer of another API, which has no status", answer: body(`{"data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"3"]}]}}`), outcome: Unusable, text: "does its API begin at url"},
		{name: "a range vector", answer: result("matrix", `[{"metric":{},"values":[[1700000000,"3"]]}]`), outcome: Invalid, text: "range vector"},
		{name: "nothing is a failure", answer: vectorOf(), outcome: Empty, text: "set emptyIsZero"},
		{name: "nothing is zero where the query says so", answer: vectorOf(), query: func(q *Query) { q.EmptyIsZero = true }, want: []string{"0"}},
		{name: "a failure is no zero where nothing is", answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, query: func(q *Query) { q.EmptyIsZero = true }, outcome: Refused, text: "it answered 500"},
		{name: "NaN", answer: vectorOf(series("1"), series("NaN")), outcome: Invalid, text: "0/0"},
		{name: "infinite", answer: vectorOf(series("+Inf")), outcome: Invalid, text: "infinite"},
		{name: "negative", answer: vectorOf(series("-1")), outcome: Invalid, text: "clamp_min"},
		{name: "negative where that is allowed", answer: vectorOf(series("-1")), query: func(q *Query) { q.AllowNegative = true }, want: []string{"-1"}},
		{name: "beyond the controller's arithmetic", answer: vectorOf(series("1e300")), outcome: Invalid, text: "larger unit"},
		{name: "native histograms, whose plain value would be zero", outcome: Invalid, text: "native histograms",
			answer: result("vector", `[{"metric":{},"histogram":[1700000000,{"count":"3","sum":"4","buckets":[]}]}]`)},
		{name: "warnings say that a part is missing", outcome: Invalid, text: "the source warns: store 10.0.0.1 is away",
			answer: body(`{"status":"success","warnings":["store 10.0.0.1 is away"],"data":{"resultType":"scalar","result":[1,"3"]}}`)},
		{name: "warnings where they are allowed", query: func(q *Query) { q.AllowWarnings = true }, want: []string{"3"},
			answer: body(`{"status":"success","warnings":["store 10.0.0.1 is away"],"data":{"resultType":"scalar","result":[1,"3"]}}`)},
		{name: "a part of VictoriaMetrics is away", outcome: Invalid, text: "the source warns: its result is partial",
			answer: body(`{"status":"success","isPartial":true,"data":{"resultType":"scalar","result":[1,"3"]}}`)},
		{name: "a part that may be away", query: func(q *Query) { q.AllowWarnings = true }, want: []string{"3"},
			answer: body(`{"status":"success","isPartial":true,"data":{"resultType":"scalar","result":[1,"3"]}}`)},
		{name: "a query that Prometheus gives up", outcome: Timeout, text: "it aborted the query: query timed out in expression evaluation",
			answer: status(http.StatusServiceUnavailable, "application/json", `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`)},
		{name: "hints on style are no warnings", want: []string{"3"},
			answer: body(`{"status":"success","warnings":["PromQL info: metric might not be a counter"],"infos":["x"],"data":{"resultType":"scalar","result":[1,"3"]}}`)},
		{name: "a query that does not parse", outcome: Refused, text: "it can't evaluate the query: parse error",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"status":"error","errorType":"bad_data","error":"parse error: unexpected )"}`))
			}},
		{name: "pods", query: ofPods, answer: vectorOf(series("1", "pod", "a"), series("0.5", "pod", "b")), want: []string{"a=1", "b=500m"}},
		{name: "series without the label are of no pod", query: ofPods, answer: vectorOf(series("1", "pod", "a"), series("7")), want: []string{"a=1"}},
		{name: "none with the label", query: ofPods, answer: vectorOf(series("7", "instance", "x")), outcome: Empty, text: "1 name no pod"},
		{name: "a pod with NaN has no sample", query: ofPods, answer: vectorOf(series("NaN", "pod", "a"), series("1", "pod", "b")), want: []string{"b=1"}},
		{name: "all pods with NaN", query: ofPods, answer: vectorOf(series("NaN", "pod", "a")), outcome: Empty, text: "1 are NaN"},
		{name: "a pod with an infinite value", query: ofPods, answer: vectorOf(series("+Inf", "pod", "a"), series("1", "pod", "b")), outcome: Invalid, text: "infinite"},
		{name: "two values for a pod", query: ofPods, answer: vectorOf(series("1", "pod", "a", "path", "/"), series("1", "pod", "a", "path", "/x")), outcome: Invalid, text: `several values for pod "a"`},
		{name: "a scalar for pods", query: ofPods, answer: result("scalar", `[1,"3"]`), outcome: Invalid, text: "names no pod"},
		{name: "no pods are no zero", query: ofPods, answer: vectorOf(), outcome: Empty, text: "the result is empty"},
		{name: "containers", query: func(q *Query) { q.PodLabel, q.ContainerLabel = "pod", "c" }, want: []string{"a/x=1", "a/y=2"},
			answer: vectorOf(series("1", "pod", "a", "c", "x"), series("2", "pod", "a", "c", "y"))},
		{name: "a pod is without a sample where one container's is NaN", query: func(q *Query) { q.PodLabel, q.ContainerLabel = "pod", "c" }, want: []string{"b/x=2"},
			answer: vectorOf(series("1", "pod", "a", "c", "x"), series("NaN", "pod", "a", "c", "y"), series("2", "pod", "b", "c", "x"))},
		{name: "a name that the service would refuse", query: ofPods, answer: vectorOf(series("1", "pod", strings.Repeat("a", 254))), outcome: Invalid, text: "longer than 253"},
		{name: "a time that the service would refuse", outcome: Invalid, text: "timestamp", answer: result("vector", `[{"metric":{},"value":[-62135596801,"1"]}]`)},
		{name: "more series than may be", outcome: Unusable, text: "maxSeries", answer: vectorOf(series("1"), series("2"), series("3"), series("4"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			prom := newFakeProm(t, c.answer)
			set := promSource(t, prom.URL, func(s *Source) { s.MaxSeries = 3 })
			q := promQuery("up")
			if c.query != nil {
				c.query(&q)
			}
			got, err := set.Samples(t.Context(), q)
			if c.outcome != "" {
				wantFailure(t, err, c.outcome, c.text)
				if queries, _, _ := counted(set, c.outcome); queries != 1 {
					t.Errorf("counted %v queries as %s", queries, c.outcome)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(values(got), c.want) {
				t.Fatalf("got %v and error %v, want %v", values(got), err, c.want)
			}
			if queries, _, _ := counted(set, OK); queries != 1 {
				t.Errorf("counted %v queries as ok", queries)
			}
		})
	}
}

func TestASampleHasTimestampWindowAndLabels(t *testing.T) {
	prom := newFakeProm(t, vectorOf(series("1", "__name__", "up", "app", "web")))
	set := promSource(t, prom.URL)
	got, err := set.Samples(t.Context(), promQuery(`up{app="web"}`, func(q *Query) { q.Window = Duration(90 * time.Second) }))
	fatal.If(t, err)
	want := []Sample{{
		Labels: map[string]string{"__name__": "up", "app": "web"}, Value: got[0].Value,
		Timestamp: time.UnixMilli(1700000000500), Window: 90 * time.Second,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if asked := prom.asked(); !reflect.DeepEqual(asked, []string{`up{app="web"}`}) {
		t.Errorf("asked %q", asked)
	}
}

func TestTheSourceIsAskedAsConfigured(t *testing.T) {
	var got *http.Request
	prom := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(r.Context())
		vectorOf(series("1"))(w, r)
	})
	token, key := write(t, "first\n"), write(t, "k1")
	set := promSource(t, prom.URL+"/prometheus/?partial_response=false", func(s *Source) {
		s.Prometheus.Headers = map[string]string{"x-scope-orgid": "shop"}
		s.Prometheus.HeaderFiles = map[string]string{"X-API-Key": key}
		s.Prometheus.BearerTokenFile = token
		s.Prometheus.InsecureCredentials = true
		s.Timeout = Duration(2500 * time.Millisecond)
	})
	check := func(name, wantToken, wantKey string) {
		t.Helper()
		if _, err := set.Samples(t.Context(), promQuery("up")); err != nil {
			t.Fatal(err)
		}
		h := got.Header
		if h.Get("X-Scope-OrgID") != "shop" || h.Get("Authorization") != wantToken || h.Get("X-API-Key") != wantKey {
			t.Errorf("%s: headers %v", name, h)
		}
		if got.URL.Path != "/prometheus/api/v1/query" || got.FormValue("partial_response") != "false" || got.FormValue("timeout") != "2s500ms" { // not 2.5s, which Prometheus refuses
			t.Errorf("%s: asked %s with %v", name, got.URL, got.Form)
		}
	}
	check("at first", "Bearer first", "k1")
	rewrite(t, token, "second")
	rewrite(t, key, "k2 ")
	check("after the files were replaced", "Bearer second", "k2")
	rewrite(t, token, "")
	check("while a file is being replaced", "Bearer second", "k2")
}

func TestBasicAuthentication(t *testing.T) {
	prom := newFakeProm(t, vectorOf(series("1")))
	for _, c := range []struct{ name, file, header, text string }{
		{"user and password", "alice:geheim:1\n", "Basic YWxpY2U6Z2VoZWltOjE=", ""},
		{"no user", "geheim", "", "basicAuthFile must contain user:password"},
		{"nothing", "", "", "basicAuthFile is empty"},
		{"two lines", "alice:geheim\nbob:geheim", "", "more than one line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := promSource(t, prom.URL, func(s *Source) {
				s.Prometheus.BasicAuthFile, s.Prometheus.InsecureCredentials = write(t, c.file), true
			})
			_, err := set.Samples(t.Context(), promQuery("up"))
			if c.text != "" {
				wantFailure(t, err, Unprepared, c.text)
				if strings.Contains(err.Error(), "geheim") {
					t.Errorf("the error quotes the password: %v", err)
				}
				return
			}
			if err != nil || prom.lastHeader().Get("Authorization") != c.header {
				t.Errorf("sent %q, error %v", prom.lastHeader().Get("Authorization"), err)
			}
		})
	}
}

func TestPrometheusBehindAProxyThatTakesOnlyGET(t *testing.T) {
	prom := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		if got := r.URL.Query(); got.Get("query") != "up" || got.Get("timeout") == "" || got.Get("partial_response") != "false" {
			t.Errorf("asked %s", r.URL)
		}
		vectorOf(series("1"))(w, r)
	})
	if got, err := promSource(t, prom.URL+"?partial_response=false").Samples(t.Context(), promQuery("up")); err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestEqualQueriesOfOneReconcileAreOneRequest(t *testing.T) {
	const workloads = 50
	release := make(chan struct{})
	prom := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		vectorOf(series("1", "pod", "a", "other", "b"))(w, r)
	})
	set := promSource(t, prom.URL)
	errs := make(chan error, workloads)
	for i := range workloads {
		go func() {
			// What is made of the answer may differ.
			_, err := set.Samples(t.Context(), promQuery("sum by (pod, other) (x)", func(q *Query) {
				q.PodLabel = []string{"pod", "other"}[i%2]
			}))
			errs <- err
		}()
	}
	source := set.sources["prom"]
	eventually(t, "all wait for one request", func() bool {
		kept, waiting := source.sharing.Size()
		return kept == 1 && waiting == workloads
	})
	close(release)
	for range workloads {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(prom.asked()); n != 1 {
		t.Errorf("%d requests", n)
	}
	if queries, requests, shared := counted(set, OK); queries != workloads || requests != 1 || shared != workloads-1 {
		t.Errorf("counted %v queries, %v requests, %v shared", queries, requests, shared)
	}
}

func TestQueriesWaitForTheirTurn(t *testing.T) {
	release := make(chan struct{})
	prom := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		vectorOf(series("1"))(w, r)
	})
	set := promSource(t, prom.URL, func(s *Source) { s.Concurrency = 2 })
	errs := make(chan error, 5)
	for i := range 5 {
		go func() {
			_, err := set.Samples(t.Context(), promQuery(strings.Repeat("x", i+1)))
			errs <- err
		}()
	}
	source := set.sources["prom"]
	eventually(t, "two are asked", func() bool { return len(prom.asked()) == 2 })
	eventually(t, "five are wanted", func() bool {
		kept, _ := source.sharing.Size()
		return kept == 5
	})
	if n := len(prom.asked()); n != 2 {
		t.Errorf("%d at once, the limit is 2", n)
	}
	close(release)
	for range 5 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
