package crd

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // into legacyscheme
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
)

// Upstream is the API server's result for a posted HorizontalPodAutoscaler.
type Upstream struct {
	// Stored is the object with its defaults.
	Stored *autoscalingv2.HorizontalPodAutoscaler
	// Internal is its internal form, as the API server's printer uses it.
	Internal *autoscaling.HorizontalPodAutoscaler
	// Violations are why it is refused.
	Violations field.ErrorList
}

// Create decodes an object of autoscaling/v2, fills in defaults and validates it, as the
// API server's registry does with default feature gates. It fails if the object can't be
// decoded.
func Create(data []byte) (*Upstream, error) {
	decoded, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(autoscaling.SchemeGroupVersion), data)
	if err != nil {
		return nil, err
	}
	internal, ok := decoded.(*autoscaling.HorizontalPodAutoscaler)
	if !ok {
		return nil, fmt.Errorf("a %T", decoded)
	}
	ctx := request.WithRequestInfo(context.Background(), &request.RequestInfo{
		APIGroup: autoscalingv2.GroupName, APIVersion: "v2", Resource: "horizontalpodautoscalers",
	})
	violations := horizontalpodautoscaler.Strategy.Validate(ctx, internal)
	stored := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := legacyscheme.Scheme.Convert(internal, stored, nil); err != nil {
		return nil, err
	}
	return &Upstream{Stored: stored, Internal: internal, Violations: violations}, nil
}
