package guard_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const (
	// period is how often a target is asked for.
	period = 15 * time.Second
	// full is how many periods fill a history of the default behavior.
	full = 21
)

// began is the instant of the first request.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// usual returns a request as there are most: a cpu utilization target, pods of one
// container that are ready, a sample of each, within tolerance of the target.
func usual(target, pods int) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{
		Target: fmt.Sprintf("clusters/prod/namespaces/shop/targets/web-%04d", target),
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{ApiVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprintf("web-%04d", target)},
			MinReplicas:    new(int32(2)), MaxReplicas: int32(max(100, 2*pods)),
			Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
				Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
			}}},
		},
		Scale: &setpointv1.Scale{SpecReplicas: int32(pods), StatusReplicas: new(int32(pods))},
	}
	started := timestamppb.New(began.Add(-time.Hour))
	for p := range pods {
		name := fmt.Sprintf("web-%04d-7d9c5b8f6d-%05d", target, p)
		req.Pods = append(req.Pods, &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: started,
			Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: started},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}},
		})
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
			Pod: name, Timestamp: timestamppb.New(began), WindowSeconds: 30,
			Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": "300000000n"}}},
		})
	}
	return req
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	fatal.If(t, err)
	return data
}

// asked are requests that are sent again and again, each a period later than before.
type asked struct {
	requests [][]byte
	times    int
}

func newAsked(t *testing.T, first, targets, pods int) *asked {
	t.Helper()
	a := &asked{}
	for i := range targets {
		a.requests = append(a.requests, encode(t, usual(first+i, pods)))
	}
	return a
}

// next returns the next request.
func (a *asked) next() []byte {
	i, at := a.times%len(a.requests), began.Add(time.Duration(a.times/len(a.requests))*period)
	a.times++
	const evaluationTime, seconds = 12, 1
	instant := protowire.AppendVarint(protowire.AppendTag(nil, seconds, protowire.VarintType), uint64(at.Unix()))
	return protowire.AppendBytes(protowire.AppendTag(append([]byte(nil), a.requests[i]...), evaluationTime, protowire.BytesType), instant)
}

// batch returns a batch of one request of each target.
func (a *asked) batch() (batch []byte) {
	for range a.requests {
		batch = protowire.AppendBytes(protowire.AppendTag(batch, 1, protowire.BytesType), a.next())
	}
	return batch
}

// streamed returns the next request for a stream.
func (a *asked) streamed() []byte {
	message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "1")
	return protowire.AppendBytes(protowire.AppendTag(message, 2, protowire.BytesType), a.next())
}
