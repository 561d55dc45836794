package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// overLimit fails the test unless the problem is RESOURCE_EXHAUSTED of that limit.
func overLimit(tb testing.TB, got problem, limit, value string) {
	tb.Helper()
	wantProblem(tb, got, codes.ResourceExhausted, "LIMIT_EXCEEDED")
	if got.metadata["limit"] != limit || got.metadata["value"] != value {
		tb.Errorf("metadata are %v, want the limit %s of %s", got.metadata, limit, value)
	}
}

// blanks is JSON's white space without an end; it counts the bytes that were read.
type blanks struct{ read atomic.Int64 }

func (b *blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	b.read.Add(int64(len(p)))
	return len(p), nil
}

func TestBodiesOverTheLimitAreCutOffOverREST(t *testing.T) {
	// Not parallel: it measures memory.
	s := start(t, func(su *setup) { su.options.MaxRequestBytes = 1 << 20 })
	const size = 100 << 20
	for _, known := range []bool{true, false} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body := &blanks{}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+recommendPath(web), io.LimitReader(body, size))
		if err != nil {
			t.Fatal(err)
		}
		if known {
			req.ContentLength = size
		}
		a, err := s.send(req)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		a.expect(t, http.StatusRequestEntityTooLarge)
		overLimit(t, a.problem(t), "maxRequestBytes", "1048576")
		if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
			t.Errorf("length known %t: %d MiB were allocated for a body with a limit of 1 MiB", known, used>>20)
		}
	}
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
}

func TestBodiesUpToTheLimitAreTaken(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxRequestBytes = 1 << 16 })
	pad := func(size int) string { return webBody + strings.Repeat(" ", size-len(webBody)) }
	s.ask(t, http.MethodPost, recommendPath(web), pad(1<<16)).expect(t, http.StatusOK)
	s.ask(t, http.MethodPost, recommendPath(web), pad(1<<16+1)).expect(t, http.StatusRequestEntityTooLarge)
}

// The name of the target comes from the path, so that a message may be longer than its body.
func TestAMessageThatIsLongerThanItsBodyIsRefusedAsOverGRPC(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxRequestBytes = 1 << 16 })
	const before, after = `{"requestId":"`, `"}`
	a := s.ask(t, http.MethodPost, recommendPath(web), before+strings.Repeat("r", 1<<16-len(before)-len(after))+after)
	a.expect(t, http.StatusRequestEntityTooLarge)
	overLimit(t, a.problem(t), "maxRequestBytes", "65536")
}

func TestABodyThatBreaksOffIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.httpAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", recommendPath(web), len(webBody), webBody[:len(webBody)/2]); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(raw); !strings.HasPrefix(text, "HTTP/1.1 400 ") || !strings.Contains(text, `"code":3`) {
		t.Errorf("got %s, want 400 with INVALID_ARGUMENT", text)
	}
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
}

func TestMessagesOverTheLimitAreRefusedOverGRPC(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxRequestBytes = 1 << 20 })
	_, err := s.callRaw(t, "/setpoint.v1.RecommendationService/Recommend", make([]byte, 100<<20))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want RESOURCE_EXHAUSTED", err)
	}
	// The connection goes on.
	s.recommend(t, webRequest(t))
}

func TestPodsOverTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxPods = 2 })
	_, err := s.recommendations.Recommend(t.Context(), webRequest(t))
	overLimit(t, rpcProblem(err), "maxPods", "2")
	a := s.ask(t, http.MethodPost, recommendPath(web), webBody)
	a.expect(t, http.StatusTooManyRequests)
	overLimit(t, a.problem(t), "maxPods", "2")
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
	s.recommend(t, webRequest(t, func(r *setpointv1.RecommendRequest) { r.Pods = r.GetPods()[:2] }))
}

func TestSpecsWithTooManyMetricsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxMetrics = 1 })
	two := func(r *setpointv1.RecommendRequest) { r.Spec.Metrics = append(r.Spec.Metrics, r.Spec.Metrics[0]) }
	_, err := s.recommendations.Recommend(t.Context(), webRequest(t, two))
	overLimit(t, rpcProblem(err), "maxMetrics", "1")
	_, err = s.recommendations.Recommend(t.Context(), webRequest(t, two, func(r *setpointv1.RecommendRequest) { r.Explain = true }))
	overLimit(t, rpcProblem(err), "maxMetrics", "1")
	s.recommend(t, webRequest(t))
}

func TestBatchesOverTheLimitAreRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxBatch = 2 })
	batch := &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{webRequest(t), webRequest(t), webRequest(t)}}
	_, err := s.recommendations.BatchRecommend(t.Context(), batch)
	overLimit(t, rpcProblem(err), "maxBatch", "2")
	a := s.ask(t, http.MethodPost, "/v1/targets:batchRecommend", batch)
	a.expect(t, http.StatusTooManyRequests)
	overLimit(t, a.problem(t), "maxBatch", "2")
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
	batch.Requests = batch.GetRequests()[:2]
	if _, err := s.recommendations.BatchRecommend(t.Context(), batch); err != nil {
		t.Error(err)
	}
}

