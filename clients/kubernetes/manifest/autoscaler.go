package manifest

import (
	"bytes"
	"encoding/json"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// autoscalerKind is the kind of all versions.
const autoscalerKind = "HorizontalPodAutoscaler"

// decodeAutoscaler reads the JSON of one autoscaler of one version, as autoscaling/v2 and what else it has.
type decodeAutoscaler func(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, detail, error)

// oldDecoders are the supported versions before autoscaling/v2.
var oldDecoders = map[schema.GroupVersion]func(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error){
	{Group: "autoscaling", Version: "v2beta2"}: decodeV2beta2,
	{Group: "autoscaling", Version: "v2beta1"}: decodeV2beta1,
	{Group: "autoscaling", Version: "v1"}:      decodeV1,
	{Group: "extensions", Version: "v1beta1"}:  decodeExtensions,
}

// openFields are the fields of an autoscaler in which unknown fields are ignored: the API
// server writes them, and may add more. A typing error in spec is an error.
var openFields = []string{"metadata", "status"}

// decodeV2 reads an object of autoscaling/v2, and the fallbacks of its metrics.
func decodeV2(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, detail, error) {
	var in struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              strictSpec                                  `json:"spec"`
		Status            autoscalingv2.HorizontalPodAutoscalerStatus `json:"status"`
	}
	if err := objectjson.UnmarshalStrict(data, &in, openFields...); err != nil {
		return nil, detail{}, err
	}
	out := &autoscalingv2.HorizontalPodAutoscaler{TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta, Spec: in.Spec.toV2(), Status: in.Status}
	var raw struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(data, &raw); err != nil || !bytes.Contains(raw.Spec, []byte(`"fallback"`)) {
		return out, detail{}, err
	}
	stages, err := autoscalingv1.AnnotatedStages(out.Annotations)
	if err != nil {
		return out, detail{}, nil // which Stages says
	}
	more := detail{staged: true}
	more.stages, more.fallbacks, err = withFallbacks(raw.Spec, stages)
	return out, more, err
}

// newAutoscaler starts the autoscaling/v2 object that an older version becomes.
func newAutoscaler(meta metav1.ObjectMeta) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: autoscalerKind},
		ObjectMeta: meta,
	}
}
