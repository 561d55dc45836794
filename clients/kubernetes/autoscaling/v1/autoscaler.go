package v1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Autoscaler keeps the replicas of a workload where its metrics want them, exactly as
// a HorizontalPodAutoscaler of autoscaling/v2 with the same spec would. No built-in
// controller acts on it: Setpoint's agent does.
//
// A workload belongs to one autoscaler. Where a HorizontalPodAutoscaler or another
// Autoscaler has the same scaleTargetRef, the agent leaves the workload alone and says
// so in the condition AbleToScale.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=autoscalers,singular=autoscaler,shortName=asr,categories=all
// +kubebuilder:printcolumn:name="Reference",type=string,JSONPath=`.status.reference`,description="The workload that is scaled."
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.status.targets`,description="Current and target values of the metrics."
// +kubebuilder:printcolumn:name="MinPods",type=string,JSONPath=`.spec.minReplicas`,description="Fewest replicas."
// +kubebuilder:printcolumn:name="MaxPods",type=string,JSONPath=`.spec.maxReplicas`,description="Most replicas."
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.currentReplicas`,description="Replicas last seen."
// +kubebuilder:printcolumn:name="Desired",type=string,JSONPath=`.status.desiredReplicas`,description="Replicas last decided."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Whether it can scale and metrics say to what: AbleToScale and ScalingActive are True."
// +kubebuilder:printcolumn:name="Limited",type=string,JSONPath=`.status.conditions[?(@.type=="ScalingLimited")].status`,description="Whether minReplicas, maxReplicas or behavior hold it back: ScalingLimited."
// +kubebuilder:printcolumn:name="Shadow",type=boolean,JSONPath=`.spec.shadow`,description="Whether it is only compared, and scales nothing."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation."
// +kubebuilder:printcolumn:name="Explanation",type=string,priority=1,JSONPath=`.status.explanation`,description="Why the replicas are what they are."
type Autoscaler struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what is wanted.
	// +required
	Spec AutoscalerSpec `json:"spec"`
	// status is what the agent saw and decided last.
	// +optional
	Status AutoscalerStatus `json:"status,omitempty"`
}

// AutoscalerList is a list of Autoscalers.
//
// +kubebuilder:object:root=true
type AutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Autoscalers.
	Items []Autoscaler `json:"items"`
}

// AutoscalerSpec is the spec of autoscaling/v2, and what Setpoint adds to it.
type AutoscalerSpec struct {
	autoscalingv2.HorizontalPodAutoscalerSpec `json:",inline"`
	// syncPeriodSeconds is how often the agent decides anew, 1 s to 3600 s. Absent: the
	// agent's --sync-period. A change of the spec is looked at at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	SyncPeriodSeconds *int32 `json:"syncPeriodSeconds,omitempty"`
	// shadow makes the agent decide, with a history of its own, but apply nothing: it
	// compares with what the workload's replicas really are. The status then has
	// reference, targets and explanation only.
	// +optional
	Shadow bool `json:"shadow,omitempty"`
	// options are what the flags of a controller manager are to a
	// HorizontalPodAutoscaler. Absent: the service's settings.
	// +optional
	Options *Options `json:"options,omitempty"`
	// stages are what a HorizontalPodAutoscaler does not have: schedules, fallbacks of
	// metrics, guards. Absent: none; decisions are exactly a HorizontalPodAutoscaler's.
	// +optional
	Stages *Stages `json:"stages,omitempty"`
	// fleet is the fleet that this workload is a member of:
	// clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, a spec that the service stores. The
	// fleet decides for all members together, by its own stages, options and behavior, and the
	// workload gets its share, within minReplicas and maxReplicas. The metrics must be the
	// fleet's. Absent: the workload is decided alone.
	// +optional
	// +kubebuilder:validation:MaxLength=800
	// +kubebuilder:validation:Pattern=`^clusters/[A-Za-z0-9._-]{1,253}/namespaces/[A-Za-z0-9._-]{1,253}/targets/[A-Za-z0-9._-]{1,253}$`
	Fleet string `json:"fleet,omitempty"`
	// Unreadable says why a spec that was stored could not be read; then all else is
	// empty. It is not part of the API.
	Unreadable string `json:"-"`
}

// AutoscalerStatus is the status of autoscaling/v2, and a short explanation.
type AutoscalerStatus struct {
	autoscalingv2.HorizontalPodAutoscalerStatus `json:",inline"`
	// reference is the workload that is scaled, kind and name, as `kubectl get` shows
	// it: "Deployment/web".
	// +optional
	Reference string `json:"reference,omitempty"`
	// targets are the current and target values of the first metrics, as `kubectl get`
	// shows them: "cpu: 63%/80%, 12/20".
	// +optional
	Targets string `json:"targets,omitempty"`
	// ready is what `kubectl get` shows of the conditions AbleToScale and ScalingActive:
	// "True" if both are, "False" if one of them is, otherwise "Unknown"; nothing
	// before they are there.
	// +optional
	Ready string `json:"ready,omitempty"`
	// explanation says in a sentence why the replicas are what they are.
	// +optional
	Explanation string `json:"explanation,omitempty"`
	// recommendationId names the decision in the service's log of decisions.
	// +optional
	RecommendationID string `json:"recommendationId,omitempty"`
}
