package shrink

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// ofPods joins what a rule finds in each pod of each step.
func ofPods(places func(*corev1.Pod) []func()) rule {
	return ofSteps(func(s *recording.Step) []func() {
		var out []func()
		for _, p := range s.Pods {
			out = append(out, places(p)...)
		}
		return out
	})
}

var (
	dropContainers     = ofPods(func(p *corev1.Pod) []func() { return each(&p.Spec.Containers) })
	dropInitContainers = ofPods(func(p *corev1.Pod) []func() { return each(&p.Spec.InitContainers) })
	dropPodConditions  = ofPods(func(p *corev1.Pod) []func() { return each(&p.Status.Conditions) })
)

// dropRequests drops those of containers, of the pod and of its overhead.
var dropRequests = ofPods(func(p *corev1.Pod) []func() {
	var out []func()
	for i := range p.Spec.Containers {
		out = append(out, eachQuantity(&p.Spec.Containers[i].Resources.Requests)...)
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		out = append(out, eachQuantity(&c.Resources.Requests)...)
		out = append(out, if1(c.RestartPolicy != nil, func() { c.RestartPolicy = nil })...)
	}
	if p.Spec.Resources != nil {
		out = append(out, eachQuantity(&p.Spec.Resources.Requests)...)
	}
	return append(out, eachQuantity(&p.Spec.Overhead)...)
})

// eachQuantity returns the changes that take out single resources.
func eachQuantity(list *corev1.ResourceList) []func() {
	var out []func()
	for _, name := range slices.Sorted(maps.Keys(*list)) {
		out = append(out, func() {
			delete(*list, name)
			if len(*list) == 0 {
				*list = nil
			}
		})
	}
	return out
}

var dropPodParts = ofPods(func(p *corev1.Pod) []func() {
	return slices.Concat(
		if1(p.DeletionTimestamp != nil, func() { p.DeletionTimestamp = nil }),
		if1(p.Spec.Resources != nil, func() { p.Spec.Resources = nil }),
		if1(p.Status.StartTime != nil, func() { p.Status.StartTime = nil }),
		if1(p.Namespace != "", func() { p.Namespace = "" }),
	)
})

// dropLabels drops those of pods and of their samples.
var dropLabels = ofSteps(func(s *recording.Step) []func() {
	var out []func()
	for _, p := range s.Pods {
		out = append(out, eachLabel(&p.Labels)...)
	}
	for i := range s.PodMetrics {
		out = append(out, eachLabel(&s.PodMetrics[i].Labels)...)
	}
	return out
})

// plainPods makes pods run and be ready.
var plainPods = ofPods(func(p *corev1.Pod) []func() {
	out := if1(p.Status.Phase != corev1.PodRunning, func() { p.Status.Phase = corev1.PodRunning })
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		out = append(out, if1(c.Status != corev1.ConditionTrue, func() { c.Status = corev1.ConditionTrue })...)
	}
	return out
})

var dropSampleContainers = ofSteps(func(s *recording.Step) []func() {
	var out []func()
	for i := range s.PodMetrics {
		out = append(out, each(&s.PodMetrics[i].Containers)...)
	}
	return out
})

var dropUsages = ofSteps(func(s *recording.Step) []func() {
	var out []func()
	for i := range s.PodMetrics {
		for j := range s.PodMetrics[i].Containers {
			out = append(out, eachQuantity(&s.PodMetrics[i].Containers[j].Usage)...)
		}
	}
	return out
})

// dropSampleParts drops what samples say of their time.
var dropSampleParts = ofSteps(func(s *recording.Step) []func() {
	var out []func()
	for i := range s.PodMetrics {
		m := &s.PodMetrics[i]
		out = append(out, if1(!m.Timestamp.IsZero(), func() { m.Timestamp = metav1.Time{} })...)
		out = append(out, if1(m.Window.Duration != 0, func() { m.Window.Duration = 0 })...)
		out = append(out, if1(m.Namespace != "", func() { m.Namespace = "" })...)
	}
	return out
})

// dropReadingParts drops times and labels of custom and external metrics.
var dropReadingParts = ofSteps(func(s *recording.Step) []func() {
	var out []func()
	for i := range s.CustomMetrics {
		v := &s.CustomMetrics[i]
		out = append(out, if1(!v.Timestamp.IsZero(), func() { v.Timestamp = metav1.Time{} })...)
		out = append(out, if1(v.WindowSeconds != nil, func() { v.WindowSeconds = nil })...)
		out = append(out, if1(v.DescribedObject.Namespace != "", func() { v.DescribedObject.Namespace = "" })...)
	}
	for i := range s.ExternalMetrics {
		v := &s.ExternalMetrics[i]
		out = append(out, if1(!v.Timestamp.IsZero(), func() { v.Timestamp = metav1.Time{} })...)
		out = append(out, eachLabel(&v.MetricLabels)...)
	}
	return out
})
