package cluster

import (
	"context"
	"errors"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// errUnrecognized is upstream's error for a kind with no resource at all.
var errUnrecognized = errors.New("unrecognized resource")

// target is an autoscaler's scale target.
type target struct {
	resource schema.GroupResource
	scale    *autoscalingv1.Scale
}

// target reads the scale of an autoscaler's target in upstream's order.
func (r *Reader) target(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler) (target, *kubernetes.ScaleError) {
	resources, problem := r.resources(autoscaler.Spec.ScaleTargetRef)
	if problem != nil {
		return target{}, problem
	}
	first := errUnrecognized
	for i, resource := range resources {
		scale, err := r.getScale(ctx, resource, autoscaler.Namespace, autoscaler.Spec.ScaleTargetRef.Name)
		if err == nil {
			return target{resource, scale}, nil
		}
		if i == 0 {
			first = err
		}
	}
	return target{}, &kubernetes.ScaleError{Step: kubernetes.FailedGet, Message: messageOf(first)}
}

// resources returns the resources of a reference's kind, whatever its version, each
// once.
func (r *Reader) resources(ref autoscalingv2.CrossVersionObjectReference) ([]schema.GroupResource, *kubernetes.ScaleError) {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, &kubernetes.ScaleError{Step: kubernetes.InvalidAPIVersion, Message: messageOf(err)}
	}
	mappings, err := r.sources.Mapper.RESTMappings(schema.GroupKind{Group: version.Group, Kind: ref.Kind})
	if err != nil {
		return nil, &kubernetes.ScaleError{Step: kubernetes.UnknownKind, Message: messageOf(err)}
	}
	var out []schema.GroupResource
	for _, mapping := range mappings {
		if resource := mapping.Resource.GroupResource(); !slices.Contains(out, resource) {
			out = append(out, resource)
		}
	}
	return out, nil
}

// getScale reads a scale, within the timeout.
func (r *Reader) getScale(ctx context.Context, resource schema.GroupResource, namespace, name string) (*autoscalingv1.Scale, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if kept, ok := r.sources.Scales.(ScalesCache); ok {
		scale, cached, err := kept.GetCached(ctx, resource, namespace, name)
		if cached {
			r.tally.saved(ScaleGet)
		} else {
			r.tally.made(ScaleGet, err)
		}
		return scale, err
	}
	scale, err := r.sources.Scales.Get(ctx, resource, namespace, name)
	r.tally.made(ScaleGet, err)
	return scale, err
}
