//go:build !js

package conversion

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// WithFallbacks returns stages with the fallbacks of the spec's metrics in them, for readers to which a spec is
// one of autoscaling/v2, which has no place for them.
func WithFallbacks(spec *setpointv1.HorizontalPodAutoscalerSpec, s *setpointv1.Stages) *setpointv1.Stages {
	if !HasFallback(spec) {
		return s
	}
	out := &setpointv1.Stages{}
	proto.Merge(out, s)
	for _, m := range spec.GetMetrics() {
		f := m.GetExternal().GetFallback()
		if f == nil {
			continue
		}
		added := &setpointv1.MetricFallback{Metric: string(recommender.ExternalMetric) + ":" + m.GetExternal().GetMetric().GetName(), Replicas: new(f.GetReplicas())}
		if f.FailureDurationSeconds != nil {
			added.FailureDuration = durationpb.New(time.Duration(f.GetFailureDurationSeconds()) * time.Second)
		}
		out.Fallbacks = append(out.Fallbacks, added)
	}
	return out
}
