package agenttest

import (
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Period is that of all objects.
const Period = 10 * time.Second

// The bounds of all workloads.
const (
	MinReplicas = 2
	MaxReplicas = 10
)

// World is a platform with its workloads, as those see it who use it: what the adapter
// under test reads and writes. It is safe for concurrent use.
type World interface {
	// Platform returns the adapter under test.
	Platform() agent.Watched
	// Create makes a workload and the object that scales it, never evaluated so far, and
	// returns the object's key. Another object of the same name gets another UID.
	Create(w Workload) agent.Key
	// Remove removes both.
	Remove(name string)
	// Want changes the load so that so many replicas are wanted.
	Want(name string, replicas int32)
	// Scale changes the count as somebody else does.
	Scale(name string, replicas int32)
	// Replicas is the count.
	Replicas(name string) int32
	// Changes is how often the adapter has written anything that changes a workload.
	Changes() int
	// FailReads has everything fail that reads what a decision goes by; nil: nothing.
	FailReads(err error)
	// FailWrites has each write of a count fail; nil: none.
	FailWrites(err error)
	// BeforeWrite calls the function once, when the next count is about to be written, and
	// before the platform sees that.
	BeforeWrite(func())
}

// Workload is one that is made. It is scaled from MinReplicas to MaxReplicas by one metric,
// of type Resource or External, on whose target it is.
type Workload struct {
	Name     string
	Replicas int32
	// Shadow reports whether the object is only watched.
	Shadow bool
	// Steady reports whether what was recommended within five minutes holds the count up, as by
	// default. Else the count follows the load at once, in both directions and however far.
	Steady bool
}
