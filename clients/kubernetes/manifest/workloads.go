package manifest

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// The API groups of workloads, defined here: importing the types of all versions for the
// constants alone would compile them.
var (
	appsV1            = schema.GroupVersion{Group: "apps", Version: "v1"}
	appsV1beta1       = schema.GroupVersion{Group: "apps", Version: "v1beta1"}
	appsV1beta2       = schema.GroupVersion{Group: "apps", Version: "v1beta2"}
	extensionsV1beta1 = schema.GroupVersion{Group: "extensions", Version: "v1beta1"}
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
	appsV1.WithKind("Deployment"):                               decodeSelectorWorkload,
	appsV1.WithKind("StatefulSet"):                              decodeSelectorWorkload,
	appsV1.WithKind("ReplicaSet"):                               decodeSelectorWorkload,
	corev1.SchemeGroupVersion.WithKind("ReplicationController"): decodeReplicationController,

	appsV1beta2.WithKind("Deployment"):       decodeSelectorWorkload,
	appsV1beta2.WithKind("StatefulSet"):      decodeSelectorWorkload,
	appsV1beta2.WithKind("ReplicaSet"):       decodeSelectorWorkload,
	appsV1beta1.WithKind("Deployment"):       decodeDefaultedWorkload,
	appsV1beta1.WithKind("StatefulSet"):      decodeDefaultedWorkload,
	extensionsV1beta1.WithKind("Deployment"): decodeDefaultedWorkload,
	extensionsV1beta1.WithKind("ReplicaSet"): decodeDefaultedWorkload,
}

// sameKind reports whether two names mean the same kind: Deployments and ReplicaSets moved from
// the group extensions to apps, and some clusters had both.
func sameKind(a, b schema.GroupKind) bool { return inApps(a) == inApps(b) }

func inApps(kind schema.GroupKind) schema.GroupKind {
	if kind.Group == extensionsV1beta1.Group && (kind.Kind == "Deployment" || kind.Kind == "ReplicaSet") {
		kind.Group = appsV1.Group
	}
	return kind
}

// oldScale is the Scale of the workloads' own groups, before autoscaling/v1 defined one for
// all: its selector is a map, or a string in another field for selectors that don't fit into a
// map.
type oldScale struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas int32 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Replicas       int32             `json:"replicas"`
		Selector       map[string]string `json:"selector"`
		TargetSelector string            `json:"targetSelector"`
	} `json:"status"`
}

// oldScales are the versions of oldScale.
var oldScales = []schema.GroupVersion{appsV1beta1, appsV1beta2, extensionsV1beta1}

func readOldScale(d *Dump, o object) error {
	var in oldScale
	if err := objectjson.Unmarshal(o.data, &in); err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: in.ObjectMeta,
		Spec:       autoscalingv1.ScaleSpec{Replicas: in.Spec.Replicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: in.Status.Replicas, Selector: in.Status.TargetSelector},
	}
	if scale.Status.Selector == "" && len(in.Status.Selector) > 0 {
		scale.Status.Selector = labels.SelectorFromSet(in.Status.Selector).String()
	}
	d.Scales = append(d.Scales, scale)
	return nil
}

// Template is the pod template of a workload.
type Template struct {
	// File is the name of the file that has it.
	File string
	// Kind, Namespace and Name are the workload's.
	Kind            schema.GroupKind
	Namespace, Name string
	// Replicas is spec.replicas, nil if omitted.
	Replicas *int32
	// Applied reports whether the object comes from a cluster rather than from a manifest: it
	// has a UID.
	Applied bool
	// Requests are those of the whole pod, instead of its containers'; nil: none.
	Requests corev1.ResourceList
	// Selector is spec.selector in the form of kubectl's -l, and Labels those of spec.template.
	Selector string
	Labels   map[string]string
	// MaxSurge of a Deployment's rolling update: a count, a percentage, empty: 25%, which is
	// the API's default. 0 for strategies that replace no pod before it is gone.
	MaxSurge string
	// Containers are those of spec.template, and Sidecars its init containers that keep running
	// (restartPolicy Always). Other init containers have finished when a pod is ready.
	Containers, Sidecars []TemplateContainer
}

// TemplateContainer is a container of a workload's template.
type TemplateContainer struct {
	Name          string                        `json:"name"`
	RestartPolicy corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Resources     struct {
		Requests corev1.ResourceList `json:"requests"`
		Limits   corev1.ResourceList `json:"limits"`
	} `json:"resources"`
	StartupProbe   *Probe `json:"startupProbe"`
	ReadinessProbe *Probe `json:"readinessProbe"`
}

// Probe is one of a container's.
type Probe struct {
	InitialDelaySeconds int32 `json:"initialDelaySeconds"`
}

// ReadyAfter is how long after its start a pod is ready at the soonest: no probe of a container
// succeeds before its delay.
func (t *Template) ReadyAfter() time.Duration {
	longest := int32(0)
	for _, c := range slices.Concat(t.Containers, t.Sidecars) {
		for _, p := range []*Probe{c.StartupProbe, c.ReadinessProbe} {
			if p != nil {
				longest = max(longest, p.InitialDelaySeconds)
			}
		}
	}
	return time.Duration(longest) * time.Second
}

