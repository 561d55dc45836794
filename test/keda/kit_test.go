//go:build linux

package keda

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	v2 "k8s.io/api/autoscaling/v2"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
	"github.com/setpoint-dev/setpoint/test/keda/scalers"
)

// most is the largest count that is tested.
const most = 500

// spec wants a count of one for each 10 of the queue, at once and exactly, zero included.
func spec() *setpointv1.TargetSpec {
	open := func() *setpointv1.HPAScalingRules {
		return &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(0), Tolerance: proto.String("0"),
			Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 1}}}
	}
	return &setpointv1.TargetSpec{
		Options: &setpointv1.RecommendOptions{ScaleToZero: proto.Bool(true)},
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: proto.Int32(0), MaxReplicas: most,
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: open(), ScaleDown: open()},
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
			}}},
		},
	}
}

func targetOf(name string) string { return "clusters/demo/namespaces/shop/targets/" + name }

// want has a target want so many replicas: its queue is that long.
func want(t *testing.T, s *service.Instance, name string, replicas int) {
	t.Helper()
	if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: targetOf(name), TargetSpec: spec()}); err != nil {
		t.Fatal(err)
	}
	observe(t, s, name, max(1, replicas/2), replicas)
}

// observe reports the current replicas, and a queue that needs the wanted ones.
func observe(t *testing.T, s *service.Instance, name string, current, wanted int) {
	t.Helper()
	if _, err := s.Recommendations().ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
		Target: targetOf(name), Scale: &setpointv1.Scale{SpecReplicas: int32(current)},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(10 * wanted)}},
	}); err != nil {
		t.Fatal(err)
	}
}

// scaledObject is the configuration of a KEDA scaler.
func scaledObject(address, name string, changes ...func(*scalersconfig.ScalerConfig)) *scalersconfig.ScalerConfig {
	c := &scalersconfig.ScalerConfig{
		ScalableObjectName: name, ScalableObjectNamespace: "shop", ScalableObjectType: "ScaledObject",
		TriggerMetadata: map[string]string{"scalerAddress": address, "cluster": "demo"},
		AuthParams:      map[string]string{}, ResolvedEnv: map[string]string{},
		MetricType: v2.AverageValueMetricType,
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// external returns KEDA's scaler, closed with the test.
func external(t *testing.T, c *scalersconfig.ScalerConfig) scalers.Scaler {
	t.Helper()
	s, err := scalers.NewExternalScaler(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return s
}

// metricName is KEDA's name of the metric of its first trigger.
const metricName = "s0-recommended-replicas"

// count is the answer of KEDA's metrics adapter, in thousandths, and whether the scaler is
// active.
func count(t *testing.T, s scalers.Scaler) (milli int64, active bool, err error) {
	t.Helper()
	values, active, err := s.GetMetricsAndActivity(t.Context(), metricName)
	if err != nil {
		return 0, false, err
	}
	if len(values) != 1 || values[0].MetricName != metricName {
		t.Fatalf("the values are %v", values)
	}
	return values[0].Value.MilliValue(), active, nil
}

// eventually waits until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
