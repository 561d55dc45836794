package swarm

import (
	"errors"
	"maps"
	"slices"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/settings"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Kind is the kind of all objects. Swarm has no groups of kinds; the service requires one.
const (
	Kind       = "Service"
	apiVersion = "docker.com/v1"
)

// Labels of a service.
const (
	prefix = "setpoint."
	enable = "enable"
	// EnableLabel opts a service in.
	EnableLabel = prefix + enable
)

// form is how labels write settings.
var form = settings.Form{Prefix: prefix, Least: 1, Own: []string{enable}, Measured: settings.Usage(false), Without: map[string]string{"metrics": ""}}

// Rows describes all labels that a service may have.
func Rows() []settings.Row {
	return append([]settings.Row{
		{Key: EnableLabel, Value: "`true` or `false`", Default: "`false`", Meaning: "Opts the service in. Other labels have no effect without it."},
	}, form.Rows()...)
}

// Enabled reports whether a service with these labels has opted in. An invalid value counts as
// opting in, so that it is reported.
func Enabled(labels map[string]string) bool {
	value, there := labels[EnableLabel]
	return there && value != "false"
}

// ours reports whether a label is meant for Setpoint, in whatever case.
func ours(label string) bool {
	return len(label) >= len(prefix) && strings.EqualFold(label[:len(prefix)], prefix)
}

// Idle returns a label of Setpoint on a service that says neither that it opts in nor that it
// doesn't; empty: there is none.
func Idle(labels map[string]string) string {
	if _, there := labels[EnableLabel]; there {
		return ""
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if ours(label) {
			return label
		}
	}
	return ""
}

// Foreign returns the label with which a service has opted in to another autoscaler of Swarm;
// empty: none.
func Foreign(labels map[string]string) string {
	for _, label := range []string{"swarm.autoscaler", "swarm.autoscale", "orbiter"} {
		if labels[label] == "true" {
			return label
		}
	}
	return ""
}

// ParseLabels parses the settings of the service of that name. The error is a *typed.Error, with
// the names of labels.
func ParseLabels(service string, labels map[string]string) (*settings.Settings, error) {
	var p typed.Problems
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if ours(label) && !strings.HasPrefix(label, prefix) {
			p.Add(label, "begins with %s in another case: write it in lower case", prefix)
		}
	}
	tree := settings.Nested(labels, prefix)
	if value, there := tree[enable]; there && value != "true" && value != "false" {
		p.Add(EnableLabel, "must be true or false, not %q", typed.Shorten(labels[EnableLabel], typed.MaxQuoted))
	}
	read, err := form.Read(tree)
	if wrong, ok := errors.AsType[*typed.Error](err); ok {
		p.Under("", wrong.Problems)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if other := Foreign(labels); other != "" {
		read.Warnings = append(read.Warnings, other+" opts in to another autoscaler: where that runs, each undoes the counts of the other")
	}
	read.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{ApiVersion: apiVersion, Kind: Kind, Name: service}
	return read, nil
}
