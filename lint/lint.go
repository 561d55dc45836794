package lint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
)

// Severity says how bad a finding is.
type Severity string

// The severities: what can't work, what is likely not meant, and what is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Severities are all of them, the worst first.
var Severities = []Severity{Error, Warning, Note}

// AtLeast reports whether a severity is as bad as another, or worse.
func (s Severity) AtLeast(other Severity) bool {
	return slices.Index(Severities, s) <= slices.Index(Severities, other)
}

// Page is the address of the rules' page; a rule's anchor is its ID.
const Page = "https://github.com/setpoint-dev/setpoint/blob/main/docs/reference/lint.md"

// Finding is one thing that was found.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// File as the user named it, Object as namespace/name, and Field as a path in the object.
	File   string `json:"file"`
	Object string `json:"object"`
	Field  string `json:"field"`
	// Cluster of a stored spec, empty: it says none, as no manifest does.
	Cluster string `json:"cluster,omitempty"`
	// Line of the field in the file, or of what holds it; 0: not known.
	Line int `json:"line,omitempty"`
	// Message is what was found, Arithmetic how that comes, with the spec's own numbers.
	Message    string `json:"message"`
	Arithmetic string `json:"arithmetic"`
	// Simulated reports whether the engine was run with this spec to find out.
	Simulated bool   `json:"simulated"`
	Link      string `json:"link"`
	// Index is the place of the autoscaler among Linter.Specs: several may have one name.
	Index int `json:"-"`
}

// of is the object, with its cluster if that is known: a target may be in several.
func (f *Finding) of() string {
	if f.Cluster == "" || f.Object == "" {
		return f.Object
	}
	return f.Object + " of cluster " + f.Cluster
}

// Subject is one autoscaler that is looked at.
type Subject struct {
	// File and Name are for findings.
	File, Name string
	// Autoscaler has the API's defaults; what follows says what the user wrote.
	Autoscaler *simulation.Autoscaler
	// Behavior reports whether there is some, Up and Down that it has policies in that direction.
	Behavior, Up, Down bool
	// Workload is what is scaled, nil: not known.
	Workload *Workload
	// Scalers are the first of the other autoscalers with this target, such as "HorizontalPodAutoscaler web", and AllScalers
	// how many there are. Namesake reports whether a HorizontalPodAutoscaler has the name of this Autoscaler.
	Scalers    []string
	AllScalers int
	Namesake   bool
	// Overlaps names the first of the other autoscalers whose workloads select the same pods, and AllOverlaps is how many
	// there are.
	Overlaps    []string
	AllOverlaps int
	// Scenario is the world that it is tried in; nil: rules that need one are left out.
	Scenario *simulation.Scenario
	// Version is the API version of the manifest, empty: autoscaling/v2.
	Version string
	// Manifest reports whether this is a cluster's object, so that its target is one, too.
	Manifest bool
	// Defaulted reports whether the metric is the API server's, because the spec has none.
	Defaulted bool
	// Queried are the metrics that a query of the stored spec reads, such as "External:queue".
	Queried []string
	// Beside is what other objects of the files say.
	Beside Beside
	// Ignore are the IDs of rules that are left out.
	Ignore []string
	// Stages are what the autoscaler has beside HPA's spec, nil: nothing. Now is when that is looked at.
	Stages *stages.Plan
	Now    time.Time
	// Fleet is what this is the spec of, nil: of a single workload. Member is of which fleet the workload is a
	// member, nil: the files have none.
	Fleet  *fleet.Spec
	Member *Membership
}

// Membership is an autoscaler's in a fleet.
type Membership struct {
	// Name is the fleet's, Members how many members it has, in whichever cluster, with the autoscaler's namespace and name.
	Name    string
	Members int
	// Most is how many replicas the fleet gives one of these at most.
	Most int32
	// Metric and Differs say which metric is not the fleet's; empty: they are alike.
	Metric, Differs string
}

// Beside is what other objects say of an autoscaler's target.
type Beside struct {
	// Siblings are the first workloads of the target's kind and namespace, if the target is not among
	// them, and AllSiblings how many there are.
	Siblings    []string
	AllSiblings int
	// ScaledObjects are KEDA's for the same target, without the one that this autoscaler is of.
	ScaledObjects []string
	// Verticals are the VerticalPodAutoscalers of the target that change requests.
	Verticals []Vertical
	// Budgets are the PodDisruptionBudgets that select its pods.
	Budgets []Budget
}

