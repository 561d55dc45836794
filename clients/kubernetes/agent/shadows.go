package agent

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// sideInCharge returns the decision of the controller that scales the workload, or the current count if it does not
// act on the workload.
func sideInCharge(native *autoscalingv2.HorizontalPodAutoscaler, snapshot *kubernetes.Snapshot, o *object) (against string, side shadow.Side) {
	switch {
	case native == nil && snapshot.Scale == nil:
		return "the count of " + referenceOf(o), shadow.Side{NoOpinion: "the count is not known"}
	case native == nil:
		return "the count of " + referenceOf(o), shadow.Side{Replicas: snapshot.Scale.Spec.Replicas}
	}
	against = "the built-in controller"
	if own(native) {
		against = "the agent that scaled it last"
	}
	switch {
	case len(native.Status.Conditions) == 0:
		return against, shadow.Side{NoOpinion: "it has not decided yet"}
	case stale(&native.Status, snapshot):
		return against, shadow.Side{NoOpinion: "it has not decided on the present count yet"}
	}
	return against, agent.SideOf(kubernetes.StatusToProto(&native.Status))
}

// own reports whether an agent wrote the status last, rather than the built-in controller.
func own(hpa *autoscalingv2.HorizontalPodAutoscaler) bool {
	_, other := LastStatusWriter(hpa)
	return slices.ContainsFunc(hpa.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Subresource == "status" && f.Manager == fieldManager && f.Time != nil && f.Time.After(other)
	})
}

// stale reports whether a status is of another count: that was changed since, not by the writer of
// the status.
func stale(status *autoscalingv2.HorizontalPodAutoscalerStatus, snapshot *kubernetes.Snapshot) bool {
	return snapshot.Scale != nil && status.CurrentReplicas != snapshot.Scale.Spec.Replicas && status.DesiredReplicas != snapshot.Scale.Spec.Replicas
}
