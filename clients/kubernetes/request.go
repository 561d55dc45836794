package kubernetes

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// ErrNoAutoscaler is returned for a snapshot without an autoscaler.
var ErrNoAutoscaler = errors.New("no HorizontalPodAutoscaler")

// ErrNoScale is wrapped in the error for a snapshot that has neither a scale nor
// the reason why not.
var ErrNoScale = errors.New("no scale")

// Request returns the request that asks about the snapshot's autoscaler as a
// target of cluster. Options, evaluation time, request id, dry run and explain
// are left to the caller. Of what the snapshot holds it carries what the upstream
// controller would have read: nothing but the error when the scale can't be read,
// and neither pods nor resource usage when the selector is missing or does not
// parse. The request shares maps and numbers with the objects: change neither
// while it is in use.
//
// Errors: ErrNoAutoscaler, ErrNoScale, and parts of the target's name that
// [TargetName] refuses. What is wrong with the values is the service's to say.
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
	if generation := s.Autoscaler.Generation; generation >= 0 { // which API servers see to
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

// fillPods adds the pods and their usage, or why they can't be chosen.
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
