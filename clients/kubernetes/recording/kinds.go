package recording

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// scaleTargets are the kinds that the cluster of a recording knows.
var scaleTargets = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "Deployment"}:        true,
	{Group: "apps", Kind: "StatefulSet"}:       true,
	{Group: "apps", Kind: "ReplicaSet"}:        true,
	{Group: "", Kind: "ReplicationController"}: true,
}

// knows is Kinds including the scenario's own kinds.
func (s *Scenario) knows(kind schema.GroupKind) error {
	if slices.Contains(s.Kinds, kind.String()) {
		return nil
	}
	return Kinds(kind)
}

// Kinds returns nil for the scale targets that the cluster of a recording knows,
// and for every other kind the error of its REST mapper. It serves as
// [kubernetes.Snapshot.Kinds].
func Kinds(kind schema.GroupKind) error {
	if scaleTargets[kind] {
		return nil
	}
	if kind.Group != "apps" && kind.Group != "" {
		return &meta.NoKindMatchError{GroupKind: kind}
	}
	return &meta.NoResourceMatchError{
		PartialResource: schema.GroupVersionResource{Group: kind.Group, Resource: kind.Kind},
	}
}
