package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// onRedis is a service with the defaults of setpoint serve, on a Redis.
type onRedis struct {
	setpointv1.RecommendationServiceClient
	address string
	prefix  string
}

// serveOnRedis starts a service with its own key prefix and changed settings. It stops with the
// test.
func serveOnRedis(tb testing.TB, url string, change func(*settings)) *onRedis {
	tb.Helper()
	s := defaultSettings()
	s.Redis.URLs, s.Redis.KeyPrefix = []string{url}, redistest.Prefix(tb)
	s.Log.Level, s.Server.AllowEvaluationTime = "error", true
	// Even on a busy machine nothing may be sent twice.
	s.Redis.Timeout, s.Server.RequestTimeout = time.Minute, 5*time.Minute
	if change != nil {
		change(&s)
	}
	fatal.If(tb, s.validate())
	log, err := s.Log.Open()
	fatal.If(tb, err)
	histories, err := openStore(&s, log, newRegistry())
	fatal.If(tb, err)
	tb.Cleanup(func() {
		if err := histories.Close(); err != nil {
			tb.Error(err)
		}
	})
	options := s.options()
	options.Log = log
	srv, err := server.New(histories, histories, options)
	fatal.If(tb, err)
	address, _ := testserver.Serve(tb, srv)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	fatal.If(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	// The first health check differs: it loads the script.
	waiting, enough := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer enough()
	watch, err := healthv1.NewHealthClient(conn).Watch(waiting, &healthv1.HealthCheckRequest{})
	for status := healthv1.HealthCheckResponse_UNKNOWN; status != healthv1.HealthCheckResponse_SERVING; {
		fatal.If(tb, err)
		var health *healthv1.HealthCheckResponse
		health, err = watch.Recv()
		status = health.GetStatus()
	}
	return &onRedis{setpointv1.NewRecommendationServiceClient(conn), address, s.Redis.KeyPrefix}
}

// webTarget returns the resource name of a target.
func webTarget(i int) string { return fmt.Sprintf("clusters/prod/namespaces/shop/targets/web-%05d", i) }

// tenPods is a typical request: a cpu utilization target and ten pods of one container, sampled
// now.
func tenPods(target string, now time.Time) *setpointv1.RecommendRequest {
	const pods = 10
	req := &setpointv1.RecommendRequest{Target: target, Scale: &setpointv1.Scale{SpecReplicas: pods}}
	req.Spec = &setpointv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
		MinReplicas:    new(int32(2)), MaxReplicas: 100,
		Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
		}}},
	}
	started := timestamppb.New(now.Add(-time.Hour))
	for i := range pods {
		name := fmt.Sprintf("web-7d9c5b8f6d-%05d", i)
		req.Pods = append(req.Pods, &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: started,
			Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: started},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}},
		})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod: name, Timestamp: timestamppb.New(now), WindowSeconds: 30,
			Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": "300123456n"}}},
		})
	}
	return req
}

// mustRecommend sends one request.
func (s *onRedis) mustRecommend(tb testing.TB, req *setpointv1.RecommendRequest) {
	tb.Helper()
	if _, err := s.Recommend(tb.Context(), req); err != nil {
		tb.Fatal(err)
	}
}

// mustBatch sends all in one batch; none may fail.
func (s *onRedis) mustBatch(tb testing.TB, requests ...*setpointv1.RecommendRequest) {
	tb.Helper()
	resp, err := s.BatchRecommend(tb.Context(), &setpointv1.BatchRecommendRequest{Requests: requests})
	fatal.If(tb, err)
	for i, r := range resp.GetResults() {
		if r.GetError() != nil {
			tb.Fatalf("item %d: %v", i, r.GetError())
		}
	}
}

