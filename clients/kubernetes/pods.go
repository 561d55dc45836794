package kubernetes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// phases are the phases that the service knows. Upstream treats every other one like none.
var phases = map[corev1.PodPhase]bool{
	corev1.PodPending: true, corev1.PodRunning: true, corev1.PodSucceeded: true,
	corev1.PodFailed: true, corev1.PodUnknown: true,
}

// selectedPods returns the pods of the autoscaler's namespace that selector
// matches, in their order.
func (s *Snapshot) selectedPods(selector labels.Selector) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range s.Pods {
		if pod != nil && s.inNamespace(pod.Namespace) && selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func podsToProto(pods []*corev1.Pod) []*setpointv1.Pod {
	out := make([]*setpointv1.Pod, 0, len(pods))
	for _, pod := range pods {
		out = append(out, podToProto(pod))
	}
	return out
}

func podToProto(pod *corev1.Pod) *setpointv1.Pod {
	out := &setpointv1.Pod{
		Name:     pod.Name,
		Deleting: pod.DeletionTimestamp != nil,
		Ready:    readyCondition(pod.Status.Conditions),
		Overhead: quantitiesToProto(pod.Spec.Overhead),
	}
	if phases[pod.Status.Phase] {
		out.Phase = string(pod.Status.Phase)
	}
	if pod.Status.StartTime != nil {
		out.StartTime = instant(pod.Status.StartTime.Time)
	}
	if level := pod.Spec.Resources; level != nil && len(level.Requests) > 0 {
		out.Resources = &setpointv1.ResourceRequirements{Requests: quantitiesToProto(level.Requests)}
	}
	for i := range pod.Spec.Containers {
		out.Containers = append(out.Containers, containerToProto(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		out.InitContainers = append(out.InitContainers, initContainerToProto(&pod.Spec.InitContainers[i]))
	}
	return out
}

// readyCondition returns the first condition of type Ready, as upstream does, nil if there is
// none. A status other than True or False becomes Unknown.
func readyCondition(conditions []corev1.PodCondition) *setpointv1.PodReadyCondition {
	for i := range conditions {
		condition := &conditions[i]
		if condition.Type != corev1.PodReady {
			continue
		}
		status := condition.Status
		if status != corev1.ConditionTrue && status != corev1.ConditionFalse {
			status = corev1.ConditionUnknown
		}
		return &setpointv1.PodReadyCondition{
			Status:             string(status),
			LastTransitionTime: instantUnlessZero(condition.LastTransitionTime.Time),
		}
	}
	return nil
}

func containerToProto(container *corev1.Container) *setpointv1.Container {
	return &setpointv1.Container{
		Name:     container.Name,
		Requests: quantitiesToProto(container.Resources.Requests),
	}
}

func initContainerToProto(container *corev1.Container) *setpointv1.InitContainer {
	policy := container.RestartPolicy
	return &setpointv1.InitContainer{
		Name:        container.Name,
		Restartable: policy != nil && *policy == corev1.ContainerRestartPolicyAlways,
		Requests:    quantitiesToProto(container.Resources.Requests),
	}
}
