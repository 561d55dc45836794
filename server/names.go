package server

import (
	"strings"

	"github.com/setpoint-dev/setpoint/store"
)

// parseTarget reads a target's resource name, which validation has found to be one.
func parseTarget(name string) store.Key {
	parts := strings.Split(name, "/")
	if len(parts) != 6 {
		return store.Key{}
	}
	return store.Key{Cluster: parts[1], Namespace: parts[3], Target: parts[5]}
}

// parseParent reads the parent of a list; "-" stands for all.
func parseParent(name string) store.Filter {
	parts := strings.Split(name, "/")
	if len(parts) != 4 {
		return store.Filter{}
	}
	all := func(segment string) string {
		if segment == "-" {
			return ""
		}
		return segment
	}
	return store.Filter{Cluster: all(parts[1]), Namespace: all(parts[3])}
}
