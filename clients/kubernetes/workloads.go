package kubernetes

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// workload is an object that can stand in for its Scale: the API server makes the
// scale subresource of these kinds from spec.replicas (absent: 1),
// status.replicas and spec.selector.
type workload struct {
	kind  schema.GroupKind
	scale *autoscalingv1.Scale
}

// decodeWorkload reads the JSON of one workload and returns its scale.
type decodeWorkload func(data []byte) (*autoscalingv1.Scale, error)

var workloadDecoders = map[schema.GroupVersionKind]decodeWorkload{
	appsv1.SchemeGroupVersion.WithKind("Deployment"):            decodeSelectorWorkload,
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"):           decodeSelectorWorkload,
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):            decodeSelectorWorkload,
	corev1.SchemeGroupVersion.WithKind("ReplicationController"): decodeReplicationController,
}

func readWorkload(decode decodeWorkload) func(*Dump, object) error {
	return func(d *Dump, o object) error {
		scale, err := decode(o.data)
		if err != nil {
			return err
		}
		d.workloads = append(d.workloads, workload{kind: o.kind.GroupKind(), scale: scale})
		return nil
	}
}

// replicated holds the fields of a workload that its scale is made of, whatever
// form its selector has.
type replicated[Selector any] struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32   `json:"replicas"`
		Selector Selector `json:"selector"`
	} `json:"spec"`
	Status struct {
		Replicas int32 `json:"replicas"`
	} `json:"status"`
}

func (r *replicated[Selector]) scale(selector labels.Selector) *autoscalingv1.Scale {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 1},
		Status:     autoscalingv1.ScaleStatus{Replicas: r.Status.Replicas, Selector: selector.String()},
	}
	if r.Spec.Replicas != nil {
		scale.Spec.Replicas = *r.Spec.Replicas
	}
	return scale
}

func decodeSelectorWorkload(data []byte) (*autoscalingv1.Scale, error) {
	var in replicated[*metav1.LabelSelector]
	if err := objectjson.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(in.Spec.Selector)
	if err != nil {
		return nil, err
	}
	return in.scale(selector), nil
}

func decodeReplicationController(data []byte) (*autoscalingv1.Scale, error) {
	var in replicated[map[string]string]
	if err := objectjson.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	return in.scale(labels.SelectorFromSet(in.Spec.Selector)), nil
}
