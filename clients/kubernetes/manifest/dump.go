package manifest

import (
	"fmt"
	"io"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Dump collects the output of kubectl about one or more autoscalers and the workloads they
// scale. The zero value is an empty dump.
type Dump struct {
	// Namespace is the default namespace of autoscalers, as kubectl's --namespace. Empty:
	// "default". Set it before reading.
	Namespace string
	// Own includes Setpoint's own Autoscalers, among Autoscalers; Options returns their
	// options. Set it before reading.
	Own bool
	// Other reads an object that has neither apiVersion nor kind as an autoscaler and its
	// options, which may be nil. Nil: such an object is an error. Set it before reading.
	Other func(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, *setpointv1.RecommendOptions, error)
	// Beside, which may be nil, sees the objects that are no part of a snapshot. Set it before
	// reading.
	Beside func(kind schema.GroupVersionKind, namespace, name string, data []byte) error

	// The objects, in the order of reading; the caller may add more.
	Autoscalers     []*autoscalingv2.HorizontalPodAutoscaler
	Scales          []*autoscalingv1.Scale
	Pods            []*corev1.Pod
	PodMetrics      []metricsv1beta1.PodMetrics
	CustomMetrics   []customv1beta2.MetricValue
	ExternalMetrics []externalv1beta1.ExternalMetricValue

	// Ignored names the objects that are no part of a snapshot, for example "dump.yaml:
	// items[4]: Service (v1) shop/web".
	Ignored []string

	// file is the one that is being read.
	file string
	// workloads can stand in for a scale.
	workloads []workload
	// templates are those of the workloads. siblings are the places of those of one kind and namespace, and named that of
	// the first one of a name.
	templates []Template
	siblings  map[kindIn][]int
	named     map[nameIn]int
	// details are what autoscaling/v2 has no place for.
	details map[*autoscalingv2.HorizontalPodAutoscaler]detail
	// seenPods is the place of each pod, by namespace/name.
	seenPods map[string]string
}

// Read adds the objects of a file to the dump: single objects, a v1 List or typed lists
// (PodList, PodMetricsList, MetricValueList, …), in JSON or in one or more YAML documents.
// Deployments, StatefulSets, ReplicaSets and ReplicationControllers are read too: each can
// stand in for its scale.
//
// With parts, any other kind of object is an error. Without, the file may contain anything, and
// unused objects go to Ignored.
//
// Autoscalers are those of autoscaling/v2, v2beta2, v2beta1, v1 (with its annotations) or extensions/v1beta1. All
// become autoscaling/v2, converted as by the API server, but not defaulted; see [kubernetes.Defaults]. The custom
// metrics of v1.2, in an annotation of autoscaling/v1 and extensions/v1beta1, become Pods metrics; later API servers
// ignore them. The default namespace is "default". The fallback of an external metric (KEP-5679), for which its types
// have no place, is only in [Dump.Stages].
//
// In autoscalers an unknown field of spec is an error, as are violations that
// [kubernetes.Validate] finds; in all other objects unknown fields are ignored, because newer
// API servers add some. The error lists up to 20 problems, one a line, each with name, document
// and item. Objects without a problem are added nevertheless.
func (d *Dump) Read(name string, r io.Reader, parts ...Part) error {
	objects, err := readObjects(name, r)
	if err != nil {
		return err
	}
	d.file = name
	var found problems
	for _, o := range objects {
		found.add(o.where, d.add(o, parts))
	}
	return found.err()
}

// add adds one object to its part.
func (d *Dump) add(o object, parts []Part) error {
	route, known := routes[o.kind]
	switch {
	case d.Own && o.kind == ownKind:
		return readAutoscaler(decodeOwn)(d, o)
	case d.Other != nil && o.kind.Kind == "" && o.kind.Version == "":
		autoscaler, options, err := d.Other(o.data)
		if err == nil {
			d.addAutoscaler(autoscaler, o, detail{options: options})
		}
		return err
	}
	if len(parts) > 0 && (!known || !slices.Contains(parts, route.part)) {
		return fmt.Errorf("expected %s, found %s", expected(parts), o.describe())
	}
	switch {
	case known:
		return route.read(d, o)
	case o.kind.Kind == "" || o.kind.Version == "":
		return fmt.Errorf("expected a Kubernetes object, found %s", o.describe())
	case o.kind.Kind == autoscalerKind:
		// Leaving it out silently would hide that it is missing.
		return fmt.Errorf("expected %s, found %s", Autoscalers, o.describe())
	case d.Own && o.kind.Kind == ownKind.Kind && (o.kind.Group == autoscalingv2.GroupName || strings.HasSuffix(o.kind.Group, "setpoint.dev")): // others may have a kind of that name
		return fmt.Errorf("expected Autoscaler (%s), found %s", ownKind.GroupVersion(), o.describe())
	default:
		d.ignore(o)
		if d.Beside != nil {
			return d.Beside(o.kind, d.namespace(o.namespace), o.name, o.data)
		}
		return nil
	}
}

func (d *Dump) ignore(o object) {
	text := o.where + ": " + o.describe()
	switch {
	case o.namespace != "":
		text += " " + o.namespace + "/" + o.name
	case o.name != "":
		text += " " + o.name
	}
	d.Ignored = append(d.Ignored, text)
}

// namespace returns the namespace of an autoscaler, which may be empty.
func (d *Dump) namespace(named string) string {
	switch {
	case named != "":
		return named
	case d.Namespace != "":
		return d.Namespace
	default:
		return "default"
	}
}
