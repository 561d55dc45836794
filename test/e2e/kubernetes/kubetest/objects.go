//go:build linux

package kubetest

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Deployment makes a Deployment of pods labelled app=NAME, each of one container
// "main" that requests 100 thousandths of a core and 64 MiB.
func (c *Cluster) Deployment(t testing.TB, namespace, name string, replicas int32) *appsv1.Deployment {
	t.Helper()
	made, err := c.client.AppsV1().Deployments(namespace).Create(context.Background(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: Selector(name), Template: PodTemplate(name)},
	}, metav1.CreateOptions{})
	fatal.If(t, err)
	return made
}

// Selector selects the pods of an app.
func Selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: app}}
}

// PodTemplate is that of Deployment.
func PodTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{AppLabel: app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		}}},
	}
}

// CPU is the spec of an autoscaler of a Deployment with a CPU utilization target in percent. It
// scales immediately in both directions.
func CPU(deployment string, percent, least, most int32) autoscalingv2.HorizontalPodAutoscalerSpec {
	atOnce := int32(0)
	return autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
		MinReplicas:    &least, MaxReplicas: most,
		Metrics: []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			},
		}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp: &autoscalingv2.HPAScalingRules{
				Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 1000, PeriodSeconds: 1}},
			},
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &atOnce},
		},
	}
}

// HPA makes a HorizontalPodAutoscaler.
func (c *Cluster) HPA(t testing.TB, namespace, name string, spec autoscalingv2.HorizontalPodAutoscalerSpec) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	made, err := c.client.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(context.Background(),
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	fatal.If(t, err)
	return made
}
