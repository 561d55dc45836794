package kubernetes_test

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
)

// snapshotOf returns a snapshot of an autoscaler web in namespace shop with the
// given metrics and a scale of three replicas that selects app=web.
func snapshotOf(t testing.TB, metrics string) *kubernetes.Snapshot {
	t.Helper()
	autoscaler := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscaler](t, `
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 10`)
	autoscaler.Spec.Metrics = kubernetestest.FromYAML[[]autoscalingv2.MetricSpec](t, metrics)
	return &kubernetes.Snapshot{
		Autoscaler: &autoscaler,
		Scale: &autoscalingv1.Scale{
			Spec:   autoscalingv1.ScaleSpec{Replicas: 3},
			Status: autoscalingv1.ScaleStatus{Replicas: 4, Selector: "app=web"},
		},
	}
}