// The cost of a request is proportional to its size, whatever it contains.
func TestRequestsCostNoMoreThanTheirSize(t *testing.T) {
	// Not parallel: it measures memory.
	s := start(t)
	req := queue(web, 3, 30)
	for i := range 999 {
		metric := proto.CloneOf(req.GetSpec().GetMetrics()[0])
		metric.External.Metric.Name = fmt.Sprintf("metric-%d", i)
		req.Spec.Metrics = append(req.Spec.Metrics, metric)
	}
	for _, tt := range []struct {
		name   string
		change func(*setpointv1.RecommendRequest)
	}{
		{"errors that name no metric", func(r *setpointv1.RecommendRequest) {
			for range 20_000 {
				r.MetricErrors = append(r.MetricErrors, &setpointv1.MetricError{Metric: "none", Message: "m"})
			}
		}},
		{"errors that name a metric", func(r *setpointv1.RecommendRequest) {
			for range 20_000 {
				r.MetricErrors = append(r.MetricErrors, &setpointv1.MetricError{Metric: "metric-7", Message: "m"})
			}
		}},
		{"series of no metric", func(r *setpointv1.RecommendRequest) {
			for range 20_000 {
				r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "none"}, Value: "1"})
			}
		}},
	} {
		req := with(req, tt.change)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.recommendations.Recommend(t.Context(), req)
		runtime.ReadMemStats(&after)
		if code := status.Code(err); code == codes.Internal || code == codes.DeadlineExceeded {
			t.Errorf("%s: %v", tt.name, err)
		}
		if size, used := proto.Size(req), after.TotalAlloc-before.TotalAlloc; used > 100<<20 {
			t.Errorf("%s: %d MiB were allocated for a request of %d KiB", tt.name, used>>20, size>>10)
		}
	}
}

// smallTrailers is the maximum size of a status and its details that clients accept by
// default: those of Java and C do.
const smallTrailers = 8 << 10

// Much that is wrong, or something wrong that is large, must not make an answer
// that no client takes.
func TestAnswersToBadRequestsReachEveryClient(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxMetrics = 1000 })
	client := setpointv1.NewRecommendationServiceClient(s.dial(t, grpc.WithMaxHeaderListSize(smallTrailers)))
	metric := func(i int) *setpointv1.MetricSpec {
		return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprintf("metric-%d", i)}, Target: &setpointv1.MetricTarget{Type: "Value", Value: new("1")},
		}}
	}
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name   string
		change func(*setpointv1.RecommendRequest)
	}{
		{"a quantity of a megabyte", func(r *setpointv1.RecommendRequest) { r.GetPods()[0].Containers[0].Requests["cpu"] = long }},
		{"a target of a megabyte", withTarget(long)},
		{"a pod's name of a megabyte", func(r *setpointv1.RecommendRequest) { r.GetPods()[0].Name = long }},
		{"a resource's name of a megabyte", func(r *setpointv1.RecommendRequest) {
			r.GetPods()[0].Containers[0].Requests = map[string]string{long: "?"}
		}},
		{"a profile of a megabyte", func(r *setpointv1.RecommendRequest) { options(r).Profile = long }},
		{"a kind of a megabyte", func(r *setpointv1.RecommendRequest) { r.Spec.Metrics[0].Type = long }},
		{"ten long words", func(r *setpointv1.RecommendRequest) {
			r.Spec.Metrics = nil
			for range 10 {
				r.Spec.Metrics = append(r.Spec.Metrics, &setpointv1.MetricSpec{Type: long[:1<<16]})
			}
		}},
		// What is not ASCII takes three bytes for each of its own in a message.
		{"many long words of another script", func(r *setpointv1.RecommendRequest) {
			r.Spec.Metrics = nil
			for range 100 {
				r.Spec.Metrics = append(r.Spec.Metrics, &setpointv1.MetricSpec{Type: strings.Repeat("ω", 1000)})
			}
		}},
		{"a long name of another script", func(r *setpointv1.RecommendRequest) {
			r.GetPods()[0].Containers[0].Requests = map[string]string{strings.Repeat("ω", 1000): strings.Repeat("ω", 1000)}
		}},
		{"a thousand pods with bad quantities", func(r *setpointv1.RecommendRequest) {
			r.Pods = nil
			for i := range 1000 {
				r.Pods = append(r.Pods, &setpointv1.Pod{Name: fmt.Sprintf("pod-%d", i), Containers: []*setpointv1.Container{{Requests: map[string]string{"cpu": "?"}}}})
			}
		}},
		{"errors that name none of many metrics", func(r *setpointv1.RecommendRequest) {
			r.Spec.Metrics = nil
			for i := range 300 {
				r.Spec.Metrics = append(r.Spec.Metrics, metric(i))
				r.MetricErrors = append(r.MetricErrors, &setpointv1.MetricError{Metric: "none", Message: "m"})
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := webRequest(t, tt.change)
			_, err := client.Recommend(t.Context(), req)
			wantProblem(t, rpcProblem(err), codes.InvalidArgument, "INVALID_REQUEST")
			if len(req.GetTarget()) < 1000 {
				a := s.ask(t, http.MethodPost, recommendPath(web), req)
				a.expect(t, http.StatusBadRequest)
				if len(a.raw) > 256<<10 {
					t.Errorf("REST: the answer takes %d KiB", len(a.raw)>>10)
				}
			}
		})
	}
}

func TestClientsThatHangUpWhileSendingHarmNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.httpAddress)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", recommendPath(web), len(webBody), webBody[:100]); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
}
