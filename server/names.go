package server

import (
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/store"
)

// parseTarget reads a target's resource name, which validation has found to be one.
func parseTarget(name string) store.Key {
	parsed, _ := target.Parse(name)
	return store.Key(parsed)
}

// parseParent reads the parent of a list; "-" stands for all.
func parseParent(name string) store.Filter {
	cluster, namespace := target.ParseParent(name)
	return store.Filter{Cluster: cluster, Namespace: namespace}
}
