package kubernetes

import (
	"cmp"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// ScaleStep is a step of reading a target's scale.
type ScaleStep string

// The steps, in their order.
const (
	// InvalidAPIVersion: parsing the scale target's apiVersion.
	InvalidAPIVersion ScaleStep = "InvalidAPIVersion"
	// UnknownKind: finding the resource for its kind.
	UnknownKind ScaleStep = "UnknownKind"
	// FailedGet: reading the scale subresource.
	FailedGet ScaleStep = "FailedGet"
)

// ScaleError is why a scale could not be read.
type ScaleError struct {
	// Step that failed. Empty: FailedGet.
	Step ScaleStep
	// Message of the error, for example `deployments.apps "web" not found`.
	Message string
}

// scaleError returns the first failed step, nil if none failed: the API version and the kind
// are checked before the scale is read.
func (s *Snapshot) scaleError() *setpointv1.ScaleError {
	ref := s.Autoscaler.Spec.ScaleTargetRef
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return scaleErrorToProto(InvalidAPIVersion, err.Error())
	}
	if s.Kinds != nil {
		if err := s.Kinds(schema.GroupKind{Group: version.Group, Kind: ref.Kind}); err != nil {
			return scaleErrorToProto(UnknownKind, err.Error())
		}
	}
	if s.ScaleError == nil {
		return nil
	}
	return scaleErrorToProto(s.ScaleError.Step, s.ScaleError.Message)
}

func scaleErrorToProto(step ScaleStep, message string) *setpointv1.ScaleError {
	step = cmp.Or(step, FailedGet)
	if message == "" {
		// The service requires a message; only the step is known.
		message = string(step)
	}
	return &setpointv1.ScaleError{Reason: string(step), Message: message}
}

func scaleToProto(scale *autoscalingv1.Scale) *setpointv1.Scale {
	return &setpointv1.Scale{
		SpecReplicas:   scale.Spec.Replicas,
		StatusReplicas: &scale.Status.Replicas,
		Selector:       scale.Status.Selector,
	}
}
