package kubernetes

import (
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// ErrNoAutoscaler is returned for a snapshot without an autoscaler.
var ErrNoAutoscaler = errors.New("no HorizontalPodAutoscaler")

// ErrNoScale is wrapped in the error for a snapshot that has neither a scale nor the reason for
// its absence.
var ErrNoScale = errors.New("no scale")

// Request returns the request for the snapshot's autoscaler as a target of cluster. The caller
// sets options, stages, evaluation time, request id, dry run and explain. The request has only
// what the upstream controller would have read: nothing but the error if the scale can't be read,
// and neither pods nor resource usage if the selector is missing or invalid. It shares maps and
// numbers with the objects: change neither while it is in use.
//
// Errors: ErrNoAutoscaler, ErrNoScale, and parts of the target's name that [TargetName]
// refuses. The service validates the values.
func (s *Snapshot) Request(cluster string) (*setpointv1.RecommendRequest, error) {
	if s.Autoscaler == nil {
		return nil, ErrNoAutoscaler
	}
	target, err := TargetName(cluster, s.Autoscaler.Namespace, s.Autoscaler.Name)
	if err != nil {
		return nil, err
	}
	request := &setpointv1.RecommendRequest{
		Target:         target,
		Spec:           SpecToProto(&s.Autoscaler.Spec),
		PreviousStatus: previousStatus(&s.Autoscaler.Status),
	}
	if generation := s.Autoscaler.Generation; generation >= 0 { // API servers guarantee it
		request.Generation = &generation
	}
	if request.ScaleError = s.scaleError(); request.ScaleError != nil {
		return request, nil
	}
	if s.Scale == nil {
		ref := s.Autoscaler.Spec.ScaleTargetRef
		return nil, fmt.Errorf("%w of %s %s/%s", ErrNoScale, ref.Kind, s.Autoscaler.Namespace, ref.Name)
	}
	request.Scale = scaleToProto(s.Scale)
	s.fillPods(request)
	s.fillMetrics(request)
	return request, nil
}

// previousStatus converts the stored status of an autoscaler; nil if it was never evaluated.
func previousStatus(status *autoscalingv2.HorizontalPodAutoscalerStatus) *setpointv1.HorizontalPodAutoscalerStatus {
	if equality.Semantic.DeepEqual(*status, autoscalingv2.HorizontalPodAutoscalerStatus{}) {
		return nil
	}
	return StatusToProto(status)
}

// fillPods adds the pods and their usage, or why the pods can't be selected.
func (s *Snapshot) fillPods(request *setpointv1.RecommendRequest) {
	var selector labels.Selector
	selector, request.SelectorProblem = parseSelector(s.Scale.Status.Selector)
	if request.SelectorProblem != nil {
		return
	}
	pods := s.selectedPods(selector)
	request.SelectorProblem = s.ambiguity(pods)
	request.Pods = podsToProto(pods)
	request.PodMetrics = s.podMetrics(selector)
}

// fillMetrics adds the readings and errors that concern the spec's metrics.
func (s *Snapshot) fillMetrics(request *setpointv1.RecommendRequest) {
	spec := lookupsOf(s.Autoscaler.Spec.Metrics)
	request.CustomMetrics = s.customMetrics(spec)
	request.ExternalMetrics = s.externalMetrics(spec)
	request.MetricErrors = s.metricErrors(spec)
}
