package wire_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// cpuSpec holds pods to 60 % of their cpu requests.
func cpuSpec() *setpointv1.HorizontalPodAutoscalerSpec {
	return &setpointv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
		MinReplicas:    new(int32(2)), MaxReplicas: 5000,
		Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
		}}},
	}
}

// podsRequest returns a request with that many pods, of one container with cpu, or
// of two with cpu and memory.
func podsRequest(pods int, small bool) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{
		Target: "clusters/demo/namespaces/shop/targets/web", Spec: cpuSpec(),
		Scale: &setpointv1.Scale{SpecReplicas: int32(pods), Selector: "app=web"}, RequestId: "5f0c8a53-1",
	}
	for i := range pods {
		name := fmt.Sprintf("web-7d9c5b8f6d-%05d", i)
		at := t0.Add(-time.Hour + time.Duration(i)*time.Second)
		pod := &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: timestamppb.New(at),
			Ready: &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(at.Add(4 * time.Second))},
		}
		metrics := &setpointv1.PodMetrics{Pod: name, Timestamp: timestamppb.New(t0.Add(-time.Duration(i%15) * time.Second)), WindowSeconds: 15}
		if small {
			pod.Containers = []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}}
			metrics.Containers = []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": fmt.Sprintf("%dn", 262345678+i)}}}
		} else {
			pod.Containers = []*setpointv1.Container{
				{Name: "app", Requests: map[string]string{"cpu": "450m", "memory": "512Mi"}},
				{Name: "proxy", Requests: map[string]string{"cpu": "50m", "memory": "64Mi"}},
			}
			metrics.Containers = []*setpointv1.ContainerMetrics{
				{Name: "app", Usage: map[string]string{"cpu": fmt.Sprintf("%dn", 262345678+i), "memory": "215040Ki"}},
				{Name: "proxy", Usage: map[string]string{"cpu": "37654322n", "memory": "9216Ki"}},
			}
		}
		req.Pods, req.PodMetrics = append(req.Pods, pod), append(req.PodMetrics, metrics)
	}
	return req
}

func BenchmarkDecode(b *testing.B) {
	for _, shape := range []string{"small", "usual"} {
		for _, pods := range []int{10, 100, 1000, 10_000} {
			// As clients in Go do it: maps in no order.
			data, err := proto.Marshal(podsRequest(pods, shape == "small"))
			fatal.If(b, err)
			name := fmt.Sprintf("pods=%s/n=%d", shape, pods)
			b.Run("way=short/"+name, func(b *testing.B) {
				decoder := wire.NewDecoder(defaults)
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					request, ok := decoder.Decode(data, nil)
					if !ok {
						b.Fatal("not taken")
					}
					request.Release()
				}
			})
			b.Run("way=long/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if _, _, violations := long(data, defaults); len(violations) > 0 {
						b.Fatal(violations)
					}
				}
			})
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	_, in, _ := long(encode(b, podsRequest(10, true)), defaults)
	in.ID = recommender.ID{1}
	decision, _ := recommender.Recommend(t0, in, nil)
	b.Run("way=short", func(b *testing.B) {
		b.ReportAllocs()
		var buffer []byte
		for b.Loop() {
			var ok bool
			if buffer, ok = wire.AppendResponse(buffer[:0], &decision, ""); !ok {
				b.Fatal("not encoded")
			}
		}
		b.SetBytes(int64(len(buffer)))
	})
	b.Run("way=long", func(b *testing.B) {
		b.ReportAllocs()
		var buffer []byte
		for b.Loop() {
			var err error
			buffer, err = (proto.MarshalOptions{}).MarshalAppend(buffer[:0], conversion.Response(&decision))
			fatal.If(b, err)
		}
		b.SetBytes(int64(len(buffer)))
	})
}
