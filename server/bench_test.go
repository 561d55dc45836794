package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// period is how often Kubernetes' controller evaluates.
const period = 15 * time.Second

// podsRequest returns a request with that many pods of two containers, at the
// 60 % of their cpu requests that are wanted.
func podsRequest(pods int) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{Target: web, Scale: &setpointv1.Scale{SpecReplicas: int32(pods)}}
	req.Spec = &setpointv1.HorizontalPodAutoscalerSpec{
		MinReplicas: new(int32(2)), MaxReplicas: 5000,
		Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
		}}},
	}
	ready := &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestampOf(t0.Add(-webAge))}
	for i := range pods {
		name := fmt.Sprintf("web-7d9c5b8f6d-%05d", i)
		req.Pods = append(req.Pods, &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: timestampOf(t0.Add(-webAge)), Ready: ready,
			Containers: []*setpointv1.Container{
				{Name: "app", Requests: map[string]string{"cpu": "450m", "memory": "512Mi"}},
				{Name: "proxy", Requests: map[string]string{"cpu": "50m", "memory": "64Mi"}},
			},
		})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod: name, Timestamp: timestampOf(t0), WindowSeconds: 30,
			Containers: []*setpointv1.ContainerMetrics{
				{Name: "app", Usage: map[string]string{"cpu": "262345678n", "memory": "215040Ki"}},
				{Name: "proxy", Usage: map[string]string{"cpu": "37654322n", "memory": "9216Ki"}},
			},
		})
	}
	return req
}

// BenchmarkRecommend measures a recommendation as callers meet it, from the
// client's message to its answer, over loopback sockets of one process. The clock
// moves by the controller's period, so that the history is as long as it usually is.
func BenchmarkRecommend(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		req := podsRequest(pods)
		b.Run(fmt.Sprintf("transport=grpc/pods=%d", pods), func(b *testing.B) {
			s := start(b)
			b.ReportAllocs()
			for b.Loop() {
				s.clock.Advance(period)
				s.recommend(b, req)
			}
		})
		for transport, header := range map[string]http.Header{"rest": {}, "gateway": {overGateway: {"1M"}}} {
			b.Run(fmt.Sprintf("transport=%s/pods=%d", transport, pods), func(b *testing.B) {
				s := start(b)
				unnamed := proto.CloneOf(req)
				unnamed.Target = "" // as the path has it
				body, err := protojson.Marshal(unnamed)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					s.clock.Advance(period)
					req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.url+recommendPath(web), bytes.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					req.Header = header.Clone()
					if answer, err := s.send(req); err != nil || answer.code != http.StatusOK {
						b.Fatal(answer, err)
					}
				}
			})
		}
	}
}

// BenchmarkBatchRecommend measures a batch of a hundred targets of ten pods.
func BenchmarkBatchRecommend(b *testing.B) {
	s := start(b)
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 100 {
		req := podsRequest(10)
		req.Target = fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i)
		batch.Requests = append(batch.Requests, req)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.clock.Advance(period)
		if _, err := s.recommendations.BatchRecommend(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
