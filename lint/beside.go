//go:build !js

package lint

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
)

// besides are the objects of the files that do something to the pods of a workload.
type besides struct {
	// verticals and scaledObjects are those of a workload, by its keyOf.
	verticals     map[string][]Vertical
	scaledObjects map[string][]scaledObject
	// budgets are those of a namespace.
	budgets map[string][]budget
	// defaults are what the LimitRanges of a namespace give containers that don't say it.
	defaults map[string][]resources
}

// resources are quantities in milli-units by resource.
type resources struct{ requests, limits map[string]int64 }

// scaledObject is KEDA's, with the name of the autoscaler that KEDA makes of it.
type scaledObject struct{ name, autoscaler string }

type budget struct {
	Budget
	selector labels.Selector
}

// read takes in an object that is neither an autoscaler nor a workload.
func (b *besides) read(kind schema.GroupVersionKind, namespace, name string, data []byte) error {
	switch kind.GroupKind() {
	case schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}:
		return b.vertical(namespace, name, data)
	case schema.GroupKind{Group: "keda.sh", Kind: "ScaledObject"}:
		return b.scaledObject(namespace, name, data)
	case schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}:
		return b.budget(kind.Version, namespace, name, data)
	case schema.GroupKind{Kind: "LimitRange"}:
		return b.limitRange(namespace, data)
	}
	return nil
}

// limitRange takes in what the API server makes of one: a limit is by default the maximum, a request the limit or else the minimum.
func (b *besides) limitRange(namespace string, data []byte) error {
	var in corev1.LimitRange
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	for _, item := range in.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		given := resources{milliOf(item.DefaultRequest), milliOf(item.Default)}
		fill(given.limits, milliOf(item.Max))
		fill(given.requests, given.limits)
		fill(given.requests, milliOf(item.Min))
		if b.defaults == nil {
			b.defaults = make(map[string][]resources)
		}
		b.defaults[namespace] = append(b.defaults[namespace], given)
	}
	return nil
}

// fill adds what a container or a LimitRange does not say.
func fill(amounts, from map[string]int64) {
	for name, n := range from {
		if _, is := amounts[name]; !is {
			amounts[name] = n
		}
	}
}

func (b *besides) vertical(namespace, name string, data []byte) error {
	var in struct {
		Spec struct {
			TargetRef    autoscalingv2.CrossVersionObjectReference `json:"targetRef"`
			UpdatePolicy struct {
				UpdateMode string `json:"updateMode"`
			} `json:"updatePolicy"`
			ResourcePolicy struct {
				ContainerPolicies []verticalPolicy `json:"containerPolicies"`
			} `json:"resourcePolicy"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	mode := cmp.Or(in.Spec.UpdatePolicy.UpdateMode, "Auto")
	if mode == "Off" {
		return nil // it only recommends
	}
	key := keyOf(namespace, in.Spec.TargetRef, "")
	if b.verticals == nil {
		b.verticals = make(map[string][]Vertical)
	}
	b.verticals[key] = append(b.verticals[key], Vertical{name, mode, in.Spec.ResourcePolicy.ContainerPolicies})
	return nil
}

func (b *besides) scaledObject(namespace, name string, data []byte) error {
	var in struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			ScaleTargetRef autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
			Advanced       struct {
				Config struct {
					Name string `json:"name"`
				} `json:"horizontalPodAutoscalerConfig"`
			} `json:"advanced"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if pausedByKEDA(in.Metadata.Annotations) {
		return nil // KEDA has deleted its autoscaler
	}
	ref := in.Spec.ScaleTargetRef
	ref.APIVersion, ref.Kind = cmp.Or(ref.APIVersion, "apps/v1"), cmp.Or(ref.Kind, "Deployment")
	key := keyOf(namespace, ref, "")
	if b.scaledObjects == nil {
		b.scaledObjects = make(map[string][]scaledObject)
	}
	b.scaledObjects[key] = append(b.scaledObjects[key], scaledObject{name, cmp.Or(in.Spec.Advanced.Config.Name, "keda-hpa-"+name)})
	return nil
}

// pausedByKEDA reports whether a ScaledObject is paused. KEDA takes what is no boolean for true.
func pausedByKEDA(annotations map[string]string) bool {
	if annotations["autoscaling.keda.sh/paused-replicas"] != "" {
		return true
	}
	text, there := annotations["autoscaling.keda.sh/paused"]
	paused, err := strconv.ParseBool(text)
	return there && (paused || err != nil)
}

func (b *besides) budget(version, namespace, name string, data []byte) error {
	var in struct {
		Spec struct {
			MinAvailable   *intstr.IntOrString   `json:"minAvailable"`
			MaxUnavailable *intstr.IntOrString   `json:"maxUnavailable"`
			Selector       *metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(in.Spec.Selector)
	if err != nil || version == "v1beta1" && selector.Empty() {
		return err // which selected nothing there
	}
	out := budget{Budget{Name: name}, selector}
	switch {
	case in.Spec.MinAvailable != nil:
		out.Field, out.Amount = "minAvailable", in.Spec.MinAvailable.String()
	case in.Spec.MaxUnavailable != nil:
		out.Field, out.Amount = "maxUnavailable", in.Spec.MaxUnavailable.String()
	default:
		return nil // it says nothing
	}
	if b.budgets == nil {
		b.budgets = make(map[string][]budget)
	}
	b.budgets[namespace] = append(b.budgets[namespace], out)
	return nil
}

// of is what there is beside an autoscaler; template is its workload's, nil: not known.
func (b *besides) of(a *autoscalingv2.HorizontalPodAutoscaler, template *manifest.Template) Beside {
	key := targetOf(a)
	out := Beside{Verticals: b.verticals[key]}
	for _, s := range b.scaledObjects[key] {
		if s.autoscaler != a.Name && !slices.ContainsFunc(a.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ScaledObject" }) {
			out.ScaledObjects = append(out.ScaledObjects, s.name)
		}
	}
	for _, one := range b.budgets[a.Namespace] {
		if template != nil && one.selector.Matches(labels.Set(template.Labels)) {
			out.Budgets = append(out.Budgets, one.Budget)
		}
	}
	return out
}
