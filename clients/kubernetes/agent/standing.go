package agent

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// Standing is the relation of an autoscaler to the others of its namespace, for an agent that
// serves both sources.
type Standing struct {
	// Waits is why the agent does not scale the workload, because another autoscaler does. "":
	// the agent scales it.
	Waits string
	// Counted are the other autoscalers that must not select this one's pods: acting ones for
	// an acting one, shadows for a shadow. For an autoscaler that waits they are those that
	// would count if it acted.
	Counted []*autoscalingv2.HorizontalPodAutoscaler
}

// StandingOf returns the standing of a HorizontalPodAutoscaler or an Autoscaler among
// those of its namespace, which may include itself.
func StandingOf(stored client.Object, hpas []autoscalingv2.HorizontalPodAutoscaler, autoscalers []v1.Autoscaler) Standing {
	all := make([]*object, 0, len(hpas)+len(autoscalers))
	for i := range hpas {
		all = append(all, objectOfHPA(&hpas[i], settings{}))
	}
	for i := range autoscalers {
		all = append(all, objectOfAutoscaler(&autoscalers[i], settings{period: pace.MinPeriod}))
	}
	o := objectOf(stored)
	if o == nil {
		return Standing{}
	}
	standing := Standing{Waits: WaitsOf(stored, hpas, autoscalers)}
	for _, other := range all {
		switch {
		case other.key.Namespace != o.key.Namespace || other.key.Name == o.key.Name:
		case other.shadow != o.shadow || other.problem != nil || rivalOf(other, hpas, autoscalers, false) != "":
			// It is not evaluated, or not by the same reader.
		case standing.Waits != "" && sameTarget(other.autoscaler.Spec.ScaleTargetRef, o.autoscaler.Spec.ScaleTargetRef):
		default:
			standing.Counted = append(standing.Counted, other.autoscaler)
		}
	}
	return standing
}

// WaitsOf returns Standing.Waits.
func WaitsOf(stored client.Object, hpas []autoscalingv2.HorizontalPodAutoscaler, autoscalers []v1.Autoscaler) string {
	if o := objectOf(stored); o != nil {
		return rivalOf(o, hpas, autoscalers, false)
	}
	return ""
}

// ProblemOf returns what of a HorizontalPodAutoscaler or an Autoscaler keeps the agent from scaling it;
// nil: nothing.
func ProblemOf(stored client.Object) error {
	if o := objectOf(stored); o != nil {
		return o.problem
	}
	return nil
}

// RequestOf returns what the agent asks the service about a HorizontalPodAutoscaler or an Autoscaler that it
// scales, but for its names and the readings.
func RequestOf(stored client.Object) *setpointv1.RecommendRequest {
	o := objectOf(stored)
	return &setpointv1.RecommendRequest{Spec: kubernetes.SpecToProto(&o.autoscaler.Spec), Options: o.options, Stages: o.stages, Fleet: o.fleet}
}

func objectOf(stored client.Object) *object {
	switch stored := stored.(type) {
	case *v1.Autoscaler:
		return objectOfAutoscaler(stored, settings{period: pace.MinPeriod})
	case *autoscalingv2.HorizontalPodAutoscaler:
		return objectOfHPA(stored, settings{})
	}
	return nil
}

// rivalOf returns the autoscaler of the namespace that keeps the object from being scaled; "":
// none. A shadow has no rivals, as it only watches. Nor has a HorizontalPodAutoscaler: the
// built-in controller or this agent always acts on it. An Autoscaler gives way to a
// HorizontalPodAutoscaler and to an older Autoscaler. allShadows: no Autoscaler acts.
func rivalOf(o *object, hpas []autoscalingv2.HorizontalPodAutoscaler, autoscalers []v1.Autoscaler, allShadows bool) string {
	if o.shadow || sourceOf(o.key) != Autoscaler {
		return ""
	}
	target := o.autoscaler.Spec.ScaleTargetRef
	scales := ""
	for i := range hpas {
		hpa := &hpas[i]
		key := HPA.Key(hpa.Namespace, hpa.Name)
		switch {
		case hpa.Namespace != o.key.Namespace:
		case hpa.Name == o.key.Name:
			return key.String() + " has its name"
		case scales == "" && sameTarget(hpa.Spec.ScaleTargetRef, target):
			scales = key.String() + " scales " + referenceOf(o)
		}
	}
	if scales != "" || allShadows {
		return scales
	}
	for i := range autoscalers {
		other := &autoscalers[i]
		if other.Namespace == o.key.Namespace && other.Name != o.key.Name && !other.Spec.Shadow &&
			sameTarget(other.Spec.ScaleTargetRef, target) && isOlder(other, o.autoscaler) {
			return Autoscaler.Key(other.Namespace, other.Name).String() + ", which is older, scales " + referenceOf(o)
		}
	}
	return ""
}

// sameTarget compares the names first: doctor looks at each autoscaler beside each other one.
func sameTarget(a, b autoscalingv2.CrossVersionObjectReference) bool {
	return a.Name == b.Name && scaleTarget(a) == scaleTarget(b)
}
