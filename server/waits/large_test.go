package waits_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// large is a request that takes much to explain: of 2,000 pods by ten metrics.
func large(tb testing.TB, target string) *setpointv1.RecommendRequest {
	tb.Helper()
	req := servertest.WebRequest(tb, servertest.WithTarget(target), servertest.Explained)
	metric := req.GetSpec().GetMetrics()[0]
	for len(req.GetSpec().GetMetrics()) < 10 {
		req.Spec.Metrics = append(req.Spec.Metrics, metric)
	}
	pod := req.GetPods()[0]
	req.Pods = nil
	for i := range 2000 {
		p := &setpointv1.Pod{Name: "p" + strconv.Itoa(i), Phase: pod.GetPhase()}
		req.Pods = append(req.Pods, p)
	}
	return req
}

// Large requests wait for one another, small ones and those of others pass, and nothing is
// held in the end, whatever way they came.
func TestLargeRequestsWaitForRoom(t *testing.T) {
	t.Parallel()
	const slow = "clusters/c/namespaces/slow/targets/t"
	release := make(chan struct{})
	metrics := prometheus.NewRegistry()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Registerer = metrics
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
			if key.Namespace == "slow" {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return load(ctx, key)
		}
	})
	fills := 16 * runtime.GOMAXPROCS(0) // more than fits
	var callers sync.WaitGroup
	for range fills {
		callers.Go(func() {
			resp, err := s.Recommendations.Recommend(t.Context(), large(t, slow))
			if err != nil {
				t.Errorf("who waited is answered: %v", err)
			} else if resp.GetExplanation() == nil {
				t.Error("not explained")
			}
		})
	}
	most := float64(64 << 20 * runtime.GOMAXPROCS(0))
	for began := time.Now(); servertest.Read(t, metrics)["large_requests_bytes"] < 16<<20 && time.Since(began) < 2*time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if got := servertest.Read(t, metrics)["large_requests_bytes"]; got < 16<<20 || got > most {
		t.Errorf("%.0f bytes are held, want much, and at most %.0f", got, most)
	}
	// While the memory is in use, a large one waits until its deadline. Those that use it
	// are still arriving, so that one may be admitted before.
	waits := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := s.Recommendations.Recommend(ctx, large(t, servertest.Web))
		if err != nil && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a large one while there is no room: %v", err)
		}
		return err != nil
	}
	for began := time.Now(); !waits(); {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("large ones find room, however many are held")
		}
	}
	s.Recommend(t, servertest.WebRequest(t)) // a small one passes
	if got := s.Ask(t, "POST", "/v1/"+servertest.Web+":recommend", servertest.WebRequest(t, servertest.WithTarget(""))); got.Code != 200 {
		t.Errorf("a small one over REST: %d %s", got.Code, got.Raw)
	}
	close(release)
	callers.Wait()

	// Now each way, refused ones, too.
	s.Recommend(t, large(t, servertest.Web))
	if _, err := s.Recommendations.BatchRecommend(t.Context(), &setpointv1.BatchRecommendRequest{
		Requests: []*setpointv1.RecommendRequest{large(t, servertest.Web), large(t, "no target"), servertest.Queue(servertest.Web, 3, 30)},
	}); err != nil {
		t.Error(err)
	}
	stream := s.Stream(t)
	servertest.Send(t, stream, "1", large(t, servertest.Web))
	servertest.Send(t, stream, "2", large(t, "no target"))
	for range 2 {
		servertest.Receive(t, stream)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	for path, name := range map[string]string{":recommend": "", ":recommend?": "", ":recommend?x=1": ""} {
		if got := s.Ask(t, "POST", "/v1/"+servertest.Web+path, large(t, name)); got.Code != 200 && !strings.Contains(path, "x=") {
			t.Errorf("%s: %d %.300s", path, got.Code, got.Raw)
		}
	}
	for began := time.Now(); servertest.Read(t, metrics)["large_requests_bytes"] != 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%.0f bytes are held of nothing", servertest.Read(t, metrics)["large_requests_bytes"])
		}
	}
}

