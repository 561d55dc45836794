package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// ownKind is Setpoint's own kind of autoscaler.
var ownKind = autoscalingv1.GroupVersion.WithKind("Autoscaler")

// strictOwn is an AutoscalerSpec with strictSpec's fallbacks.
type strictOwn struct {
	strictSpec        `json:",inline"`
	SyncPeriodSeconds *int32                 `json:"syncPeriodSeconds"`
	Shadow            bool                   `json:"shadow"`
	Options           *autoscalingv1.Options `json:"options"`
	Stages            *autoscalingv1.Stages  `json:"stages"`
	Fleet             string                 `json:"fleet"`
}

// decodeOwn reads an Autoscaler as a HorizontalPodAutoscaler and what else it has.
func decodeOwn(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, detail, error) {
	var in struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              json.RawMessage `json:"spec"`
		Status            json.RawMessage `json:"status"`
	}
	if err := objectjson.UnmarshalStrict(data, &in, "metadata"); err != nil {
		return nil, detail{}, err
	}
	// Decode the spec without the type's own UnmarshalJSON, which hides errors so that one bad
	// object does not hide the others of a list.
	var spec strictOwn
	if len(in.Spec) > 0 {
		if err := objectjson.UnmarshalStrict(in.Spec, &spec); err != nil {
			return nil, detail{}, fmt.Errorf("spec: %w", err)
		}
	}
	more := detail{version: autoscalingv1.GroupVersion.String(), options: spec.Options.ToProto(), period: spec.SyncPeriodSeconds, shadow: spec.Shadow, fleet: spec.Fleet, staged: true}
	stages, err := spec.Stages.ToProto()
	if err == nil {
		more.stages, more.fallbacks, err = withFallbacks(in.Spec, stages)
	}
	if err != nil {
		return nil, detail{}, err
	}
	out := newAutoscaler(in.ObjectMeta)
	out.Spec = spec.toV2()
	return out, more, nil
}

// detail is what an autoscaler of a dump has beside autoscaling/v2.
type detail struct {
	place place
	// version is that of the API before the conversion; empty: autoscaling/v2.
	version string
	options *setpointv1.RecommendOptions
	// period is the time between decisions that an Autoscaler asks for, s.
	period *int32
	// shadow: an Autoscaler that scales nothing.
	shadow bool
	// stages are those of a spec, nil for none, if staged; otherwise an annotation has them. fallbacks
	// is how many of their fallbacks, the last ones, are those of metrics.
	stages    *setpointv1.Stages
	staged    bool
	fallbacks int
	// fleet is that of an Autoscaler's spec; an HPA's annotation has its own.
	fleet string
}

// Version is the API version of one of Autoscalers before its conversion.
func (d *Dump) Version(a *autoscalingv2.HorizontalPodAutoscaler) string {
	return cmp.Or(d.details[a].version, autoscalingv2.SchemeGroupVersion.String())
}

// Options returns the options of one of the dump's Autoscalers. Nil: it has none, as every
// HorizontalPodAutoscaler.
func (d *Dump) Options(a *autoscalingv2.HorizontalPodAutoscaler) *setpointv1.RecommendOptions {
	return d.details[a].options
}

// Period returns the time between decisions that one of the dump's Autoscalers asks for. Nil: it says none.
func (d *Dump) Period(a *autoscalingv2.HorizontalPodAutoscaler) *durationpb.Duration {
	if seconds := d.details[a].period; seconds != nil {
		return durationpb.New(time.Duration(*seconds) * time.Second)
	}
	return nil
}

// Shadow reports whether one of the dump's Autoscalers scales nothing, because its spec says so.
func (d *Dump) Shadow(a *autoscalingv2.HorizontalPodAutoscaler) bool { return d.details[a].shadow }

// Stages returns the stages of one of the dump's autoscalers, of an Autoscaler its spec's and of a
// HorizontalPodAutoscaler its annotation's, with the fallbacks of the metrics. Nil: it has none. The error
// says where an annotation is wrong.
func (d *Dump) Stages(a *autoscalingv2.HorizontalPodAutoscaler) (*setpointv1.Stages, error) {
	if more := d.details[a]; more.staged {
		return more.stages, nil
	}
	return autoscalingv1.AnnotatedStages(a.Annotations)
}

// SpecFallbacks returns how many of the fallbacks of an autoscaler's Stages, the last ones, are those of metrics of its spec.
func (d *Dump) SpecFallbacks(a *autoscalingv2.HorizontalPodAutoscaler) int {
	return d.details[a].fallbacks
}

// Fleet returns the fleet that one of the dump's autoscalers is a member of, as its spec or its annotation
// says; empty: of none.
func (d *Dump) Fleet(a *autoscalingv2.HorizontalPodAutoscaler) (string, error) {
	if more := d.details[a]; more.version == autoscalingv1.GroupVersion.String() {
		return (&autoscalingv1.AutoscalerSpec{Fleet: more.fleet}).FleetName()
	}
	return autoscalingv1.AnnotatedFleet(a.Annotations)
}

// Place returns where one of the dump's autoscalers stands in its file: the number of the document, from 0, and the path in
// it, such as items[3]; empty: it is the document.
func (d *Dump) Place(a *autoscalingv2.HorizontalPodAutoscaler) (document int, path string) {
	at := d.details[a].place
	return at.document, at.path
}

// addAutoscaler adds the autoscaler that an object is, and what else it has.
func (d *Dump) addAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler, o object, more detail) {
	more.place = o.place
	if d.details == nil {
		d.details = map[*autoscalingv2.HorizontalPodAutoscaler]detail{}
	}
	d.Autoscalers, d.details[a] = append(d.Autoscalers, a), more
}
