package flight

import (
	"io"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Format is the form of scenarios.
type Format interface {
	// Begin returns a scenario without steps: for a new target if target is nil, else for one
	// with the service's record of it, including its history. It fails for a target that a
	// scenario can't begin with.
	Begin(target *setpointv1.Target) (Scenario, error)
}

// Scenario is a sequence of reconciles of one object.
type Scenario interface {
	// Add adds the next decision. It returns an error if the decision would not replay exactly,
	// and then leaves the scenario unchanged.
	Add(d *agent.Decision) error
	// Steps is the number of decisions.
	Steps() int
	// Bytes is the approximate size of the scenario in memory. Only Add changes it.
	Bytes() int
	// Write writes the scenario as one line of a recording, with one call of w.Write, so that a
	// crash leaves whole lines. It is called once.
	Write(w io.Writer) error
}
