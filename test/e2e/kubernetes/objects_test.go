//go:build linux

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// kind is one of the two kinds of autoscalers.
type kind struct {
	resource schema.GroupVersionResource
	name     string
}

var (
	hpas        = kind{schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}, "HorizontalPodAutoscaler"}
	autoscalers = kind{schema.GroupVersionResource{Group: "autoscaling.setpoint.dev", Version: "v1", Resource: "autoscalers"}, "Autoscaler"}
)

// place is a namespace, and the kind of autoscalers that are in it.
type place struct {
	t         testing.TB
	c         *kubetest.Cluster
	kind      kind
	namespace string
}

func newPlace(t testing.TB, c *kubetest.Cluster, k kind, prefix string) *place {
	t.Helper()
	return &place{t: t, c: c, kind: k, namespace: c.Namespace(t, prefix)}
}

// in returns the place for another test of it.
func (p *place) in(t testing.TB) *place {
	other := *p
	other.t = t
	return &other
}

// add makes an autoscaler. Fields of ours are set on its spec.
func (p *place) add(name string, spec autoscalingv2.HorizontalPodAutoscalerSpec, fields ...string) {
	p.t.Helper()
	must(p.t, p.tryAdd(name, spec, fields...))
}

func (p *place) tryAdd(name string, spec autoscalingv2.HorizontalPodAutoscalerSpec, fields ...string) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		var decoded any
		if err := json.Unmarshal([]byte(value), &decoded); err != nil {
			return err
		}
		content[key] = decoded
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": p.kind.resource.GroupVersion().String(), "kind": p.kind.name,
		"metadata": map[string]any{"name": name}, "spec": content,
	}}
	_, err = p.c.Dynamic().Resource(p.kind.resource).Namespace(p.namespace).Create(context.Background(), object, metav1.CreateOptions{})
	return err
}

// patch changes an autoscaler by a JSON merge patch.
func (p *place) patch(name, patch string) {
	p.t.Helper()
	p.c.Kubectl(p.t, "patch", p.kind.resource.Resource+"."+p.kind.resource.Group, name, "-n", p.namespace, "--type=merge", "-p", patch)
}

// status is an autoscaler's. Of an Autoscaler it has the fields of autoscaling/v2.
func (p *place) status(name string) *autoscalingv2.HorizontalPodAutoscalerStatus {
	p.t.Helper()
	object, err := p.c.Dynamic().Resource(p.kind.resource).Namespace(p.namespace).Get(context.Background(), name, metav1.GetOptions{})
	must(p.t, err)
	return p.statusOf(object)
}

func (p *place) statusOf(object *unstructured.Unstructured) *autoscalingv2.HorizontalPodAutoscalerStatus {
	p.t.Helper()
	status := &autoscalingv2.HorizontalPodAutoscalerStatus{}
	content, _, err := unstructured.NestedMap(object.Object, "status")
	must(p.t, err)
	must(p.t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, status))
	return status
}

// condition returns "Type=Status/Reason: message", "" if absent.
func (p *place) condition(name string, of autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	p.t.Helper()
	for _, condition := range p.status(name).Conditions {
		if condition.Type == of {
			return p.words(condition)
		}
	}
	return ""
}

func (p *place) words(condition autoscalingv2.HorizontalPodAutoscalerCondition) string {
	return p.neutral(fmt.Sprintf("%s=%s/%s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
}

// neutral leaves the place out of a text.
func (p *place) neutral(text string) string {
	return strings.ReplaceAll(text, p.namespace, "NAMESPACE")
}

// awaitCondition waits for one that begins so: "AbleToScale=False/FailedGetScale".
func (p *place) awaitCondition(name, want string) {
	p.t.Helper()
	of, _, _ := strings.Cut(want, "=")
	await(p.t, name+": "+want, func() string {
		if got := p.condition(name, autoscalingv2.HorizontalPodAutoscalerConditionType(of)); !strings.HasPrefix(got, want) {
			return "there is " + got
		}
		return ""
	})
}

// events are the events about an autoscaler, each once, sorted.
func (p *place) events(name string) []string {
	p.t.Helper()
	list, err := p.c.Client().CoreV1().Events(p.namespace).List(context.Background(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + name + ",involvedObject.kind=" + p.kind.name,
	})
	must(p.t, err)
	var all []string
	for _, event := range list.Items {
		all = append(all, p.neutral(event.Type+" "+event.Reason+": "+event.Message))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// replicas is a Deployment's desired count.
func (p *place) replicas(deployment string) int32 {
	p.t.Helper()
	d, err := p.c.Client().AppsV1().Deployments(p.namespace).Get(context.Background(), deployment, metav1.GetOptions{})
	must(p.t, err)
	return *d.Spec.Replicas
}

// awaitReplicas waits until a Deployment wants, and has, so many ready pods.
func (p *place) awaitReplicas(deployment string, want int32) {
	p.t.Helper()
	p.awaitPods(deployment, want, want)
}

// awaitPods waits until a Deployment wants, and has, so many pods, with so many ready.
func (p *place) awaitPods(deployment string, want, ready int32) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("%d replicas of %s", want, deployment), func() string {
		d, err := p.c.Client().AppsV1().Deployments(p.namespace).Get(context.Background(), deployment, metav1.GetOptions{})
		must(p.t, err)
		if *d.Spec.Replicas != want || d.Status.Replicas != want || d.Status.ReadyReplicas != ready {
			return fmt.Sprintf("wants %d, has %d, %d of them ready", *d.Spec.Replicas, d.Status.Replicas, d.Status.ReadyReplicas)
		}
		return ""
	})
}