// Vertical is a VerticalPodAutoscaler: Mode is its updateMode, not Off.
type Vertical struct {
	Name, Mode string
	policies   []verticalPolicy
}

type verticalPolicy struct {
	ContainerName       string    `json:"containerName"`
	Mode                string    `json:"mode"`
	ControlledResources *[]string `json:"controlledResources"`
}

// controls reports whether it sets a container's request of a resource; without a name: of any container.
func (v *Vertical) controls(container, resource string) bool {
	sets := func(p *verticalPolicy) bool {
		return p.Mode != "Off" && (p.ControlledResources == nil || slices.Contains(*p.ControlledResources, resource))
	}
	rest := -1
	for i := range v.policies {
		switch p := &v.policies[i]; {
		case p.ContainerName == "*":
			rest = i
		case p.ContainerName == container:
			return sets(p)
		case container == "" && sets(p):
			return true
		}
	}
	return rest < 0 || sets(&v.policies[rest])
}

// Budget is a PodDisruptionBudget: Field is minAvailable or maxUnavailable, Amount a count or a
// percentage.
type Budget struct{ Name, Field, Amount string }

// Workload is what a manifest says of the pods that are scaled.
type Workload struct {
	// Replicas is spec.replicas, nil where it is left out.
	Replicas *int32
	// Applied reports whether the object is a cluster's, not what somebody wrote.
	Applied bool
	// Surge is maxSurge of a Deployment's rolling update, a count or a percentage; empty: 25%.
	Surge string
	// ReadyAfter is how long after its start a pod is ready at the soonest.
	ReadyAfter time.Duration
	// PodRequests reports whether the pod as a whole has requests, in place of its containers'.
	PodRequests bool
	// Containers of spec.template, and Sidecars: its init containers that run on beside them.
	Containers, Sidecars []Container
}

// Container is a container of a workload, with quantities in milli-units by resource.
type Container struct {
	Name             string
	Requests, Limits map[string]int64
}

// Check returns what was found, in the order of Rules.
func Check(ctx context.Context, of *Subject) ([]Finding, error) {
	s := &subject{Subject: *of, given: of, ctx: ctx, namespace: of.Autoscaler.Namespace, spec: &of.Autoscaler.Spec, options: &of.Autoscaler.Options}
	if !s.options.Profile.Behavior() { // what is ignored has no faults
		autoscaler := *of.Autoscaler
		autoscaler.Spec.Behavior = nil
		s.Autoscaler, s.spec, s.Behavior, s.Up, s.Down = &autoscaler, &autoscaler.Spec, false, false, false
	}
	s.Scenario = worldOf(&s.Subject)
	var failed error
	for r := range Rules {
		if slices.Contains(of.Ignore, Rules[r].ID) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.rule = &Rules[r]
		if s.rule.check(s); s.err != nil {
			failed = fmt.Errorf("%s: the scenario with %s/%s: %w", s.File, s.namespace, s.Name, s.err)
			s.Scenario, s.err = nil, nil // the others do without it
		}
	}
	return s.found, failed
}

// subject is a Subject with what was found. Its scenario is as the workload's manifest makes it.
type subject struct {
	Subject
	// given is the Subject with what its profile ignores, too.
	given *Subject
	// namespace, spec and options are the autoscaler's.
	namespace string
	spec      *recommender.Spec
	options   *recommender.Options

	ctx context.Context
	err error // why the scenario can't be run

	rule             *Rule
	found            []Finding
	climbs, descends *way // between the bounds, nil: not tried yet
}

// report notes a finding of the rule at hand.
func (s *subject) report(field, message, arithmetic string) {
	s.found = append(s.found, Finding{
		Rule: s.rule.ID, Severity: s.rule.Severity, File: s.File, Object: s.namespace + "/" + s.Name, Field: field,
		Message: message, Arithmetic: arithmetic, Simulated: s.rule.Simulated, Link: Page + "#" + s.rule.ID,
	})
}
