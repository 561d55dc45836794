package admission_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// overLimit fails the test unless the problem is RESOURCE_EXHAUSTED of that limit.
func overLimit(tb testing.TB, got servertest.Problem, limit, value string) {
	tb.Helper()
	servertest.WantProblem(tb, got, codes.ResourceExhausted, "LIMIT_EXCEEDED")
	if got.Metadata["limit"] != limit || got.Metadata["value"] != value {
		tb.Errorf("metadata are %v, want the limit %s of %s", got.Metadata, limit, value)
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
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxRequestBytes = 1 << 20 })
	const size = 100 << 20
	for _, known := range []bool{true, false} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body := &blanks{}
		req := s.Request(t, http.MethodPost, servertest.RecommendPath(servertest.Web), io.LimitReader(body, size))
		if known {
			req.ContentLength = size
		}
		a := s.MustSend(t, req)
		runtime.ReadMemStats(&after)
		a.Expect(t, http.StatusRequestEntityTooLarge)
		overLimit(t, a.Problem(t), "maxRequestBytes", "1048576")
		if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
			t.Errorf("length known %t: %d MiB were allocated for a body with a limit of 1 MiB", known, used>>20)
		}
	}
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
}

func TestBodiesUpToTheLimitAreTaken(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxRequestBytes = 1 << 16 })
	pad := func(size int) string { return servertest.WebBody + strings.Repeat(" ", size-len(servertest.WebBody)) }
	s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), pad(1<<16)).Expect(t, http.StatusOK)
	s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), pad(1<<16+1)).Expect(t, http.StatusRequestEntityTooLarge)
}

// The name of the target comes from the path, so that a message may be longer than its body.
func TestAMessageThatIsLongerThanItsBodyIsRefusedAsOverGRPC(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxRequestBytes = 1 << 16 })
	const before, after = `{"requestId":"`, `"}`
	a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), before+strings.Repeat("r", 1<<16-len(before)-len(after))+after)
	a.Expect(t, http.StatusRequestEntityTooLarge)
	overLimit(t, a.Problem(t), "maxRequestBytes", "65536")
}

func TestABodyThatBreaksOffIsRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.HTTPAddress)
	fatal.If(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", servertest.RecommendPath(servertest.Web), len(servertest.WebBody), servertest.WebBody[:len(servertest.WebBody)/2]); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	raw, err := io.ReadAll(conn)
	fatal.If(t, err)
	if text := string(raw); !strings.HasPrefix(text, "HTTP/1.1 400 ") || !strings.Contains(text, `"code":3`) {
		t.Errorf("got %s, want 400 with INVALID_ARGUMENT", text)
	}
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
}

// A caller that ends its connection with the call, as proxies do, reads the whole answer although its body was not read.
func TestAnswersToUnreadBodiesArrive(t *testing.T) {
	t.Parallel()
	s := servertest.NewTenancy(t, map[string]string{servertest.AdminToken: "admin"}, servertest.TestPolicy, func(su *servertest.Setup) { su.Options.MaxRequestBytes = 1 << 15 }).Service
	const bearer = "Authorization: Bearer " + servertest.AdminToken + "\r\n"
	path := servertest.RecommendPath(servertest.Web)
	for want, head := range map[int]string{
		http.StatusRequestEntityTooLarge: "POST " + path + " HTTP/1.1\r\nConnection: close\r\n" + bearer,
		http.StatusUnauthorized:          "POST " + path + " HTTP/1.0\r\n",
		http.StatusMethodNotAllowed:      "PUT " + path + " HTTP/1.0\r\n" + bearer,
		http.StatusNotFound:              "POST /v1/x HTTP/1.0\r\n" + bearer,
	} {
		t.Run(http.StatusText(want), func(t *testing.T) {
			t.Parallel()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.HTTPAddress)
			fatal.If(t, err)
			defer func() { _ = conn.Close() }()
			if _, err := fmt.Fprintf(conn, "%sHost: x\r\nContent-Length: %d\r\n\r\n%s", head, 1<<16, strings.Repeat(" ", 1<<16)); err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(conn)
			if err != nil || len(text) < 12 || string(text[9:12]) != strconv.Itoa(want) {
				t.Errorf("%.100q, %v; want %d", text, err, want)
			}
		})
	}
}

func TestPodsOverTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxPods = 2 })
	_, err := s.Recommendations.Recommend(t.Context(), servertest.WebRequest(t))
	overLimit(t, servertest.RPCProblem(err), "maxPods", "2")
	a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebBody)
	a.Expect(t, http.StatusTooManyRequests)
	overLimit(t, a.Problem(t), "maxPods", "2")
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
	s.Recommend(t, servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) { r.Pods = r.GetPods()[:2] }))
}

func TestSpecsWithTooManyMetricsAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxMetrics = 1 })
	two := func(r *setpointv1.RecommendRequest) { r.Spec.Metrics = append(r.Spec.Metrics, r.Spec.Metrics[0]) }
	_, err := s.Recommendations.Recommend(t.Context(), servertest.WebRequest(t, two))
	overLimit(t, servertest.RPCProblem(err), "maxMetrics", "1")
	_, err = s.Recommendations.Recommend(t.Context(), servertest.WebRequest(t, two, func(r *setpointv1.RecommendRequest) { r.Explain = true }))
	overLimit(t, servertest.RPCProblem(err), "maxMetrics", "1")
	s.Recommend(t, servertest.WebRequest(t))
}

func TestBatchesOverTheLimitAreRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxBatch = 2 })
	batch := &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{servertest.WebRequest(t), servertest.WebRequest(t), servertest.WebRequest(t)}}
	_, err := s.Recommendations.BatchRecommend(t.Context(), batch)
	overLimit(t, servertest.RPCProblem(err), "maxBatch", "2")
	a := s.Ask(t, http.MethodPost, "/v1/targets:batchRecommend", batch)
	a.Expect(t, http.StatusTooManyRequests)
	overLimit(t, a.Problem(t), "maxBatch", "2")
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
	batch.Requests = batch.GetRequests()[:2]
	if _, err := s.Recommendations.BatchRecommend(t.Context(), batch); err != nil {
		t.Error(err)
	}
}

// smallTrailers is the maximum size of a status and its details that clients accept by
// default: those of Java and C do.
const smallTrailers = 8 << 10

// Much that is wrong, or something wrong that is large, must not make an answer
// that no client takes.
func TestAnswersToBadRequestsReachEveryClient(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxMetrics = 1000 })
	client := setpointv1.NewRecommendationServiceClient(s.Dial(t, grpc.WithMaxHeaderListSize(smallTrailers)))
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
		{"a target of a megabyte", servertest.WithTarget(long)},
		{"a pod's name of a megabyte", func(r *setpointv1.RecommendRequest) { r.GetPods()[0].Name = long }},
		{"a resource's name of a megabyte", func(r *setpointv1.RecommendRequest) {
			r.GetPods()[0].Containers[0].Requests = map[string]string{long: "?"}
		}},
		{"a profile of a megabyte", func(r *setpointv1.RecommendRequest) { r.GetOptions().Profile = long }},
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
			req := servertest.WebRequest(t, tt.change)
			_, err := client.Recommend(t.Context(), req)
			servertest.WantProblem(t, servertest.RPCProblem(err), codes.InvalidArgument, "INVALID_REQUEST")
			if len(req.GetTarget()) < 1000 {
				a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), req)
				a.Expect(t, http.StatusBadRequest)
				if len(a.Raw) > 256<<10 {
					t.Errorf("REST: the answer takes %d KiB", len(a.Raw)>>10)
				}
			}
		})
	}
}

func TestClientsThatHangUpWhileSendingHarmNothing(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.HTTPAddress)
	fatal.If(t, err)
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", servertest.RecommendPath(servertest.Web), len(servertest.WebBody), servertest.WebBody[:100]); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, conn.Close())
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
}

// A caller's limits hold for what it may not call, too.
func TestCallsThatArePermittedNowhereAreCharged(t *testing.T) {
	t.Parallel()
	s := servertest.NewTenancy(t, map[string]string{servertest.ReaderToken: "reader", servertest.ScalerToken: "scaler"},
		servertest.TestPolicy+"limits: [{requestsPerSecond: 0.001, burst: 2}]\n").Service
	for what, call := range map[string]func() error{
		"a call": func() error {
			_, err := s.Recommendations.Recommend(servertest.As(t.Context(), servertest.ReaderToken), servertest.Queue(servertest.Web, 3, 50))
			return err
		},
		"a stream": func() error {
			stream, err := s.Targets.WatchDecisions(servertest.As(t.Context(), servertest.ScalerToken), &setpointv1.WatchDecisionsRequest{Parent: servertest.Web})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	} {
		for i, want := range []codes.Code{codes.PermissionDenied, codes.PermissionDenied, codes.ResourceExhausted} {
			if err := call(); status.Code(err) != want {
				t.Errorf("%s, time %d: %v, want %s", what, i+1, err, want)
			}
		}
	}
}
