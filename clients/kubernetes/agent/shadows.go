package agent

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// sideInCharge returns the built-in controller's decision, or the current count if it does not
// act on the workload.
func sideInCharge(native *autoscalingv2.HorizontalPodAutoscaler, snapshot *kubernetes.Snapshot, o *object) (against string, side shadow.Side) {
	switch {
	case native == nil && snapshot.Scale == nil:
		return "the count of " + referenceOf(o), shadow.Side{NoOpinion: "the count is not known"}
	case native == nil:
		return "the count of " + referenceOf(o), shadow.Side{Replicas: snapshot.Scale.Spec.Replicas}
	case len(native.Status.Conditions) == 0:
		return "the built-in controller", shadow.Side{NoOpinion: "it has not decided yet"}
	case stale(&native.Status, snapshot):
		return "the built-in controller", shadow.Side{NoOpinion: "it has not decided on the present count yet"}
	}
	return "the built-in controller", agent.SideOf(kubernetes.StatusToProto(&native.Status))
}

// stale reports whether a status is of another count: that was changed since, not by the writer of
// the status.
func stale(status *autoscalingv2.HorizontalPodAutoscalerStatus, snapshot *kubernetes.Snapshot) bool {
	return snapshot.Scale != nil && status.CurrentReplicas != snapshot.Scale.Spec.Replicas && status.DesiredReplicas != snapshot.Scale.Spec.Replicas
}
