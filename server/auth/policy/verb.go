package policy

import (
	"fmt"
	"strings"
)

// Verb is something that callers do, or a set of them.
type Verb uint8

// The verbs, and their use.
const (
	// Recommend: Recommend, BatchRecommend, StreamRecommend, ReportScale,
	// ReportObservation, GetRecommendation.
	Recommend Verb = 1 << iota
	// Read: GetTarget, ListTargets, ListDecisions, WatchDecisions, GetTargetSpec,
	// ListTargetSpecs.
	Read
	// Delete: DeleteTarget.
	Delete
	// Simulate: Simulate. It concerns no stored target.
	Simulate
	// Configure: SetTargetSpec, DeleteTargetSpec.
	Configure
	// Operate: ListInstances, GetStore, ListCallers of others. It concerns no target.
	Operate
	end

	// Everything is all verbs, in a file "*".
	Everything = end - 1
)

var verbNames = map[string]Verb{"recommend": Recommend, "read": Read, "delete": Delete, "simulate": Simulate, "configure": Configure, "operate": Operate, "*": Everything}

const verbRule = "recommend, read, delete, simulate, configure, operate, *"

// verbOrder is the order in which verbs are written.
var verbOrder = [...]string{"recommend", "read", "delete", "simulate", "configure", "operate"}

// String is the verb as files have it; of a set, the verbs separated by "|".
func (v Verb) String() string {
	return strings.Join(v.Names(), "|")
}

// Names are the verbs of a set as files have them.
func (v Verb) Names() (in []string) {
	for _, name := range verbOrder {
		if v&verbNames[name] != 0 {
			in = append(in, name)
		}
	}
	return in
}

// DeniedError says that a caller may not do something, for PERMISSION_DENIED. Cluster
// and Namespace are as they were asked for, "" or "-" for all; both "" if the call
// concerns none.
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