// kindIn is a kind in a namespace, and nameIn a workload.
type kindIn struct {
	kind      schema.GroupKind
	namespace string
}

type nameIn struct {
	kindIn
	name string
}

// targetOf is what an autoscaler scales.
func targetOf(a *autoscalingv2.HorizontalPodAutoscaler) nameIn {
	ref := a.Spec.ScaleTargetRef
	return nameIn{kindIn{inApps(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()), a.Namespace}, ref.Name}
}

// Template returns the pod template of the workload that an autoscaler scales; nil: the dump
// lacks it.
func (d *Dump) Template(a *autoscalingv2.HorizontalPodAutoscaler) *Template {
	if place, has := d.named[targetOf(a)]; has {
		return &d.templates[place]
	}
	return nil
}

// Siblings are the templates of the workloads that have the kind and the namespace of an
// autoscaler's target.
func (d *Dump) Siblings(a *autoscalingv2.HorizontalPodAutoscaler) iter.Seq[*Template] {
	return func(yield func(*Template) bool) {
		for _, place := range d.siblings[targetOf(a).kindIn] {
			if !yield(&d.templates[place]) {
				return
			}
		}
	}
}

// addTemplate adds the template of a workload.
func (d *Dump) addTemplate(t *Template) {
	if d.named == nil {
		d.siblings, d.named = make(map[kindIn][]int), make(map[nameIn]int)
	}
	in, place := kindIn{inApps(t.Kind), d.namespace(t.Namespace)}, len(d.templates)
	d.siblings[in] = append(d.siblings[in], place)
	if _, twice := d.named[nameIn{in, t.Name}]; !twice {
		d.named[nameIn{in, t.Name}] = place
	}
	d.templates = append(d.templates, *t)
}

func readTemplate(d *Dump, o object, selector string) error {
	var in struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			Replicas *int32 `json:"replicas"`
			Strategy struct {
				Type          string `json:"type"`
				RollingUpdate struct {
					MaxSurge *intstr.IntOrString `json:"maxSurge"`
				} `json:"rollingUpdate"`
			} `json:"strategy"`
			Template struct {
				Metadata struct {
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
				Spec struct {
					Containers     []TemplateContainer `json:"containers"`
					InitContainers []TemplateContainer `json:"initContainers"`
					Resources      struct {
						Requests corev1.ResourceList `json:"requests"`
					} `json:"resources"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := objectjson.Unmarshal(o.data, &in); err != nil {
		return err
	}
	surge := ""
	switch strategy := &in.Spec.Strategy; {
	case strategy.Type == "Recreate" || o.kind.Kind != "Deployment":
		surge = "0"
	case strategy.RollingUpdate.MaxSurge != nil:
		surge = strategy.RollingUpdate.MaxSurge.String()
	}
	d.addTemplate(&Template{
		File: d.file, Selector: selector, Labels: in.Spec.Template.Metadata.Labels, MaxSurge: surge,
		Kind: o.kind.GroupKind(), Namespace: o.namespace, Name: o.name,
		Replicas: in.Spec.Replicas, Applied: in.Metadata.UID != "",
		Requests: in.Spec.Template.Spec.Resources.Requests, Containers: in.Spec.Template.Spec.Containers,
		Sidecars: slices.DeleteFunc(in.Spec.Template.Spec.InitContainers, func(c TemplateContainer) bool { return c.RestartPolicy != corev1.ContainerRestartPolicyAlways }),
	})
	return nil
}

func readWorkload(decode decodeWorkload) func(*Dump, object) error {
	return func(d *Dump, o object) error {
		scale, err := decode(o.data)
		if err != nil {
			return err
		}
		if err := readTemplate(d, o, scale.Status.Selector); err != nil {
			return err
		}
		d.workloads = append(d.workloads, workload{kind: o.kind.GroupKind(), scale: scale})
		return nil
	}
}

// replicated has the fields of a workload that make up its scale, whatever form its selector
// has.
type replicated[Selector any] struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32   `json:"replicas"`
		Selector Selector `json:"selector"`
		Template struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		} `json:"template"`
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

// decodeDefaultedWorkload is decodeSelectorWorkload for versions in which the selector defaults
// to the labels of the template.
func decodeDefaultedWorkload(data []byte) (*autoscalingv1.Scale, error) {
	var in replicated[json.RawMessage]
	if err := objectjson.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	if len(in.Spec.Selector) > 0 && string(in.Spec.Selector) != "null" {
		return decodeSelectorWorkload(data)
	}
	if len(in.Spec.Template.Metadata.Labels) == 0 {
		return nil, fmt.Errorf("spec.selector: Required value: there are no labels of spec.template to take in its place")
	}
	return in.scale(labels.SelectorFromSet(in.Spec.Template.Metadata.Labels)), nil
}

func decodeReplicationController(data []byte) (*autoscalingv1.Scale, error) {
	var in replicated[map[string]string]
	if err := objectjson.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	return in.scale(labels.SelectorFromSet(in.Spec.Selector)), nil
}
