package wire_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
			if err != nil {
				b.Fatal(err)
			}
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

// The rarer parts of requests, beside ten pods. A previous status is only read for a first
// evaluation.
func BenchmarkDecodeParts(b *testing.B) {
	withStatus := func(req *setpointv1.RecommendRequest, _ int) {
		_, in, _ := long(encode(b, req), defaults)
		decision, _ := recommender.Recommend(t0, in, nil)
		req.PreviousStatus = conversion.Status(&decision.Status)
	}
	for _, part := range []struct {
		name string
		add  func(*setpointv1.RecommendRequest, int)
	}{
		{"nothing", func(*setpointv1.RecommendRequest, int) {}},
		{"newSpec", func(req *setpointv1.RecommendRequest, i int) {
			req.Spec.Metrics[0].Resource.Target.AverageUtilization = new(int32(1 + i))
		}},
		{"newTarget", func(req *setpointv1.RecommendRequest, i int) {
			req.Target = fmt.Sprintf("clusters/c/namespaces/n%d/targets/t%d", i%100, i)
			req.Spec.ScaleTargetRef.Name, req.Spec.MaxReplicas = fmt.Sprintf("t%d", i), int32(5+i)
		}},
		{"podsMetric", func(req *setpointv1.RecommendRequest, _ int) {
			metric := &setpointv1.MetricIdentifier{Name: "qps"}
			req.Spec.Metrics[0] = &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: metric, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")}}}
			req.PodMetrics = nil
			for _, pod := range req.GetPods() {
				req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{
					Metric: metric, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: pod.GetName(), ApiVersion: "v1"}, Value: "1500m", Timestamp: timestamppb.New(t0),
				})
			}
		}},
		{"external", func(req *setpointv1.RecommendRequest, _ int) {
			metric := &setpointv1.MetricIdentifier{Name: "depth", Selector: &setpointv1.LabelSelector{MatchLabels: map[string]string{"queue": "a"}}}
			req.Spec.Metrics[0] = &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: metric, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")}}}
			req.PodMetrics = nil
			for range 10 {
				req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: metric, Value: "17", Timestamp: timestamppb.New(t0)})
			}
		}},
		{"metricErrors", func(req *setpointv1.RecommendRequest, _ int) {
			req.PodMetrics = nil
			req.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu", Message: "away"}}
		}},
		{"previousStatus", withStatus},
		{"firstEvaluation", withStatus},
	} {
		var all [][]byte
		for i := range 1024 {
			req := podsRequest(10, true)
			part.add(req, i)
			all = append(all, encode(b, req))
		}
		b.Run("part="+part.name, func(b *testing.B) {
			decoder := wire.NewDecoder(defaults)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; i%1024 == 0 && part.name == "newSpec" {
					decoder = wire.NewDecoder(defaults)
				}
				request, ok := decoder.Decode(all[i%1024], nil)
				if !ok {
					b.Fatal("not taken")
				}
				if part.name == "firstEvaluation" {
					request.Seed()
				}
				request.Release()
			}
		})
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
			if buffer, ok = wire.AppendResponse(buffer[:0], &decision); !ok {
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
			if buffer, err = (proto.MarshalOptions{}).MarshalAppend(buffer[:0], conversion.Response(&decision)); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buffer)))
	})
}
