package validation_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// BenchmarkStructure looks at sound requests as clusters send them: pods of one
// container with requests, and a sample of each.
func BenchmarkStructure(b *testing.B) {
	if err := validation.Warm(); err != nil {
		b.Fatal(err)
	}
	for _, pods := range []int{0, 10, 1000} {
		req := request(func(r *setpointv1.RecommendRequest) { addPods(r, pods) })
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if violations := validation.Structure(req); violations != nil {
					b.Fatal(violations)
				}
			}
		})
	}
}

func addPods(req *setpointv1.RecommendRequest, n int) {
	start := &timestamppb.Timestamp{Seconds: 1767225600}
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		req.Pods = append(req.Pods, &setpointv1.Pod{
			Name:       name,
			Phase:      "Running",
			StartTime:  start,
			Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: start},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m", "memory": "256Mi"}}},
		})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod:           name,
			Timestamp:     start,
			WindowSeconds: 30,
			Containers:    []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": "450m", "memory": "210Mi"}}},
		})
	}
}

// BenchmarkSpec looks at sound specs with few and with many metrics.
func BenchmarkSpec(b *testing.B) {
	for _, n := range []int{1, 5} {
		all := []string{
			`{"type": "Resource", "resource": ` + okResource + `}`,
			`{"type": "External", "external": ` + okExternal + `}`,
			`{"type": "Pods", "pods": ` + okPods + `}`,
			`{"type": "Object", "object": ` + okObject + `}`,
			`{"type": "ContainerResource", "containerResource": ` + okContainer + `}`,
		}
		spec := parse(b, metrics(all[:n]...))
		spec.Behavior = parse(b, policy(okPolicy)).GetBehavior()
		b.Run(fmt.Sprintf("metrics=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if violations := validation.Spec(spec, validation.SpecOptions{}); violations != nil {
					b.Fatal(violations)
				}
			}
		})
	}
}
