package agent

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// Source is a kind of object that the agent serves.
type Source string

// The sources.
const (
	// HPA are HorizontalPodAutoscalers of autoscaling/v2.
	HPA Source = "hpa"
	// Autoscaler are Autoscalers of autoscaling.setpoint.dev/v1.
	Autoscaler Source = "autoscaler"
)

// Kind is the kind of the source's objects.
func (s Source) Kind() string {
	if s == Autoscaler {
		return "Autoscaler"
	}
	return "HorizontalPodAutoscaler"
}

// Key names an object.
type Key struct {
	Source    Source
	Namespace string
	Name      string
}

// String is the key as messages have it: the kind, the namespace and the name.
func (k Key) String() string { return k.Source.Kind() + " " + k.Namespace + "/" + k.Name }

// name is the object's in the API.
func (k Key) name() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// compareKeys orders keys by namespace, name and source.
func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Source, b.Source))
}
