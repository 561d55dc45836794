// Package request creates the requests of the measurements, encoded in advance so that
// callers cost little.
//
// They are usual ones: a cpu utilization target of 60 %, ready pods with one container,
// and a sample for each, near the target so that nothing changes. Every target has its
// own spec, pods and samples; no two requests are equal.
package request

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// period is how often Kubernetes' controller evaluates.
const period = 15 * time.Second

// Name returns the name of the i-th target; a namespace has a hundred.
func Name(i int) string {
	return fmt.Sprintf("clusters/prod/namespaces/shop-%05d/targets/web-%02d", i/100, i%100)
}

// For returns the request of the i-th target with that many pods, at the current time
// of the service's clock.
func For(i, pods int, now time.Time) *setpointv1.RecommendRequest {
	random := rand.New(rand.NewPCG(uint64(i), uint64(pods)))
	req := &setpointv1.RecommendRequest{
		Target: Name(i),
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{ApiVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprintf("web-%05d", i)},
			MinReplicas:    new(int32(2)), MaxReplicas: int32(max(100, 2*pods)),
			Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
				Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
			}}},
		},
		Scale: &setpointv1.Scale{SpecReplicas: int32(pods), StatusReplicas: new(int32(pods))},
	}
	started := timestamppb.New(now.Add(-time.Hour - time.Duration(random.IntN(1e6))*time.Second).Truncate(time.Second))
	set := random.Uint32()
	for p := range pods {
		name := fmt.Sprintf("web-%05d-%08x-%05x", i, set, p*7919)
		req.Pods = append(req.Pods, &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: started,
			Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: started},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}},
		})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod: name, Timestamp: timestamppb.New(now.Add(-time.Duration(random.IntN(15)) * time.Second).Truncate(time.Second)), WindowSeconds: 30,
			Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": fmt.Sprintf("%dn", 285_000_000+random.IntN(30_000_000))}}},
		})
	}
	return req
}
