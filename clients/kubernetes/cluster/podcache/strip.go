package podcache

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Strip returns a copy of a pod with only the fields that a snapshot and its selectors need. It
// interns labels and containers, which are equal among pods of a workload; they must not be
// changed. It returns any other object unchanged. Use it as the transform of an informer.
func Strip(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              pod.Name,
			Namespace:         pod.Namespace,
			ResourceVersion:   pod.ResourceVersion,
			Labels:            labelSets.intern(labelsKey(pod.Labels), pod.Labels),
			DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{
			Containers:     stripContainers(pod.Spec.Containers),
			InitContainers: stripContainers(pod.Spec.InitContainers),
			Overhead:       pod.Spec.Overhead,
			Resources:      stripPodResources(pod.Spec.Resources),
		},
		Status: corev1.PodStatus{
			Phase:      pod.Status.Phase,
			StartTime:  pod.Status.StartTime,
			Conditions: stripConditions(pod.Status.Conditions),
		},
	}, nil
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		out[i].Name = containers[i].Name
		out[i].RestartPolicy = containers[i].RestartPolicy
		out[i].Resources.Requests = containers[i].Resources.Requests
	}
	return containerLists.intern(containersKey(out), out)
}

func stripPodResources(resources *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if resources == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: resources.Requests}
}

// stripConditions keeps the first condition of type Ready.
func stripConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	for i := range conditions {
		if condition := &conditions[i]; condition.Type == corev1.PodReady {
			return []corev1.PodCondition{{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
			}}
		}
	}
	return nil
}
