package manifest

import (
	"encoding/json"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// ownKind is Setpoint's own kind of autoscaler.
var ownKind = autoscalingv1.GroupVersion.WithKind("Autoscaler")

// own is what an Autoscaler has beside a HorizontalPodAutoscaler; nil: it has none.
type own struct {
	options *setpointv1.RecommendOptions
	stages  *setpointv1.Stages
	fleet   string
	// fallbacks is how many of these are the spec's metrics'.
	fallbacks int
}

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
func decodeOwn(data []byte) (out *autoscalingv2.HorizontalPodAutoscaler, more own, err error) {
	var in struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              json.RawMessage `json:"spec"`
		Status            json.RawMessage `json:"status"`
	}
	if err := objectjson.UnmarshalStrict(data, &in, "metadata"); err != nil {
		return nil, own{}, err
	}
	// Decode the spec without the type's own UnmarshalJSON, which hides errors so that one bad
	// object does not hide the others of a list.
	var spec strictOwn
	if len(in.Spec) > 0 {
		if err := objectjson.UnmarshalStrict(in.Spec, &spec); err != nil {
			return nil, own{}, fmt.Errorf("spec: %w", err)
		}
	}
	if more.stages, err = spec.Stages.ToProto(); err == nil {
		more.stages, more.fallbacks, err = withFallbacks(in.Spec, more.stages)
	}
	if err != nil {
		return nil, own{}, err
	}
	more.options, more.fleet = spec.Options.ToProto(), spec.Fleet
	out = newAutoscaler(in.ObjectMeta)
	out.Spec = spec.toV2()
	return out, more, nil
}

// readOwn adds an Autoscaler to the dump.
func readOwn(d *Dump, o object) error {
	var more own
	err := readAutoscaler(func(data []byte) (out *autoscalingv2.HorizontalPodAutoscaler, err error) {
		out, more, err = decodeOwn(data)
		return out, err
	})(d, o)
	if err != nil {
		return err
	}
	d.setOptions(more.options)
	d.setStages(more.stages, more.fallbacks)
	if more.fleet != "" {
		if d.fleets == nil {
			d.fleets = make(map[*autoscalingv2.HorizontalPodAutoscaler]string)
		}
		d.fleets[d.Autoscalers[len(d.Autoscalers)-1]] = more.fleet
	}
	return nil
}

// setStages keeps the stages of the autoscaler that was added last, and how many of their fallbacks are its metrics'.
func (d *Dump) setStages(stages *setpointv1.Stages, fallbacks int) {
	if d.stages == nil {
		d.stages = make(map[*autoscalingv2.HorizontalPodAutoscaler]*setpointv1.Stages)
		d.fallbacks = make(map[*autoscalingv2.HorizontalPodAutoscaler]int)
	}
	if fallbacks > 0 {
		d.fallbacks[d.Autoscalers[len(d.Autoscalers)-1]] = fallbacks
	}
	d.stages[d.Autoscalers[len(d.Autoscalers)-1]] = stages
}

// setOptions keeps the options of the autoscaler that was added last.
func (d *Dump) setOptions(options *setpointv1.RecommendOptions) {
	if options == nil {
		return
	}
	if d.options == nil {
		d.options = make(map[*autoscalingv2.HorizontalPodAutoscaler]*setpointv1.RecommendOptions)
	}
	d.options[d.Autoscalers[len(d.Autoscalers)-1]] = options
}

// Options returns the options of one of the dump's Autoscalers. Nil: it has none, as every
// HorizontalPodAutoscaler.
func (d *Dump) Options(a *autoscalingv2.HorizontalPodAutoscaler) *setpointv1.RecommendOptions {
	return d.options[a]
}

// Stages returns the stages of one of the dump's autoscalers, of an Autoscaler its spec's and of a
// HorizontalPodAutoscaler its annotation's, with the fallbacks of the metrics. Nil: it has none. The error
// says where an annotation is wrong.
func (d *Dump) Stages(a *autoscalingv2.HorizontalPodAutoscaler) (*setpointv1.Stages, error) {
	if stages, known := d.stages[a]; known {
		return stages, nil
	}
	return autoscalingv1.AnnotatedStages(a.Annotations)
}

// Fleet returns the fleet that one of the dump's autoscalers is a member of, as its spec or its annotation
// says; empty: of none.
func (d *Dump) Fleet(a *autoscalingv2.HorizontalPodAutoscaler) (string, error) {
	if name, known := d.fleets[a]; known {
		return name, nil
	}
	return autoscalingv1.AnnotatedFleet(a.Annotations)
}

// SpecFallbacks returns how many of the fallbacks of an autoscaler's Stages, the last ones, are those of metrics of its spec.
func (d *Dump) SpecFallbacks(a *autoscalingv2.HorizontalPodAutoscaler) int { return d.fallbacks[a] }
