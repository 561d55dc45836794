package cluster

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

const (
	// maxWrites bounds the attempts to write a scale, and writePause is the time
	// between two: upstream's retry.DefaultRetry.
	maxWrites  = 5
	writePause = 10 * time.Millisecond
)

// MovedError means that someone else changed the replicas of a target after they were read, or
// created the target again, so that the decision no longer applies. Nothing was written; evaluate the
// autoscaler again.
type MovedError struct {
	// Resource and Name of the target.
	Resource schema.GroupResource
	Name     string
	// Was is spec.replicas at the decision, Now the current one.
	Was, Now int32
	// Recreated reports whether the target is another object of that name.
	Recreated bool
}

// Error names the target and both counts.
func (e *MovedError) Error() string {
	if e.Recreated {
		return fmt.Sprintf("%s %q was deleted and created again since it was read", e.Resource, e.Name)
	}
	return fmt.Sprintf("spec.replicas of %s %q was changed from %d to %d since it was read", e.Resource, e.Name, e.Was, e.Now)
}

// Apply writes replicas to the scale of a snapshot and returns the stored scale. It writes with
// the resource version that was read. If that is out of date it reads the scale again and
// retries while it is the same object and spec.replicas equals the snapshot's, five times at most.
//
// Errors: *MovedError if one of both differs; otherwise the API's own, which are upstream's
// words for a failed update.
func (r *Reader) Apply(ctx context.Context, snapshot *kubernetes.Snapshot, replicas int32) (*autoscalingv1.Scale, error) {
	resource, err := r.resourceOf(snapshot)
	if err != nil {
		return nil, err
	}
	scale := snapshot.Scale
	for attempt := 1; ; attempt++ {
		updated, err := r.updateScale(ctx, resource, scale, replicas)
		if err == nil || !apierrors.IsConflict(err) || attempt == maxWrites {
			return updated, err
		}
		if latest, getErr := r.getScale(ctx, resource, scale.Namespace, scale.Name); getErr == nil {
			scale = latest
		}
		was, recreated := snapshot.Scale.Spec.Replicas, scale.UID != snapshot.Scale.UID
		if scale.Spec.Replicas != was || recreated {
			return nil, &MovedError{Resource: resource, Name: scale.Name, Was: was, Now: scale.Spec.Replicas, Recreated: recreated}
		}
		select {
		case <-time.After(writePause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Replicas reads spec.replicas of a snapshot's target again. The error is a *MovedError if the target was created
// again since, otherwise the API's own.
func (r *Reader) Replicas(ctx context.Context, snapshot *kubernetes.Snapshot) (int32, error) {
	resource, err := r.resourceOf(snapshot)
	if err != nil {
		return 0, err
	}
	scale, err := r.getScale(ctx, resource, snapshot.Scale.Namespace, snapshot.Scale.Name)
	if err != nil {
		return 0, err
	}
	if scale.UID != snapshot.Scale.UID {
		return 0, &MovedError{Resource: resource, Name: scale.Name, Recreated: true}
	}
	return scale.Spec.Replicas, nil
}

// resourceOf returns the resource of the snapshot's target.
func (r *Reader) resourceOf(snapshot *kubernetes.Snapshot) (schema.GroupResource, error) {
	autoscaler := snapshot.Autoscaler
	switch {
	case autoscaler == nil:
		return schema.GroupResource{}, kubernetes.ErrNoAutoscaler
	case snapshot.Scale == nil:
		return schema.GroupResource{}, kubernetes.ErrNoScale
	}
	if !snapshot.Resource.Empty() {
		return snapshot.Resource, nil
	}
	resources, problem := r.resources(autoscaler.Spec.ScaleTargetRef)
	switch {
	case problem != nil:
		return schema.GroupResource{}, fmt.Errorf("%s", problem.Message)
	case len(resources) == 0:
		return schema.GroupResource{}, errUnrecognized
	}
	return resources[0], nil
}

// updateScale writes a scale with other replicas, within the timeout.
func (r *Reader) updateScale(ctx context.Context, resource schema.GroupResource, scale *autoscalingv1.Scale, replicas int32) (*autoscalingv1.Scale, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	wanted := scale.DeepCopy()
	wanted.Spec.Replicas = replicas
	updated, err := r.sources.Scales.Update(ctx, resource, wanted)
	r.tally.made(ScaleUpdate, err)
	return updated, err
}
