package policy

import (
	"fmt"
	"strings"
)

// Verb is a kind of action of callers, or a set of them.
type Verb uint8

// The verbs, and the calls that need them.
const (
	// Recommend: Recommend, BatchRecommend, StreamRecommend, ReportScale,
	// ReportObservation, GetRecommendation, AnnounceAgent.
	Recommend Verb = 1 << iota
	// Read: GetTarget, ListTargets, ListDecisions, WatchDecisions, GetRecording, GetTargetSpec,
	// ListTargetSpecs, ListOverrides.
	Read
	// Delete: DeleteTarget.
	Delete
	// Simulate: Simulate. It concerns no stored target.
	Simulate
	// Configure: SetTargetSpec, DeleteTargetSpec, PromoteShadow.
	Configure
	// Operate: ListInstances, GetStore, ListCallers of others. It concerns no target.
	Operate
	// Override: CreateOverride, DeleteOverride.
	Override
	end

	// Everything is all verbs, in a file "*".
	Everything = end - 1
)

var verbNames = map[string]Verb{"recommend": Recommend, "read": Read, "delete": Delete, "simulate": Simulate, "configure": Configure, "operate": Operate, "override": Override, "*": Everything}

// verbOrder is the order in which verbs are formatted.
var verbOrder = [...]string{"recommend", "read", "delete", "simulate", "configure", "operate", "override"}

// String returns the verb as written in files; for a set, the verbs separated by "|".
func (v Verb) String() string {
	return strings.Join(v.Names(), "|")
}

// Names returns the verbs of a set as written in files.
func (v Verb) Names() (in []string) {
	for _, name := range verbOrder {
		if v&verbNames[name] != 0 {
			in = append(in, name)
		}
	}
	return in
}

// DeniedError means that a caller lacks a permission, for PERMISSION_DENIED. Cluster
// and Namespace are as requested, "" or "-" for all; both "" if the call concerns none.
type DeniedError struct {
	Identity           string
	Verb               Verb
	Cluster, Namespace string
}

func (e *DeniedError) Error() string {
	text := fmt.Sprintf("%s may not %s", e.Identity, e.Verb)
	switch {
	case e.Cluster == "":
		return text
	case isAll(e.Cluster):
		text += " in any cluster"
	default:
		text += fmt.Sprintf(" in cluster %q", e.Cluster)
	}
	if !isAll(e.Namespace) {
		text += fmt.Sprintf(", namespace %q", e.Namespace)
	}
	return text
}
