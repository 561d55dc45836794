package manifest

import (
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// ErrSeveralAutoscalers is returned by Snapshot when the reference does not choose one.
var ErrSeveralAutoscalers = errors.New("several HorizontalPodAutoscalers to choose from")

// namedAutoscalers limits how many of them an error names.
const namedAutoscalers = 10

// Snapshot returns the snapshot of one autoscaler, "namespace/name" or, if unambiguous, "name";
// "" if the dump has only one. The scale is the Scale of that namespace and name, otherwise
// that of the workload that the autoscaler points to, otherwise nil. Autoscalers whose scales
// are also in the dump take part in the check for shared pods.
//
// A dump may contain more or less than the metrics APIs would have returned for this
// autoscaler. Snapshot drops custom values of pods that are listed but not selected; PodMetrics
// without labels, as of some metrics servers, get those of their pod.
//
// Errors: kubernetes.ErrNoAutoscaler, ErrSeveralAutoscalers, several Scales of the name.
func (d *Dump) Snapshot(autoscaler string) (*kubernetes.Snapshot, error) {
	chosen, err := d.autoscaler(autoscaler)
	if err != nil {
		return nil, err
	}
	scale, err := d.scaleOf(chosen)
	if err != nil {
		return nil, err
	}
	snapshot := &kubernetes.Snapshot{
		Autoscaler: chosen,
		Scale:      scale,
		Pods:       d.Pods,
		PodMetrics: d.labelledPodMetrics(),
		Others:     d.others(chosen),
	}
	snapshot.CustomMetrics = snapshot.Selected(d.CustomMetrics)
	for _, series := range d.ExternalMetrics {
		snapshot.ExternalMetrics = append(snapshot.ExternalMetrics, kubernetes.ExternalMetric{ExternalMetricValue: series})
	}
	return snapshot, nil
}

// autoscaler finds an autoscaler by its reference.
func (d *Dump) autoscaler(reference string) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	var found []*autoscalingv2.HorizontalPodAutoscaler
	var keys []string
	for _, autoscaler := range d.Autoscalers {
		key := autoscaler.Namespace + "/" + autoscaler.Name
		if reference == "" || reference == key || reference == autoscaler.Name {
			found = append(found, autoscaler)
			keys = append(keys, key)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%w: %s", ErrSeveralAutoscalers, printable.Some(keys, namedAutoscalers))
	case reference == "":
		return nil, kubernetes.ErrNoAutoscaler
	default:
		return nil, fmt.Errorf("%w %q", kubernetes.ErrNoAutoscaler, reference)
	}
}

// scaleOf finds the scale of autoscaler's target, nil if there is none: a Scale of its name, a
// hand-written Scale without a name, or a workload.
func (d *Dump) scaleOf(autoscaler *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv1.Scale, error) {
	name := autoscaler.Spec.ScaleTargetRef.Name
	for _, wanted := range []string{name, ""} {
		scales := d.scalesNamed(wanted, autoscaler.Namespace)
		switch len(scales) {
		case 0:
			continue
		case 1:
			return scales[0], nil
		default:
			// A Scale does not name the kind of its object.
			return nil, fmt.Errorf("%d Scales could be that of %s/%s", len(scales), autoscaler.Namespace, name)
		}
	}
	return d.workloadScale(autoscaler), nil
}

// scalesNamed returns the Scales of name in namespace; both match a Scale that omits its
// namespace.
func (d *Dump) scalesNamed(name, namespace string) []*autoscalingv1.Scale {
	var out []*autoscalingv1.Scale
	for _, scale := range d.Scales {
		if scale.Name == name && (scale.Namespace == "" || scale.Namespace == namespace) {
			out = append(out, scale)
		}
	}
	return out
}

// workloadScale returns the scale of the workload that autoscaler points to, nil if the dump
// lacks it.
func (d *Dump) workloadScale(autoscaler *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.Scale {
	ref := autoscaler.Spec.ScaleTargetRef
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	for _, workload := range d.workloads {
		scale := workload.scale
		if sameKind(workload.kind, kind) && scale.Name == ref.Name &&
			(scale.Namespace == "" || scale.Namespace == autoscaler.Namespace) {
			return scale
		}
	}
	return nil
}

// others lists the other autoscalers with a known selector.
func (d *Dump) others(chosen *autoscalingv2.HorizontalPodAutoscaler) []kubernetes.OtherAutoscaler {
	var out []kubernetes.OtherAutoscaler
	for _, other := range d.Autoscalers {
		if other == chosen {
			continue
		}
		scale, err := d.scaleOf(other)
		if err != nil || scale == nil || scale.Name == "" {
			// A Scale without a name is the chosen one's.
			continue
		}
		out = append(out, kubernetes.OtherAutoscaler{
			Namespace: other.Namespace, Name: other.Name, Selector: scale.Status.Selector,
		})
	}
	return out
}
