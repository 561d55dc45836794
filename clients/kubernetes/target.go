package kubernetes

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/target"
)

// TargetName returns the resource name of the target for the autoscaler namespace/name of
// cluster. Each part must be 1 to 253 characters of [A-Za-z0-9._-] and not ".", ".." or "-".
func TargetName(cluster, namespace, name string) (string, error) {
	for _, part := range []struct{ what, value string }{
		{"cluster", cluster}, {"namespace", namespace}, {"name", name},
	} {
		switch {
		case part.value == "." || part.value == ".." || part.value == "-":
			return "", fmt.Errorf("%s %q: may not be %q", part.what, part.value, part.value)
		case !target.IsSegment(part.value):
			return "", fmt.Errorf("%s %q: must be 1 to 253 characters of [A-Za-z0-9._-]", part.what, part.value)
		}
	}
	return target.Name{Cluster: cluster, Namespace: namespace, Target: name}.String(), nil
}
