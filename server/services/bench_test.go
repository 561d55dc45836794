package services_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// BenchmarkRecommend measures a recommendation as callers meet it, from the
// client's message to its answer, over loopback sockets of one process. The clock
// moves by the controller's period, so that the history is as long as it usually is.
func BenchmarkRecommend(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		req := servertest.PodsRequest(pods)
		b.Run(fmt.Sprintf("transport=grpc/pods=%d", pods), func(b *testing.B) {
			s := servertest.Start(b)
			b.ReportAllocs()
			for b.Loop() {
				s.Clock.Advance(servertest.Period)
				s.Recommend(b, req)
			}
		})
		for transport, header := range map[string]http.Header{"rest": {}, "gateway": {servertest.OverGateway: {"1M"}}} {
			b.Run(fmt.Sprintf("transport=%s/pods=%d", transport, pods), func(b *testing.B) {
				s := servertest.Start(b)
				unnamed := proto.CloneOf(req)
				unnamed.Target = "" // as the path has it
				body, err := protojson.Marshal(unnamed)
				fatal.If(b, err)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					s.Clock.Advance(servertest.Period)
					req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL+servertest.RecommendPath(servertest.Web), bytes.NewReader(body))
					fatal.If(b, err)
					req.Header = header.Clone()
					if answer, err := s.Send(req); err != nil || answer.Code != http.StatusOK {
						b.Fatal(answer, err)
					}
				}
			})
		}
	}
}

// BenchmarkBatchRecommend measures the processor's time of a decision in encoded batches of 500 targets with ten pods
// each, all in memory: what the service does itself, with gRPC on both sides.
func BenchmarkBatchRecommend(b *testing.B) {
	const targets = 500
	s := servertest.Start(b)
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range targets {
		req := servertest.PodsRequest(10)
		req.Target = fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i)
		batch.Requests = append(batch.Requests, req)
	}
	data, err := proto.Marshal(batch)
	fatal.If(b, err)
	round := func() {
		s.Clock.Advance(servertest.Period)
		if _, err := s.SendRaw(b.Context(), servertest.BatchedMethod, data); err != nil {
			b.Fatal(err)
		}
	}
	round()
	before, n := process.Own(), 0
	for b.Loop() {
		round()
		n += targets
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64((process.Own()-before).Nanoseconds())/float64(n), "cpu-ns/decision")
}

// BenchmarkLongHistories measures the processor's time of a decision, in batches, by the recommendations that its
// history has: of a target asked every second, under windows of so many seconds.
func BenchmarkLongHistories(b *testing.B) {
	var costs []float64
	for _, seconds := range []int{0, 20, 240, 3600} {
		b.Run(fmt.Sprintf("recommendations=%d", seconds), func(b *testing.B) {
			const targets = 100
			s := servertest.Start(b)
			random := rand.New(rand.NewPCG(1, 2))
			now := s.Clock.Now()
			batch := &setpointv1.BatchRecommendRequest{}
			for i := range targets {
				req := servertest.PodsRequest(10)
				req.Target = fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i)
				window := int32(seconds)
				req.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &window}}
				batch.Requests = append(batch.Requests, req)
				h := recommender.History{Seen: true, Initialized: true, Since: now.Add(-time.Hour).UnixNano(), Updated: now}
				for j := range seconds {
					at := now.Add(time.Duration(j-seconds)*time.Second + time.Duration(random.Int64N(int64(5*time.Millisecond))))
					h.Recommendations = append(h.Recommendations, recommender.TimedRecommendation{Replicas: int32(10 + random.IntN(20)), At: at.UnixNano()})
				}
				value := record.Append(nil, &record.Record{History: h})
				if _, err := s.Memory.CompareAndSwap(b.Context(), store.Swap{Key: servertest.KeyOf(req.Target), Value: value}); err != nil {
					b.Fatal(err)
				}
			}
			round := func() {
				s.Clock.Advance(time.Second + time.Duration(random.Int64N(int64(5*time.Millisecond))))
				if _, err := s.Recommendations.BatchRecommend(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			round()
			before, n := process.Own(), 0
			for b.Loop() {
				round()
				n += targets
			}
			costs = append(costs, float64((process.Own()-before).Nanoseconds())/float64(n))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(costs[len(costs)-1], "cpu-ns/decision")
			b.ReportMetric(costs[len(costs)-1]/costs[0], "of-empty")
			b.ReportMetric(float64(len(s.Stored(b, batch.Requests[0].Target))), "bytes")
		})
	}
}

// BenchmarkListTargets measures the processor's time of a page of 1,000 targets, a target.
func BenchmarkListTargets(b *testing.B) {
	const targets = 1000
	s := servertest.Start(b)
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range targets / 2 {
		for _, name := range []string{"a", "b"} {
			req := servertest.PodsRequest(10)
			req.Target = fmt.Sprintf("clusters/c/namespaces/n/targets/%s%d", name, i)
			batch.Requests = append(batch.Requests, req)
		}
	}
	for range 20 {
		s.Clock.Advance(servertest.Period)
		if _, err := s.Recommendations.BatchRecommend(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for transport, list := range map[string]func() int{
		"grpc": func() int {
			page, err := s.Targets.ListTargets(b.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/c/namespaces/n", PageSize: targets})
			fatal.If(b, err)
			return len(page.GetTargets())
		},
		"rest": func() int {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, fmt.Sprint(s.URL, "/v1/clusters/c/namespaces/n/targets?pageSize=", targets), http.NoBody)
			fatal.If(b, err)
			answer, err := http.DefaultClient.Do(req)
			fatal.If(b, err)
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			fatal.If(b, err)
			return bytes.Count(text, []byte(`"lastDecision"`))
		},
	} {
		b.Run("transport="+transport, func(b *testing.B) {
			before, n := process.Own(), 0
			for b.Loop() {
				if listed := list(); listed != targets {
					b.Fatal(listed)
				}
				n += targets
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64((process.Own()-before).Nanoseconds())/float64(n), "cpu-ns/target")
		})
	}
}
