package crd_test

import (
	"context"
	"math/rand/v2"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/conformance/crd"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Reference and targets are what the API server's own printer puts into the columns of
// `kubectl get hpa`.
func TestColumnsAreThoseOfAHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	printer := printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	compared := 0
	for i := range uint64(3000) {
		r := random{rand.New(rand.NewPCG(seed, i))}
		hpa, _ := both(t, r.spec())
		upstream, err := crd.Create(hpa)
		if err != nil || len(upstream.Violations) > 0 {
			continue
		}
		status := autoscalingv2.HorizontalPodAutoscalerStatus{CurrentMetrics: r.readings(upstream.Stored.Spec.Metrics)}
		upstream.Stored.Status = status
		internal := &autoscaling.HorizontalPodAutoscaler{}
		fatal.If(t, legacyscheme.Scheme.Convert(upstream.Stored, internal, nil))
		table, err := printer.ConvertToTable(context.Background(), internal, &metav1.TableOptions{})
		fatal.If(t, err)
		autoscaler := autoscalingv1.Autoscaler{Spec: autoscalingv1.AutoscalerSpec{HorizontalPodAutoscalerSpec: upstream.Stored.Spec}}
		autoscaler.SetHorizontalPodAutoscalerStatus(&status)
		cells := table.Rows[0].Cells // name, reference, targets, …
		if autoscaler.Status.Reference != cells[1] || autoscaler.Status.Targets != cells[2] {
			t.Fatalf("spec %s\nreadings %s\n%q %q, of a HorizontalPodAutoscaler %q %q", text(upstream.Stored.Spec.Metrics),
				text(status.CurrentMetrics), autoscaler.Status.Reference, autoscaler.Status.Targets, cells[1], cells[2])
		}
		compared++
	}
	if compared < 1000 {
		t.Errorf("%d compared", compared)
	}
}

// readings are those of metrics: all of them, fewer, of other types, and without values.
func (r random) readings(metrics []autoscalingv2.MetricSpec) []autoscalingv2.MetricStatus {
	var out []autoscalingv2.MetricStatus
	for _, metric := range metrics {
		if r.chance(0.1) {
			break
		}
		value := r.reading()
		if r.chance(0.1) {
			metric.Type = one(r, autoscalingv2.ResourceMetricSourceType, autoscalingv2.PodsMetricSourceType, "")
		}
		reading := autoscalingv2.MetricStatus{Type: metric.Type}
		switch metric.Type {
		case autoscalingv2.ResourceMetricSourceType:
			reading.Resource = &autoscalingv2.ResourceMetricStatus{Current: value}
		case autoscalingv2.ContainerResourceMetricSourceType:
			reading.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{Current: value}
		case autoscalingv2.PodsMetricSourceType:
			reading.Pods = &autoscalingv2.PodsMetricStatus{Current: value}
		case autoscalingv2.ObjectMetricSourceType:
			reading.Object = &autoscalingv2.ObjectMetricStatus{Current: value}
		case autoscalingv2.ExternalMetricSourceType:
			reading.External = &autoscalingv2.ExternalMetricStatus{Current: value}
		}
		out = append(out, reading)
	}
	return out
}

func (r random) reading() autoscalingv2.MetricValueStatus {
	var out autoscalingv2.MetricValueStatus
	if r.chance(0.7) {
		out.Value = r.parsed()
	}
	if r.chance(0.7) {
		out.AverageValue = r.parsed()
	}
	if r.chance(0.7) {
		percent := int32(r.IntN(300))
		out.AverageUtilization = &percent
	}
	return out
}

func (r random) parsed() *resource.Quantity {
	q := resource.MustParse(one(r, "0", "500m", "1", "1500m", "2Gi", "1e3", "12345678901", "1n"))
	return &q
}
