package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// SpecOptions are the features that the spec may use. The zero value is a cluster with
// default feature gates.
type SpecOptions struct {
	// ScaleToZero allows minReplicas 0, as the HPAScaleToZero feature does.
	ScaleToZero bool
}

// Spec returns what the API server would refuse in a spec that is created, in its
// order; nil for a spec that it would accept. Paths begin with "spec".
//
// Absent fields count as their defaults. A nil spec has no violations: Structure
// requires one. Differences from the API server:
//   - There is no stored object to compare with, so values that an update may leave
//     unchanged (minReplicas 0, an apiVersion without a group) are refused.
//   - A scaleTargetRef is checked only if it is set.
//   - An empty list of policies passes, because the message can't represent one.
//   - A quantity that does not parse is one violation of many; the API server stops at
//     it. quantity.ParseLibrary defines what parses.
//   - The API server lists several forbidden sources of a metric in random order.
//   - minReplicas 0 is told of the option that allows it.
func Spec(spec *setpointv1.HorizontalPodAutoscalerSpec, opts SpecOptions) []Violation {
	if spec == nil {
		return nil
	}
	var c checker
	p := field.NewPath("spec")
	lower := MinReplicas(spec)
	c.replicas(p, lower, spec.GetMaxReplicas(), opts)
	if ref := spec.GetScaleTargetRef(); ref != nil {
		// The only scalable kind of the core group.
		coreGroup := ref.GetKind() == "ReplicationController"
		c.reference(p.Child("scaleTargetRef"), ref, coreGroup)
	}
	c.metrics(p.Child("metrics"), spec.GetMetrics(), lower)
	c.behavior(p.Child("behavior"), spec.GetBehavior())
	return c.violations()
}

// MinReplicas returns minReplicas, which is 1 by default, also of no spec.
func MinReplicas(spec *setpointv1.HorizontalPodAutoscalerSpec) int32 {
	if spec == nil || spec.MinReplicas == nil {
		return 1
	}
	return spec.GetMinReplicas()
}

func (c *checker) replicas(p *field.Path, lower, upper int32, opts SpecOptions) {
	least := int32(1)
	if opts.ScaleToZero {
		least = 0
	}
	switch path := p.Child("minReplicas"); {
	case lower >= least:
	case lower == 0:
		c.invalid(path, lower, "must be greater than or equal to 1; 0 needs the feature HPAScaleToZero: options.scaleToZero, --scale-to-zero or profile v1.37")
	default:
		c.invalid(path, lower, fmt.Sprintf("must be greater than or equal to %d", least))
	}
	switch {
	case upper == 0:
		c.required(p.Child("maxReplicas"), "must be set and greater than 0")
	case upper < 0:
		c.invalid(p.Child("maxReplicas"), upper, "must be greater than or equal to 1")
	}
	if upper < lower {
		c.invalid(p.Child("maxReplicas"), upper, "must be greater than or equal to `minReplicas`")
	}
}

// reference checks the name of an object. coreGroup reports whether its apiVersion may
// lack a group.
func (c *checker) reference(p *field.Path, ref *setpointv1.CrossVersionObjectReference, coreGroup bool) {
	c.pathSegment(p.Child("kind"), ref.GetKind(), "")
	c.pathSegment(p.Child("name"), ref.GetName(), "")
	version, err := schema.ParseGroupVersion(ref.GetApiVersion())
	switch {
	case err != nil:
		c.invalid(p.Child("apiVersion"), ref.GetApiVersion(), err.Error())
	case version.Group == "" && !coreGroup:
		c.invalid(p.Child("apiVersion"), ref.GetApiVersion(), "apiVersion must specify API group")
	}
}

// pathSegment checks a name that becomes a segment of a URL. missing is the message for
// an empty one.
func (c *checker) pathSegment(p *field.Path, name, missing string) {
	if name == "" {
		c.required(p, missing)
		return
	}
	for _, detail := range content.IsPathSegmentName(name) {
		c.invalid(p, name, detail)
	}
}
