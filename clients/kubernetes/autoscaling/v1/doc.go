// Package v1 is the API group autoscaling.setpoint.dev/v1: the [Autoscaler], for clusters where
// the built-in controller acts on every HorizontalPodAutoscaler and can't be switched off.
//
// An Autoscaler's spec is the spec of autoscaling/v2 with fields of ours beside it, and its
// status is that of autoscaling/v2 with a short explanation:
//
//	err := autoscalingv1.AddToScheme(scheme)      // for any client that takes a scheme
//	hpa := autoscaler.HorizontalPodAutoscaler()   // what package kubernetes reads
//	options := autoscaler.Spec.Options.ToProto()  // and what to ask with
//	autoscaler.SetHorizontalPodAutoscalerStatus(&hpa.Status)
//
// The package has types and conversions. It validates nothing: the API server applies the rules
// of the CustomResourceDefinition (deploy/kustomize/crd), and the service validates the values
// of each request.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.setpoint.dev
package v1
