package decision

import (
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/store"
)

// ParseTarget parses a valid resource name of a target.
func ParseTarget(name string) store.Key {
	parsed, _ := target.Parse(name)
	return store.Key(parsed)
}

// ParseParent reads the parent of a list; "-" stands for all.
func ParseParent(name string) store.Filter {
	cluster, namespace := target.ParseParent(name)
	return store.Filter{Cluster: cluster, Namespace: namespace}
}
