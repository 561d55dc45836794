package agenttest

import (
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Period is the period of all objects.
const Period = 10 * time.Second

// The replica bounds of all workloads.
const (
	MinReplicas = 2
	MaxReplicas = 10
)

// World is a platform with workloads, as its users see it: the adapter under test reads and
// writes it. It is safe for concurrent use.
type World interface {
	// Platform returns the adapter under test.
	Platform() agent.Watched
	// Create creates a workload and the object that scales it, never evaluated before, and
	// returns the object's key. A recreated object gets another UID.
	Create(w Workload) agent.Key
	// Remove removes both.
	Remove(name string)
	// Want changes the load so that it needs so many replicas.
	Want(name string, replicas int32)
	// Scale changes the count as another user would.
	Scale(name string, replicas int32)
	// Replicas returns the count.
	Replicas(name string) int32
	// Changes returns how often the adapter has changed a workload.
	Changes() int
	// FailReads makes all reads of a decision's inputs fail; nil: they succeed.
	FailReads(err error)
	// FailWrites makes all writes of a count fail; nil: they succeed.
	FailWrites(err error)
	// BeforeWrite calls the function once, right before the next count is written and before
	// the platform sees the write.
	BeforeWrite(func())
}

// Workload is scaled from MinReplicas to MaxReplicas by one metric, of type Resource or
// External, and is on target.
type Workload struct {
	Name     string
	Replicas int32
	// Shadow makes the object a shadow.
	Shadow bool
	// Steady applies the default downscale stabilization of five minutes. Otherwise the count
	// follows the load at once, in both directions and without a limit.
	Steady bool
}
