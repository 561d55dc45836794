package agent

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/clients/agent"
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

// kinds are the sources by the kind of their objects.
var kinds = map[string]string{HPA.Kind(): string(HPA), Autoscaler.Kind(): string(Autoscaler)}

// Kinds maps the kinds of objects to their labels in metrics.
func Kinds() map[string]string { return maps.Clone(kinds) }

// Kind is the kind of the source's objects.
func (s Source) Kind() string {
	if s == Autoscaler {
		return "Autoscaler"
	}
	return "HorizontalPodAutoscaler"
}

// Key names an object of the source.
func (s Source) Key(namespace, name string) Key {
	return Key{Kind: s.Kind(), Namespace: namespace, Name: name}
}

// Key names an object.
type Key = agent.Key

// sourceOf is the source of an object.
func sourceOf(key Key) Source { return Source(kinds[key.Kind]) }

// nameOf is the object's in the API.
func nameOf(key Key) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
}
