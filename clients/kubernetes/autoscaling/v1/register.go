package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is the kind of an [Autoscaler].
const Kind = "Autoscaler"

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "autoscaling.setpoint.dev", Version: "v1"}

// Resource is the API resource of Autoscalers.
var Resource = GroupVersion.WithResource("autoscalers")

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the types of this package to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Autoscaler{}, &AutoscalerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
