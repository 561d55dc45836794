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

// decodeOwn reads an Autoscaler as a HorizontalPodAutoscaler and its options; nil: it has none.
func decodeOwn(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, *setpointv1.RecommendOptions, error) {
	var in struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              json.RawMessage `json:"spec"`
		Status            json.RawMessage `json:"status"`
	}
	if err := objectjson.UnmarshalStrict(data, &in, "metadata"); err != nil {
		return nil, nil, err
	}
	// Decode the spec without the type's own UnmarshalJSON, which hides errors so that one bad
	// object does not hide the others of a list.
	type strict autoscalingv1.AutoscalerSpec
	var spec strict
	if len(in.Spec) > 0 {
		if err := objectjson.UnmarshalStrict(in.Spec, &spec); err != nil {
			return nil, nil, fmt.Errorf("spec: %w", err)
		}
	}
	out := newAutoscaler(in.ObjectMeta)
	out.Spec = spec.HorizontalPodAutoscalerSpec
	if spec.Options == nil {
		return out, nil, nil
	}
	return out, spec.Options.ToProto(), nil
}

// readOwn adds an Autoscaler to the dump.
func readOwn(d *Dump, o object) error {
	var options *setpointv1.RecommendOptions
	err := readAutoscaler(func(data []byte) (out *autoscalingv2.HorizontalPodAutoscaler, err error) {
		out, options, err = decodeOwn(data)
		return out, err
	})(d, o)
	if err == nil {
		d.setOptions(options)
	}
	return err
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
