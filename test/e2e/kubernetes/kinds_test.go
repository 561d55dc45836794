//go:build linux

package kubernetes

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// widgets are a kind that the cluster's owner has made up.
const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size, labelSelectorPath: .status.selector}
`

func TestKindsWhateverHasAScaleIsScaled(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	c.Apply(t, widgets)
	c.AwaitKind(t, "widgets.example.com")
	p := newPlace(t, c, autoscalers, "kinds")
	two, ctx := int32(2), context.Background()
	_, err := c.Client().AppsV1().StatefulSets(p.namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "stateful"},
		Spec:       appsv1.StatefulSetSpec{Replicas: &two, Selector: kubetest.Selector("stateful"), Template: kubetest.PodTemplate("stateful"), PodManagementPolicy: appsv1.ParallelPodManagement},
	}, metav1.CreateOptions{})
	must(t, err)
	template := kubetest.PodTemplate("controller")
	_, err = c.Client().CoreV1().ReplicationControllers(p.namespace).Create(ctx, &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "controller"},
		Spec:       corev1.ReplicationControllerSpec{Replicas: &two, Selector: template.Labels, Template: &template},
	}, metav1.CreateOptions{})
	must(t, err)
	for _, name := range []string{"set", "widget"} { // the second has the widget's pods
		_, err = c.Client().AppsV1().ReplicaSets(p.namespace).Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &two, Selector: kubetest.Selector(name), Template: kubetest.PodTemplate(name)},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	c.Apply(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: widget}, spec: {size: 2}}", "-n", p.namespace)
	c.Kubectl(t, "patch", "widget", "widget", "-n", p.namespace, "--subresource=status", "--type=merge", "-p", `{"status":{"size":2,"selector":"app=widget"}}`)
	startAgent(t, c, p.namespace, service.Start(t), "--source=autoscaler")
	for _, one := range []struct{ name, apiVersion, kind, resource, size string }{
		{"stateful", "apps/v1", "StatefulSet", "statefulsets.apps", ".spec.replicas"},
		{"set", "apps/v1", "ReplicaSet", "replicasets.apps", ".spec.replicas"},
		{"controller", "v1", "ReplicationController", "replicationcontrollers", ".spec.replicas"},
		{"widget", "example.com/v1", "Widget", "widgets.example.com", ".spec.size"},
	} {
		t.Run(one.kind, func(t *testing.T) {
			t.Parallel()
			p := p.in(t)
			await(t, "two pods", func() string {
				if p.runningPods(one.name) != 2 {
					return "not yet"
				}
				return ""
			})
			cpu(300, 6).do(p, one.name)
			spec := basic(one.name)
			spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: one.apiVersion, Kind: one.kind, Name: one.name}
			p.add(one.name, spec)
			await(t, "six replicas", func() string {
				if got := c.Kubectl(t, "get", one.resource, one.name, "-n", p.namespace, "-o=jsonpath={"+one.size+"}"); got != "6" {
					return got
				}
				return ""
			})
			p.awaitCondition(one.name, "ScalingActive=True/ValidMetricFound")
		})
	}
}

func (p *place) runningPods(app string) int {
	n := 0
	for _, pod := range p.c.Kubelet.Pods(p.namespace) {
		if pod.Labels[kubetest.AppLabel] == app && pod.Status.Phase == "Running" {
			n++
		}
	}
	return n
}
