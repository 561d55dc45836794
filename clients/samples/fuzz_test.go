package samples

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// FuzzPrometheus answers a query with arbitrary data: the result is either samples that a
// request can carry, or an error; never both, never neither.
func FuzzPrometheus(f *testing.F) {
	for _, seed := range []string{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1700000000,"1.5"]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"\xff"},"value":[1e300,"-Inf"]},null]}}`,
		`{"status":"success","data":{"resultType":"scalar","result":[1700000000,"NaN"]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"]]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"2","buckets":[[0,"1","2","3"]]}]}]}}`,
		`{"status":"success","warnings":["x"],"data":{"resultType":"vector","result":[]}}`,
		`{"status":"error","errorType":"bad_data","error":"parse error"}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":["1",2]}]}}`,
		`[]`, ``, `{`, "null",
	} {
		f.Add([]byte(seed))
	}
	var answer atomic.Pointer[[]byte]
	prom := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(*answer.Load())
	}))
	f.Cleanup(prom.Close)
	set := promSource(f, prom.URL)
	f.Fuzz(func(t *testing.T, data []byte) {
		answer.Store(&data)
		for _, m := range []Metric{{Spec: external("m"), Query: promQuery("up")}, {Spec: podsMetric("m"), Query: promQuery("up", ofPods)}} {
			wantRequestable(t, set.Read(t.Context(), []Metric{m}, nil))
		}
	})
}

// wantRequestable fails the test unless readings of one metric are samples or an error, and fit
// into a request.
func wantRequestable(t *testing.T, r Readings) {
	t.Helper()
	if samples := len(r.ExternalMetrics) + len(r.CustomMetrics) + len(r.PodMetrics); (samples > 0) == (len(r.MetricErrors) > 0) {
		t.Fatalf("%d samples and %d errors", samples, len(r.MetricErrors))
	}
	for _, m := range r.CustomMetrics {
		fatal.If(t, m.GetTimestamp().CheckValid())
	}
	if _, err := proto.Marshal(&setpointv1.RecommendRequest{
		ExternalMetrics: r.ExternalMetrics, CustomMetrics: r.CustomMetrics, PodMetrics: r.PodMetrics, MetricErrors: r.MetricErrors,
	}); err != nil {
		t.Fatal(err)
	}
}
