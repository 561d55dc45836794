package conversion

import (
	"context"
	"fmt"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// endsAfter is a context that is cancelled at that look.
type endsAfter struct {
	context.Context
	looks, most int
}

func (c *endsAfter) Err() error {
	if c.looks++; c.looks > c.most {
		return context.Canceled
	}
	return nil
}

// Reading stops soon after the caller has gone: after at most as many readings as there
// are between two checks, of any kind.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	const n = 20 * lookEvery
	external := &setpointv1.RecommendRequest{Spec: &setpointv1.HorizontalPodAutoscalerSpec{Metrics: []*setpointv1.MetricSpec{{
		Type: "External", External: &setpointv1.ExternalMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "q"}},
	}}}}
	custom := &setpointv1.RecommendRequest{Spec: &setpointv1.HorizontalPodAutoscalerSpec{Metrics: []*setpointv1.MetricSpec{{
		Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "q"}},
	}}}}
	for i := range n {
		external.ExternalMetrics = append(external.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "q"}, Value: "1"})
		custom.CustomMetrics = append(custom.CustomMetrics, &setpointv1.CustomMetric{
			Metric: &setpointv1.MetricIdentifier{Name: "q"}, Value: "1",
			DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: fmt.Sprint(i)},
		})
	}
	for name, req := range map[string]*setpointv1.RecommendRequest{"external": external, "custom": custom} {
		for _, looks := range []int{0, 1, 2, 5, 10} {
			ctx := &endsAfter{Context: t.Context(), most: looks}
			in, _, _ := InputWithin(ctx, req, recommender.Options{}, nil)
			got := 0
			if len(in.Readings) > 0 {
				got = len(in.Readings[0].Values)
			}
			if got > looks*lookEvery {
				t.Errorf("%s: %d readings after the end at look %d, want at most %d", name, got, looks, looks*lookEvery)
			}
		}
		ctx := &endsAfter{Context: t.Context(), most: n}
		if in, _, _ := InputWithin(ctx, req, recommender.Options{}, nil); len(in.Readings[0].Values) != n || ctx.looks < n/lookEvery {
			t.Errorf("%s: %d readings with %d looks, want all of %d", name, len(in.Readings[0].Values), ctx.looks, n)
		}
	}
}
