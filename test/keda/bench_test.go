//go:build linux

package keda

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// BenchmarkPolls has 1,000 ScaledObjects on Redis polled as KEDA polls them (GetMetricSpec,
// GetMetrics and IsActive in turn), by eight at a time and then 5,000 a second, beside health checks of the same
// service, which are the least that a call takes. cpu-µs/op is what the service's process
// takes; 1,000 ScaledObjects make 300 calls a second.
//
//	go test -run='^$' -bench=Polls -benchtime=20000x .
func BenchmarkPolls(b *testing.B) {
	const objects = 1000
	s := service.Start(b, "--redis="+redistest.Start(b, redistest.Config{}).URL())
	for n := range objects {
		target := targetOf(fmt.Sprint("t", n))
		if _, err := s.Targets().SetTargetSpec(b.Context(), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: spec()}); err != nil {
			b.Fatal(err)
		}
	}
	// Observations count for a minute, and a run may take longer.
	refresh := func() {
		for n := range objects {
			if _, err := s.Recommendations().ReportObservation(b.Context(), &setpointv1.ReportObservationRequest{
				Target: targetOf(fmt.Sprint("t", n)), Scale: &setpointv1.Scale{SpecReplicas: 5},
				ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "50"}},
			}); err != nil {
				b.Fatal(err)
			}
		}
	}
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	scaler, health := pb.NewExternalScalerClient(conn), healthv1.NewHealthClient(conn)
	b.Run("health", func(b *testing.B) {
		measure(b, s, func(int) error {
			_, err := health.Check(b.Context(), &healthv1.HealthCheckRequest{})
			return err
		})
	})
	poll := func(b *testing.B) func(i int) error {
		return func(i int) error {
			ref := &pb.ScaledObjectRef{Name: fmt.Sprint("t", i/3%objects), Namespace: "shop", ScalerMetadata: map[string]string{"scalerAddress": s.GRPCAddr(), "cluster": "demo"}}
			var err error
			switch i % 3 {
			case 0:
				_, err = scaler.GetMetricSpec(b.Context(), ref)
			case 1:
				_, err = scaler.GetMetrics(b.Context(), &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: "recommended-replicas"})
			case 2:
				_, err = scaler.IsActive(b.Context(), ref)
			}
			return err
		}
	}
	// A decision is made for each at the beginning.
	refresh()
	for i := range 3 * objects {
		if err := poll(b)(i); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("KEDA", func(b *testing.B) { measure(b, s, poll(b)) })
	b.Run("KEDA-5000-a-second", func(b *testing.B) { measureAt(b, s, 5000, poll(b)) })
}

// measureAt makes b.N calls, so many a second, whether or not the ones before are answered. A
// call's time counts from when it was due.
func measureAt(b *testing.B, s *service.Instance, rate int, call func(i int) error) {
	took := make([]time.Duration, b.N)
	var calls sync.WaitGroup
	before := processorTime(b, s)
	b.ResetTimer()
	began := time.Now()
	for i := range b.N {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due)) // the pace of the calls is the subject
		calls.Go(func() {
			if err := call(i); err != nil {
				b.Error(err)
			}
			took[i] = time.Since(due)
		})
	}
	calls.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "calls/s")
	report(b, s, before, took)
}

// measure makes b.N calls, eight at a time.
func measure(b *testing.B, s *service.Instance, call func(i int) error) {
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var callers sync.WaitGroup
	before := processorTime(b, s)
	b.ResetTimer()
	for range 8 {
		callers.Go(func() {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				began := time.Now()
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(began)
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	report(b, s, before, took)
}

// report reports what calls took, and the service for them since it had taken so much.
func report(b *testing.B, s *service.Instance, before time.Duration, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64((processorTime(b, s)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// processorTime is what the process has taken so far, in steps of 10 ms.
func processorTime(b *testing.B, s *service.Instance) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
	if err != nil {
		b.Fatal(err)
	}
	// The fields after the program's name in parentheses, of which the first is the third.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