// In the steady state a recommendation is one command, and a batch one round trip to
// each shard: counted by the servers.
func TestSteadyStateIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	admin := server.Client(t)
	// While there are few unchanged decisions they are logged individually.
	service := serveOnRedis(t, server.URL(), func(s *settings) { s.Server.LoggedRepeats = 0 })
	now, start := time.Now(), time.Now()
	var requests []*setpointv1.RecommendRequest
	for i := range 100 {
		requests = append(requests, tenPods(webTarget(i), now))
	}
	service.mustBatch(t, requests...)
	service.mustBatch(t, requests...)
	count := func(what string, calls int64, do func()) {
		t.Helper()
		before := redistest.CommandStats(t, admin)
		do()
		after := redistest.CommandStats(t, admin)
		made := func(command string) int64 { return after[command] - before[command] }
		if got := made("rpush"); got != 0 {
			t.Errorf("%s: %d calls of rpush, want none", what, got)
		}
		// The list of overrides is read once, then its version is once a second, and once more if that took two.
		listed := 2 + 2*int64(time.Since(start).Seconds())
		if reads := made("get"); reads > listed {
			t.Errorf("%s: %d calls of get", what, reads)
		}
		if versions := made("getrange") - calls; versions < 0 || versions > listed {
			t.Errorf("%s: %d calls of getrange beside the swaps, want 0 to %d", what, versions, listed)
		}
		if set := made("set"); set < calls || set > made("evalsha") {
			t.Errorf("%s: %d calls of set in %d scripts", what, set, made("evalsha"))
		}
		// A swap reads the version and writes once; further scripts are pings, one a second, each with three tries of
		// whether scripts may be sent, and the instance's word of itself, which writes nothing with SET.
		pings := 1 + int64(time.Since(start).Seconds())
		if beside := made("evalsha") - calls; beside < 0 || beside > pings {
			t.Errorf("%s: %d calls of evalsha beside the swaps", what, beside)
		}
		if tries := made("eval"); tries > 3*pings {
			t.Errorf("%s: %d calls of eval, want those of %d pings", what, tries, pings)
		}
	}
	count("100 unary recommendations", 100, func() {
		for _, req := range requests {
			service.mustRecommend(t, req)
		}
	})
	count("three batches of 100", 300, func() {
		for range 3 {
			service.mustBatch(t, requests...)
		}
	})
}

// A target's memory in Redis by MEMORY USAGE: its record and its share of the index, with a
// request every 15 s until its history has its full length. The decision log, which has a
// length of its own, is reported apart.
func TestMemoryOfATarget(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	const targets = 100
	for _, tc := range []struct {
		name    string
		window  int32 // seconds; 0: the default behavior
		periods int
		limit   float64 // bytes
	}{
		{"default behavior", 0, 25, 768},
		{"a window of an hour", 3600, 245, 2048},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, redistest.Config{})
			admin := redis.Client(t)
			service := serveOnRedis(t, redis.URL(), func(s *settings) { s.Server.MaxBatch = targets })
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			// Real requests don't come at whole nanoseconds.
			random := rand.New(rand.NewPCG(1, 1))
			for p := range tc.periods {
				now := start.Add(time.Duration(p) * 15 * time.Second)
				var requests []*setpointv1.RecommendRequest
				for i := range targets {
					req := tenPods(webTarget(i), now)
					req.EvaluationTime = timestamppb.New(now.Add(time.Duration(random.Int64N(int64(100 * time.Millisecond)))))
					if tc.window > 0 {
						req.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
							ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &tc.window},
						}
					}
					requests = append(requests, req)
				}
				service.mustBatch(t, requests...)
			}
			records, index, logs := memoryOf(t, admin, service.prefix)
			perTarget := float64(records+index) / targets
			t.Logf("%s: %.0f bytes a target (record %.0f, index %.0f), and a decision log of %.0f",
				tc.name, perTarget, float64(records)/targets, float64(index)/targets, float64(logs)/targets)
			if perTarget > tc.limit {
				t.Errorf("%.0f bytes a target, at most %.0f", perTarget, tc.limit)
			}
		})
	}
}

// memoryOf sums MEMORY USAGE of all keys of the prefix by kind, in bytes.
func memoryOf(t *testing.T, c *goredis.Client, prefix string) (records, index, logs int64) {
	t.Helper()
	keys := c.Scan(t.Context(), 0, prefix+"*", 1000).Iterator()
	for keys.Next(t.Context()) {
		key := keys.Val()
		// Sample all parts of a nested value.
		n, err := c.MemoryUsage(t.Context(), key, 0).Result()
		fatal.If(t, err)
		switch kind := key[strings.IndexByte(key, '}')+1:]; kind[0] {
		case 'h':
			records += n
		case 'i':
			index += n
		case 'l', 'c':
			logs += n
		}
	}
	fatal.If(t, keys.Err())
	return records, index, logs
}
