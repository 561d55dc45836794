package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// The settings: half of the defaults' times, to wait less.
const (
	haste           = 2
	timeout         = redis.DefaultTimeout / haste
	maxAttempts     = redis.DefaultMaxAttempts
	breakerFailures = redis.DefaultBreakerFailures
	breakerPause    = redis.DefaultBreakerPause / haste
	requestTimeout  = 10 * time.Second / haste // see server.DefaultOptions
)

const (
	// patience bounds one failing operation: its attempts, the pauses, and a machine busy with
	// other tests.
	patience = maxAttempts*timeout + 5*time.Second
	// fast bounds a call while the breaker is open: it must not wait, which would take at least
	// the timeout.
	fast = timeout / 2
	// notice bounds how long readiness takes to follow Redis: a check a second, the
	// longest check, and much time for a busy machine.
	notice = time.Minute
)

// setup configures a service. Tests change it before it starts.
type setup struct {
	options server.Options
	redis   redis.Options
}

// service is a server over a store in Redis, with clients of both transports.
type service struct {
	store           *redis.Store
	conn            *grpc.ClientConn
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
	health          healthv1.HealthClient
	url             string
	http            *http.Client
	metrics         *prometheus.Registry
	logs            *observer.ObservedLogs

	stop    context.CancelFunc
	served  chan error
	stopped sync.Once
}

// startService starts a service on the Redis at the URL, below the prefix. It stops
// with the test.
func startService(t testing.TB, url, prefix string, changes ...func(*setup)) *service {
	t.Helper()
	su := &setup{options: server.DefaultOptions()}
	var err error
	su.redis, err = redis.ParseURL(url)
	fatal.If(t, err)
	su.redis.KeyPrefix, su.redis.TTL = prefix, time.Hour
	su.redis.Timeout, su.redis.MaxAttempts = timeout, maxAttempts
	su.redis.BreakerFailures, su.redis.BreakerPause = breakerFailures, breakerPause
	su.options.RequestTimeout = requestTimeout
	// A storm on a busy machine takes longer than answers are remembered by default.
	su.options.AnswerLimit, su.options.AnswerBytes, su.options.AnswerRetention = 1000, 1<<20, 30*time.Minute
	su.options.CacheBytes = 32 << 20
	// Shedding measures how long a process' goroutines wait for a processor, and all tests,
	// their services and callers are one process.
	su.options.Limits.Shedding.Off = true
	for _, change := range changes {
		change(su)
	}
	s := &service{metrics: prometheus.NewRegistry(), served: make(chan error, 1), http: &http.Client{Transport: &http.Transport{}}}
	core, logs := observer.New(zap.InfoLevel)
	s.logs = logs
	su.options.Log, su.options.Registerer = zap.New(core), s.metrics
	s.store, err = redis.New(su.redis)
	fatal.If(t, err)
	srv, err := server.New(s.store, s.store, su.options)
	fatal.If(t, err)
	grpcListener, httpListener := listen(t), listen(t)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.served <- srv.Serve(ctx, grpcListener, httpListener) }()
	s.url = "http://" + httpListener.Addr().String()
	s.conn, err = grpc.NewClient("passthrough:///"+grpcListener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	fatal.If(t, err)
	s.recommendations = setpointv1.NewRecommendationServiceClient(s.conn)
	s.targets = setpointv1.NewTargetServiceClient(s.conn)
	s.health = healthv1.NewHealthClient(s.conn)
	t.Cleanup(func() { s.end(t) })
	return s
}

// end stops the service, which must drain without an error, and closes its store.
// Once is enough.
func (s *service) end(t testing.TB) {
	t.Helper()
	s.stopped.Do(func() {
		s.http.CloseIdleConnections()
		s.stop()
		if err := <-s.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		_ = s.conn.Close()
		if err := s.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	return l
}

// get makes a REST call and returns status and body.
func (s *service) get(t testing.TB, path string) (int, string) {
	t.Helper()
	return s.rest(t, http.MethodGet, path, "")
}

func (s *service) rest(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	fatal.If(t, err)
	resp, err := s.http.Do(req)
	fatal.If(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	fatal.If(t, err)
	return resp.StatusCode, string(text)
}

// readiness returns nil if the service says everywhere that it is ready, or, as
// wanted, that it is not.
func (s *service) readiness(t testing.TB, ready bool) error {
	if ready {
		return s.says(t, http.StatusOK, healthv1.HealthCheckResponse_SERVING, 1, "ok\n")
	}
	return s.says(t, http.StatusServiceUnavailable, healthv1.HealthCheckResponse_NOT_SERVING, 0, "the history store can't be ")
}

// holdsDown returns nil if the service says everywhere that it is ready, and that it has no store.
func (s *service) holdsDown(t testing.TB) error {
	return s.says(t, http.StatusOK, healthv1.HealthCheckResponse_SERVING, 0, "ok, but the history store can't be ")
}

// inPart returns nil if the service says everywhere that it is ready, and that a part of the store is away.
func (s *service) inPart(t testing.TB) error {
	return s.says(t, http.StatusOK, healthv1.HealthCheckResponse_SERVING, 1, "ok, but in part the history store can't be ")
}

func (s *service) says(t testing.TB, code int, state healthv1.HealthCheckResponse_ServingStatus, up float64, text string) error {
	if got, body := s.get(t, "/readyz"); got != code || !strings.HasPrefix(body, text) {
		return fmt.Errorf("/readyz answers %d %s", got, body)
	}
	if got, _ := s.get(t, "/healthz"); got != http.StatusOK {
		return fmt.Errorf("/healthz answers %d", got)
	}
	for _, name := range []string{"", "setpoint.v1.RecommendationService", "setpoint.v1.TargetService"} {
		got, err := s.health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
		if err != nil || got.GetStatus() != state {
			return fmt.Errorf("health of %q: %v %v", name, got, err)
		}
	}
	if got := s.metric(t, "setpoint_store_up"); got != up {
		return fmt.Errorf("setpoint_store_up is %v", got)
	}
	return nil
}

// awaitReady waits until the service is ready everywhere, and returns how long that took.
func (s *service) awaitReady(t testing.TB) time.Duration {
	t.Helper()
	return kit.Eventually(t, notice, "ready", func() error { return s.readiness(t, true) })
}

// awaitUnready polls /readyz, and returns how long it took to report unready; 0: it did not.
func (s *service) awaitUnready(bound time.Duration) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	go func() {
		for start := time.Now(); time.Since(start) < bound; <-time.After(pollInterval) {
			resp, err := s.http.Get(s.url + "/readyz")
			if err != nil {
				break
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusServiceUnavailable {
				took <- time.Since(start)
				return
			}
		}
		took <- 0
	}()
	return took
}

// metric returns the sum of a metric's series.
func (s *service) metric(t testing.TB, name string) float64 {
	t.Helper()
	families, err := s.metrics.Gather()
	fatal.If(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return sum(family)
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func sum(family *dto.MetricFamily) float64 {
	total := 0.0
	for _, m := range family.GetMetric() {
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return total
}
