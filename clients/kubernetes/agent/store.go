package agent

import (
	"context"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// objects reads the cluster's autoscalers and writes their statuses.
type objects interface {
	// get returns an object; NotFound if it does not exist.
	get(ctx context.Context, key Key) (*object, error)
	// writeStatus writes the status of an object and returns the stored object.
	writeStatus(ctx context.Context, over client.Object, status *statusUpdate) (client.Object, error)
	// rival returns the autoscaler that keeps the object from being scaled; "": none.
	rival(ctx context.Context, o *object) (string, error)
	// native returns the HorizontalPodAutoscaler that scales a shadow's workload, nil if none
	// does.
	native(ctx context.Context, o *object) (*autoscalingv2.HorizontalPodAutoscaler, error)
}

// statusUpdate is a status to write.
type statusUpdate struct {
	status *autoscalingv2.HorizontalPodAutoscalerStatus
	// explanation and recommendation are stored for Autoscalers only.
	explanation, recommendation string
	// readings are the metrics that `kubectl get` shows of an Autoscaler instead of the status'
	// own, if shown.
	shown    bool
	readings []autoscalingv2.MetricStatus
}

// store reads objects from the informers' cache and writes to the API.
type store struct {
	client   client.Client
	settings settings
	sources  map[Source]bool
}

// targetIndex finds autoscalers by their scale target.
const targetIndex = "setpoint.scaleTargetRef"

// scaleTarget returns the index key of a reference of autoscaling/v2, without the API version.
func scaleTarget(ref autoscalingv2.CrossVersionObjectReference) string {
	group := ref.APIVersion
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil {
		group = gv.Group
	}
	return group + "/" + ref.Kind + "/" + ref.Name
}

func indexHPA(o client.Object) []string {
	if hpa, ok := o.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		return []string{scaleTarget(hpa.Spec.ScaleTargetRef)}
	}
	return nil
}

func indexAutoscaler(o client.Object) []string {
	if a, ok := o.(*v1.Autoscaler); ok {
		return []string{scaleTarget(a.Spec.ScaleTargetRef)}
	}
	return nil
}

// get implements objects.
func (s *store) get(ctx context.Context, key Key) (*object, error) {
	if sourceOf(key) == Autoscaler {
		stored := &v1.Autoscaler{}
		if err := s.client.Get(ctx, nameOf(key), stored); err != nil {
			return nil, err
		}
		return objectOfAutoscaler(stored, s.settings), nil
	}
	stored := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := s.client.Get(ctx, nameOf(key), stored); err != nil {
		return nil, err
	}
	return objectOfHPA(stored, s.settings), nil
}

// writeStatus implements objects.
func (s *store) writeStatus(ctx context.Context, over client.Object, update *statusUpdate) (client.Object, error) {
	next := withStatus(over, update)
	return next, s.client.Status().Update(ctx, next, client.FieldOwner(fieldManager))
}

// withStatus returns a copy of a stored object with another status.
func withStatus(over client.Object, update *statusUpdate) client.Object {
	switch over := over.(type) {
	case *v1.Autoscaler:
		next := over.DeepCopy()
		next.SetHorizontalPodAutoscalerStatus(update.status)
		if update.shown {
			next.Status.Targets = v1.Targets(next.Spec.Metrics, update.readings)
		}
		next.Status.Explanation, next.Status.RecommendationID = update.explanation, update.recommendation
		return next
	case *autoscalingv2.HorizontalPodAutoscaler:
		next := over.DeepCopy()
		next.ManagedFields = nil // the cache has a part of them; the API server keeps all
		next.Status = *update.status.DeepCopy()
		return next
	}
	return over
}

// statusOf returns the part of a stored object's status that autoscaling/v2 has.
func statusOf(stored client.Object) *autoscalingv2.HorizontalPodAutoscalerStatus {
	switch stored := stored.(type) {
	case *v1.Autoscaler:
		return &stored.Status.HorizontalPodAutoscalerStatus
	case *autoscalingv2.HorizontalPodAutoscaler:
		return &stored.Status
	}
	return &autoscalingv2.HorizontalPodAutoscalerStatus{}
}

// rival implements objects.
func (s *store) rival(ctx context.Context, o *object) (string, error) {
	if sourceOf(o.key) != Autoscaler {
		return "", nil
	}
	ofTarget := []client.ListOption{
		client.InNamespace(o.key.Namespace),
		client.MatchingFields{targetIndex: scaleTarget(o.autoscaler.Spec.ScaleTargetRef)}, client.UnsafeDisableDeepCopy,
	}
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := s.client.List(ctx, &hpas, ofTarget...); err != nil {
		return "", err
	}
	var namesake autoscalingv2.HorizontalPodAutoscaler
	switch err := s.client.Get(ctx, nameOf(HPA.Key(o.key.Namespace, o.key.Name)), &namesake); {
	case err == nil:
		hpas.Items = append(hpas.Items, namesake)
	case client.IgnoreNotFound(err) != nil:
		return "", err
	}
	var autoscalers v1.AutoscalerList
	if err := s.client.List(ctx, &autoscalers, ofTarget...); err != nil {
		return "", err
	}
	return rivalOf(o, hpas.Items, autoscalers.Items, s.settings.shadow), nil
}

// native implements objects.
func (s *store) native(ctx context.Context, o *object) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	if sourceOf(o.key) == HPA {
		return o.autoscaler, nil
	}
	var list autoscalingv2.HorizontalPodAutoscalerList
	err := s.client.List(ctx, &list, client.InNamespace(o.key.Namespace),
		client.MatchingFields{targetIndex: scaleTarget(o.autoscaler.Spec.ScaleTargetRef)}, client.UnsafeDisableDeepCopy)
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// isOlder orders objects by age, and those of one second by name.
func isOlder(a, b client.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if at.Equal(&bt) {
		return a.GetName() < b.GetName()
	}
	return at.Before(&bt)
}

// referenceOf names the workload that an object scales, for messages.
func referenceOf(o *object) string {
	ref := o.autoscaler.Spec.ScaleTargetRef
	return ref.Kind + " " + o.key.Namespace + "/" + ref.Name
}
