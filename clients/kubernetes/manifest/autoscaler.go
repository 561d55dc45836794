package manifest

import (
	"io"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// autoscalerKind is the kind of all versions.
const autoscalerKind = "HorizontalPodAutoscaler"

// decodeAutoscaler reads the JSON of one HorizontalPodAutoscaler of one version.
type decodeAutoscaler func(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error)

// autoscalerDecoders are the supported versions.
var autoscalerDecoders = map[schema.GroupVersion]decodeAutoscaler{
	{Group: "autoscaling", Version: "v2"}:      decodeV2,
	{Group: "autoscaling", Version: "v2beta2"}: decodeV2beta2,
	{Group: "autoscaling", Version: "v2beta1"}: decodeV2beta1,
	{Group: "autoscaling", Version: "v1"}:      decodeV1,
	{Group: "extensions", Version: "v1beta1"}:  decodeExtensions,
}

// openFields are the fields of an autoscaler in which unknown fields are ignored: the API
// server writes them, and may add more. A typing error in spec is an error.
var openFields = []string{"metadata", "status"}

// ReadAutoscalers reads manifests: one or more HorizontalPodAutoscalers in YAML documents or
// JSON, of autoscaling/v2, v2beta2, v2beta1, v1 (with its annotations) or extensions/v1beta1,
// singly or in lists. It returns all as autoscaling/v2, converted as by the API server, but not
// defaulted; see [Defaults]. The custom metrics of v1.2, in an annotation of autoscaling/v1 and
// extensions/v1beta1, become Pods metrics; later API servers ignore them. The default namespace
// is "default".
//
// Anything else is an error, as are unknown fields of spec, repeated keys and violations that
// [Validate] finds. The error lists all of them, a line each, with name, the document if there
// are several, and the field.
func ReadAutoscalers(name string, r io.Reader) ([]*autoscalingv2.HorizontalPodAutoscaler, error) {
	var dump Dump
	if err := dump.Read(name, r, Autoscalers); err != nil {
		return nil, err
	}
	return dump.Autoscalers, nil
}

func decodeV2(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	out := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := objectjson.UnmarshalStrict(data, out, openFields...); err != nil {
		return nil, err
	}
	return out, nil
}

// newAutoscaler starts the autoscaling/v2 object that an older version becomes.
func newAutoscaler(meta metav1.ObjectMeta) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: autoscalerKind},
		ObjectMeta: meta,
	}
}