// Messages that hold memory while they need more, for what is stored already, do not wait for one another.
func TestReportsThatHoldMemoryEnd(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var holds atomic.Bool
	metrics := prometheus.NewRegistry()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Registerer = metrics
		su.Store.OnParts = func(ctx context.Context, _ store.Key, _ int) error {
			if holds.Load() {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nil
		}
	})
	report := &setpointv1.ReportObservationRequest{}
	for i := range 20_000 {
		report.ExternalMetrics = append(report.ExternalMetrics, &setpointv1.ExternalMetric{
			Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "1", Labels: map[string]string{"queue": strconv.Itoa(i)},
		})
	}
	reportOn := func(i int) error {
		r := proto.CloneOf(report)
		r.Target = "clusters/c/namespaces/reported/targets/t" + strconv.Itoa(i)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		_, err := s.Recommendations.ReportObservation(ctx, r)
		return err
	}
	fills := 10 * runtime.GOMAXPROCS(0) // more than fits
	for i := range fills {
		fatal.If(t, reportOn(i))
	}
	holds.Store(true)
	var callers sync.WaitGroup
	for i := range fills {
		callers.Go(func() {
			if err := reportOn(i); err != nil && status.Code(err) != codes.ResourceExhausted {
				t.Errorf("a report among %d: %v", fills, err)
			}
		})
	}
	for began := time.Now(); servertest.Read(t, metrics)["large_requests_bytes"] < float64(32<<20*runtime.GOMAXPROCS(0)); time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the reports do not take the memory that there is")
		}
	}
	close(release)
	callers.Wait()
	if held := servertest.Read(t, metrics)["large_requests_bytes"]; held != 0 {
		t.Errorf("%.0f bytes are held of nothing", held)
	}
}

// However many calls read what is stored at once, few have records in memory.
func TestFewRecordsAreReadAtOnce(t *testing.T) {
	t.Parallel()
	large := servertest.QueueSpec(1, 50)
	for i := range 50 {
		large.Spec.Metrics = append(large.Spec.Metrics, &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: strings.Repeat("m", 700) + strconv.Itoa(i)}, Target: &setpointv1.MetricTarget{Type: "Value", Value: proto.String("1")},
		}})
	}
	report := &setpointv1.ReportObservationRequest{Target: servertest.Web, Scale: &setpointv1.Scale{SpecReplicas: 1}, ExternalMetrics: []*setpointv1.ExternalMetric{
		{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "30"},
	}}
	for i := range 500 {
		report.Pods = append(report.Pods, &setpointv1.Pod{Name: strings.Repeat("p", 100) + strconv.Itoa(i)})
	}
	// In 32 MiB per processor, and one more each.
	const ofRecords, ofTargets = 33, 9
	for _, test := range []struct {
		name string
		call func(context.Context, *servertest.Service) error
		may  int
	}{
		{"a target", func(ctx context.Context, s *servertest.Service) error {
			_, err := s.Targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: servertest.Web})
			return err
		}, ofRecords},
		{"a poll", func(ctx context.Context, s *servertest.Service) error {
			_, err := s.Recommendations.GetRecommendation(ctx, &setpointv1.GetRecommendationRequest{Target: servertest.Web})
			return err
		}, ofTargets},
		{"a report", func(ctx context.Context, s *servertest.Service) error {
			_, err := s.Recommendations.ReportObservation(ctx, &setpointv1.ReportObservationRequest{Target: servertest.Web, Scale: &setpointv1.Scale{SpecReplicas: 2}})
			return err
		}, ofTargets},
		{"a new spec", func(ctx context.Context, s *servertest.Service) error {
			_, err := s.Targets.SetTargetSpec(ctx, &setpointv1.SetTargetSpecRequest{Name: servertest.Web, TargetSpec: servertest.QueueSpec(1, 5)})
			return err
		}, ofTargets},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			var holds atomic.Bool
			var reading, most atomic.Int64
			read := func(ctx context.Context) {
				if !holds.Load() {
					return
				}
				n := reading.Add(1)
				defer reading.Add(-1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			metrics := prometheus.NewRegistry()
			s := servertest.Start(t, func(su *servertest.Setup) {
				su.Options.Registerer = metrics
				su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
					read(ctx)
					return load(ctx, key)
				}
				su.Store.OnParts = func(ctx context.Context, _ store.Key, most int) error {
					if most == 0 { // else large ones are left out
						read(ctx)
					}
					return nil
				}
			})
			s.Recommend(t, servertest.WebRequest(t))
			_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Web, TargetSpec: large})
			fatal.If(t, err)
			_, err = s.Recommendations.ReportObservation(t.Context(), proto.CloneOf(report))
			fatal.If(t, err)
			holds.Store(true)
			n, may := 50*runtime.GOMAXPROCS(0), test.may*runtime.GOMAXPROCS(0)
			var callers sync.WaitGroup
			for range n {
				callers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					if err := test.call(ctx, s); err != nil && status.Code(err) != codes.Aborted { // by another one's write
						t.Error(err)
					}
				})
			}
			servertest.Eventually(t, func() bool {
				return servertest.Read(t, metrics)["calls_in_flight"] >= float64(n) && reading.Load() > int64(may/2)
			})
			close(release)
			callers.Wait()
			if got := most.Load(); got > int64(may) {
				t.Errorf("%d records are read at once, want at most %d", got, may)
			}
		})
	}
}
