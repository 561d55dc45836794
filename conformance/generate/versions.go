package generate

import "fmt"

// version describes the features of a Kubernetes version's API and controller in which
// scenarios differ. A share of 0 never uses the feature.
type version struct {
	name string
	// behavior is the share of specs with spec.behavior, there since v1.18.
	behavior float64
	// containerResource is how often a metric is of that type, relative to a Resource
	// metric. It is on by default since v1.27; older controllers lack the type.
	containerResource float64
	// tolerance is the share of rules with a tolerance of their own, in effect by
	// default since v1.35; an older API drops it.
	tolerance float64
	// podLevel and sidecars are shares of pod templates with pod-level requests
	// and restartable init containers; an older API drops either field.
	podLevel, sidecars float64
	// scaleToZero is the share of scenarios with that feature, which came in v1.16.
	scaleToZero float64
	// capsTotals reports whether totals of series that overflow are capped, and so do
	// not depend on the processor.
	capsTotals bool
}

var versions = []version{
	{"v1.37", 0.6, 0.5, 0.25, 0.2, 0.25, 0.7, true},
	{"v1.36", 0.6, 0.5, 0.25, 0.2, 0.25, 0.35, true},
	{"v1.28", 0.6, 0.5, 0.02, 0.02, 0.1, 0.35, false},
	{"v1.19", 0.6, 0.01, 0.02, 0.01, 0.02, 0.25, false},
	{"v1.15", 0, 0.01, 0, 0.01, 0.02, 0, false},
}

// Versions returns the names of the supported Kubernetes versions, the newest first.
func Versions() []string {
	names := make([]string, len(versions))
	for i := range versions {
		names[i] = versions[i].name
	}
	return names
}

func versionByName(name string) (*version, error) {
	for i := range versions {
		if versions[i].name == name {
			return &versions[i], nil
		}
	}
	return nil, fmt.Errorf("version %q is not one of %q", name, Versions())
}
